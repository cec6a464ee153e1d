// An agent on the server: one session, stepped over the stream, resumed where it was when the connection is lost.

import { Channel, Lost } from "./channel.js";
import { Refusal, Unreachable } from "./server.js";

const SHORTEST_WAIT = 250;
const LONGEST_WAIT = 4000;

export class RemoteAgent {
  #server;
  #name;
  #notify;
  #channel = null;
  #session = null;
  #taken = 0;
  #closed = false;
  #connecting = null;
  #forgot = false;

  /**
   * `notify` is called with "connected", "lost" or "forgotten" and a sentence; after "forgotten" the agent's memory is
   * empty and its neuromodulation free. `kept` is what `keep` of an agent before gave, whose session goes on.
   */
  constructor(server, name, notify, kept = null) {
    this.#server = server;
    this.#name = name;
    this.#notify = notify;
    if (kept) [this.#session, this.#taken] = [kept.session, kept.taken];
  }

  async open() {
    await this.#connect();
  }

  /** The action for an observation. `reward` is that of the step before, null at the first. */
  async step(observation, reward) {
    for (;;) {
      await this.#connect();
      // The number makes it safe to ask again: a step that was taken is answered once more and not taken twice.
      const message = { observation, step: this.#taken + 1 };
      if (this.#taken > 0 && reward !== null) message.reward = reward;
      const answer = await this.#patiently(() => this.#channel.ask(message));
      if (answer === null) continue;
      this.#taken = answer.step;
      return answer;
    }
  }

  lock() {
    return this.#change("lock");
  }

  unlock() {
    return this.#change("unlock");
  }

  async reset() {
    await this.#change("reset");
    this.#taken = 0;
  }

  /** What another agent needs to go on with the session. */
  keep() {
    return { session: this.#session, taken: this.#taken };
  }

  /** The page goes away. Its browser closes the connection in its own way, which leaves the session to who resumes it. */
  leave() {
    this.#closed = true;
  }

  /** Ends the session. */
  close() {
    this.#closed = true;
    this.#channel?.close();
  }

  async #change(verb) {
    for (;;) {
      await this.#connect();
      const answer = await this.#patiently(() => this.#server.request("POST", `v1/sessions/${this.#session}/${verb}`));
      if (answer !== null) return;
    }
  }

  /** The answer to a question; null if it has to be put again, which what the server says may ask us to wait for. */
  async #patiently(question) {
    try {
      const answer = await question();
      if (answer?.detail && answer.status) throw new Refusal(answer);
      return answer;
    } catch (error) {
      if (error.forgotten) this.#forget(error);
      else await this.#bear(error, SHORTEST_WAIT);
      return null;
    }
  }

  /** Be connected with the session, however long it takes. Who asks meanwhile waits for the same. */
  #connect() {
    if (this.#channel?.open) return Promise.resolve();
    this.#connecting ??= this.#keepTrying().finally(() => (this.#connecting = null));
    return this.#connecting;
  }

  async #keepTrying() {
    for (let wait = SHORTEST_WAIT; ; wait = Math.min(2 * wait, LONGEST_WAIT)) {
      if (this.#closed) throw new Lost("The session was ended.");
      try {
        if (this.#session === null) await this.#create();
        return await this.#resume();
      } catch (error) {
        if (error.forgotten && this.#session !== null) this.#forget(error);
        else await this.#bear(error, wait);
      }
    }
  }

  /** Say what went wrong and wait, if that helps. */
  async #bear(error, wait) {
    const passing = error instanceof Lost || error instanceof Unreachable || error.retryAfter;
    if (!passing) throw error;
    if (!this.#closed) this.#notify("lost", `${error.message} Trying again.`);
    await sleep(error.retryAfter ? 1000 * error.retryAfter : wait);
  }

  async #create() {
    this.#session = (await this.#server.request("POST", `v1/agents/${this.#name}/sessions`)).session;
    this.#taken = 0;
  }

  async #resume() {
    const path = `v1/agents/${this.#name}/stream?session=${this.#session}&include=z`;
    const channel = new Channel(this.#server.socket(path), () => {});
    let described;
    try {
      described = await channel.receive();
    } catch (error) {
      // A browser does not say why a handshake was refused; HTTP does.
      await this.#server.request("GET", `v1/sessions/${this.#session}`);
      throw error;
    }
    if (this.#closed) channel.close();
    // The last step may have been taken without its answer reaching us; then it is asked for again.
    if (described.step !== this.#taken + 1) this.#taken = described.step;
    channel.onLost = () => this.#reconnect();
    this.#channel = channel;
    if (this.#taken > 0) this.#notify("connected", `Connected again; the agent remembers its ${this.#taken} steps.`);
    else if (!this.#forgot) this.#notify("connected", "Connected.");
    this.#forgot = false;
  }

  /** Also while nobody asks for steps a lost connection is said and mended. */
  #reconnect() {
    if (this.#closed) return;
    this.#notify("lost", "The connection was lost. Trying again.");
    this.#connect().catch(() => {}); // who steps next will be told
  }

  #forget(error) {
    this.#channel?.close();
    this.#channel = null;
    this.#session = null;
    this.#taken = 0;
    this.#forgot = true;
    this.#notify("forgotten", `${error.message} The agent goes on with an empty memory.`);
  }
}

function sleep(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
