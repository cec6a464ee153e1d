// Steps an agent of a running server (make serve) from JavaScript, without dependencies; Node 20 or newer.
//
//     node examples/stream.js [http://127.0.0.1:8000] [b1-nmn] [steps]
//
// Plays benchmark 1: the agent sees a point, shifted by a bias that it is not told, and names the point it believes is
// meant; within 1 of it the reward is 10, else minus the distance. Prints one line of JSON per step. Steps go over a
// WebSocket where there is one (Node 22 and browsers), else over HTTP. NMN_API_KEY is sent if it is set.
"use strict";

const [url = "http://127.0.0.1:8000", agent = "b1-nmn", steps = "20"] = process.argv.slice(2);
const key = process.env.NMN_API_KEY;

async function main() {
  const { session } = await call("POST", `/v1/agents/${agent}/sessions`);
  const stream = globalThis.WebSocket ? await openStream(session) : null;
  const task = movingTarget();
  let message = { observation: task.observation };
  for (let step = 1; step <= Number(steps); step++) {
    message.step = step; // the number of a step makes it safe to repeat
    const answer = stream ? await stream.ask(message) : await repeated("POST", `/v1/sessions/${session}/step`, message);
    const reward = task.play(answer.action[0]);
    console.log(JSON.stringify({ step, observation: message.observation, action: answer.action, reward }));
    message = { observation: task.observation, reward };
  }
  if (stream) stream.close();
  else await call("DELETE", `/v1/sessions/${session}`);
}

// One request, answered by JSON or by a problem in words.
async function call(method, path, message) {
  const headers = { ...(message && { "Content-Type": "application/json" }), ...(key && { Authorization: `Bearer ${key}` }) };
  const response = await fetch(url + path, { method, headers, body: message && JSON.stringify(message) });
  const text = await response.text();
  const answer = text ? JSON.parse(text) : {};
  if (!response.ok) throw new Error(`${answer.detail} (${response.status})`);
  return answer;
}

// A request that may be made twice: again, after growing pauses, while no answer comes (fetch then throws a TypeError).
async function repeated(method, path, message) {
  for (let pause = 200; ; pause *= 2) {
    try {
      return await call(method, path, message);
    } catch (error) {
      if (!(error instanceof TypeError) || pause > 3200) throw error;
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
}

// The session's WebSocket. When it breaks, another one with the same ?session= goes on with the same step.
async function openStream(session) {
  const address = `${url.replace("http", "ws")}/v1/agents/${agent}/stream?session=${session}`;
  // A WebSocket of JavaScript has no headers of its own: the key comes as a subprotocol.
  const socket = new WebSocket(address, key ? ["nmn", `bearer.${key}`] : []);
  const next = () =>
    new Promise((resolve, reject) => {
      socket.onmessage = ({ data }) => resolve(JSON.parse(data));
      socket.onclose = ({ code }) => reject(new Error(`The server closed the stream (${code}).`));
      socket.onerror = () => reject(new Error("The stream broke."));
    });
  await next(); // what session it is
  const ask = async (message) => {
    socket.send(JSON.stringify(message));
    const answer = await next();
    if (answer.status) throw new Error(`${answer.detail} (${answer.status})`);
    return answer;
  };
  return { ask, close: () => socket.close(1000) }; // 1000: the session ends with it
}

function movingTarget() {
  const uniform = (bound) => (2 * Math.random() - 1) * bound;
  const bias = uniform(10);
  const task = { observation: [uniform(5)] };
  task.play = (action) => {
    const distance = Math.abs(action - (task.observation[0] - bias));
    if (distance < 1) task.observation = [uniform(5)];
    return distance < 1 ? 10 : -distance;
  };
  return task;
}

main().catch((error) => {
  console.error(error.message, error.cause ? `(${error.cause.code ?? error.cause})` : "");
  process.exitCode = 1;
});
