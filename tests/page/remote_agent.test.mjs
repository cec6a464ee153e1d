// The page's agent against a server that loses connections, answers and memories at the worst moments.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { RemoteAgent } from "../../serve/page/js/remote_agent.js";
import { Refusal, Unreachable } from "../../serve/page/js/server.js";

globalThis.WebSocket = { OPEN: 1 };

/** Keeps sessions as the real server does: steps are numbered, and the last one can be asked for again. */
class FakeServer {
  sessions = new Map();
  opened = 0;
  log = [];
  /** What happens to the next messages: "lose" the answer after the step, or the "question" before it. */
  accidents = [];
  refusal = null;

  async request(method, path) {
    if (this.refusal) throw this.refusal;
    const [, kind, name, verb] = path.split("/");
    if (kind === "agents") {
      this.opened += 1;
      this.sessions.set(`s${this.opened}`, { step: 0, last: null, locked: false });
      return { session: `s${this.opened}` };
    }
    const session = this.sessions.get(name);
    if (!session) throw new Refusal({ status: 404, detail: "No such session is open." });
    if (verb) this.log.push(verb);
    if (verb === "reset") Object.assign(session, { step: 0, last: null });
    return { step: session.step };
  }

  socket(path) {
    const session = this.sessions.get(new URLSearchParams(path.split("?")[1]).get("session"));
    const socket = new FakeSocket((message) => this.#answer(socket, session, message));
    setTimeout(() => (session ? socket.say({ step: session.step }) : socket.end()));
    this.last = socket;
    return socket;
  }

  #answer(socket, session, message) {
    const accident = this.accidents.shift();
    if (accident === "question") return socket.end();
    if (message.step === session.step + 1) {
      if (session.step > 0 && message.reward === undefined) return socket.say({ status: 422, detail: "reward?" });
      Object.assign(session, { step: message.step, last: JSON.stringify(message) });
      this.log.push(message);
    } else if (message.step !== session.step || JSON.stringify(message) !== session.last) {
      return socket.say({ status: 409, detail: `The next step is ${session.step + 1}.` });
    }
    if (accident === "lose") return socket.end();
    return socket.say({ action: [10 * session.step], step: session.step });
  }
}

class FakeSocket {
  readyState = 1;
  #listeners = { message: [], close: [] };

  constructor(hear) {
    this.hear = hear;
  }

  addEventListener(kind, listener) {
    this.#listeners[kind].push(listener);
  }

  send(text) {
    setTimeout(() => this.hear(JSON.parse(text)));
  }

  say(message) {
    for (const listener of this.#listeners.message) listener({ data: JSON.stringify(message) });
  }

  end() {
    this.readyState = 3;
    for (const listener of this.#listeners.close) listener();
  }

  close(code) {
    this.code = code;
    this.end();
  }
}

let server;
let agent;
let notices;

beforeEach(() => {
  server = new FakeServer();
  notices = [];
  agent = new RemoteAgent(server, "b1-nmn", (state) => notices.push(state));
});

test("steps are numbered and carry the reward of the step before", async () => {
  assert.deepEqual((await agent.step([1], null)).action, [10]);
  assert.deepEqual((await agent.step([2], -3)).action, [20]);
  assert.deepEqual(server.log, [
    { observation: [1], step: 1 },
    { observation: [2], step: 2, reward: -3 },
  ]);
});

for (const accident of ["question", "lose"]) {
  test(`a step whose connection was lost (${accident}) is taken once and answered`, async () => {
    await agent.step([1], null);
    server.accidents = [accident, accident];
    assert.deepEqual((await agent.step([2], 5)).action, [20]);
    assert.equal(server.log.length, 2);
    assert.equal(server.opened, 1);
    assert.deepEqual((await agent.step([3], 5)).step, 3);
    assert.ok(notices.includes("lost") && notices.at(-1) === "connected");
  });
}

test("a lost connection is mended while nobody steps", async () => {
  await agent.step([1], null);
  const before = server.last;
  before.end();
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.notEqual(server.last, before);
  assert.deepEqual(notices, ["connected", "lost", "connected"]);
});

test("a forgotten session is begun anew, without a reward of what it never played", async () => {
  await agent.step([1], null);
  server.sessions.clear();
  server.last.end();
  const answer = await agent.step([2], 5);
  assert.equal(answer.step, 1);
  assert.deepEqual(server.log.at(-1), { observation: [2], step: 1 });
  assert.equal(notices.at(-1), "forgotten");
});

test("after a reset the next step is the first", async () => {
  await agent.step([1], null);
  await agent.step([1], 2);
  await agent.reset();
  assert.equal((await agent.step([4], null)).step, 1);
});

test("what the server refuses is thrown in its words, what passes is waited for", async () => {
  server.refusal = new Unreachable("The server does not answer.");
  const opening = agent.open();
  setTimeout(() => (server.refusal = null), 50);
  await opening;
  assert.deepEqual(notices, ["lost", "connected"]);
  server.refusal = new Refusal({ status: 409, detail: "It has no neuromodulation." });
  await assert.rejects(agent.lock(), /no neuromodulation/);
});

test("closing ends the session and all waiting", async () => {
  await agent.step([1], null);
  agent.close();
  assert.equal(server.last.code, 1000);
  await assert.rejects(agent.step([1], 1), /ended/);
  assert.ok(!notices.includes("lost"));
});
