// A WebSocket on which one question at a time is asked and answered.

/** The connection ended before the answer came. */
export class Lost extends Error {}

const CLEAN_CLOSE = 1000;

export class Channel {
  #socket;
  #waiting = null;

  constructor(socket) {
    this.#socket = socket;
    socket.addEventListener("message", ({ data }) => this.#settle("resolve", JSON.parse(data)));
    for (const kind of ["close", "error"]) {
      socket.addEventListener(kind, () => this.#settle("reject", new Lost("The connection was lost.")));
    }
  }

  get open() {
    return this.#socket.readyState === WebSocket.OPEN;
  }

  /** The next message from the server. */
  receive() {
    return new Promise((resolve, reject) => {
      if (this.#socket.readyState > WebSocket.OPEN) reject(new Lost("The connection was lost."));
      this.#waiting = { resolve, reject };
    });
  }

  async ask(message) {
    const answer = this.receive();
    this.#socket.send(JSON.stringify(message));
    return answer;
  }

  close() {
    this.#socket.close(CLEAN_CLOSE);
  }

  #settle(how, value) {
    const waiting = this.#waiting;
    this.#waiting = null;
    waiting?.[how](value);
  }
}
