// A WebSocket on which one question at a time is asked and answered.

/** The connection ended before the answer came. */
export class Lost extends Error {}

const CLEAN_CLOSE = 1000;

export class Channel {
  #socket;
  #waiting = null;

  /** `onLost` is called when the connection ends, unless `close` ended it. */
  constructor(socket, onLost) {
    this.#socket = socket;
    this.onLost = onLost;
    socket.addEventListener("message", ({ data }) => this.#settle("resolve", JSON.parse(data)));
    socket.addEventListener("close", () => {
      this.#settle("reject", new Lost("The connection was lost."));
      this.onLost();
    });
  }

  get open() {
    return this.#socket.readyState === WebSocket.OPEN;
  }

  /** The next message from the server. */
  receive() {
    return new Promise((resolve, reject) => {
      if (this.#socket.readyState > WebSocket.OPEN) reject(new Lost("The connection was lost."));
      else this.#waiting = { resolve, reject };
    });
  }

  ask(message) {
    const answer = this.receive();
    this.#socket.send(JSON.stringify(message));
    return answer;
  }

  close() {
    this.onLost = () => {};
    this.#socket.close(CLEAN_CLOSE);
  }

  #settle(how, value) {
    const waiting = this.#waiting;
    this.#waiting = null;
    waiting?.[how](value);
  }
}
