// Code that plays one step of an agent, to copy.

export function snippetsOf({ name, observation }, origin) {
  const zeros = `[${observation.low.map(() => "0.0").join(", ")}]`;
  return { Python: python(name, zeros, origin), curl: curl(name, zeros, origin), JavaScript: javascript(name, zeros, origin) };
}

function python(name, zeros, origin) {
  return `from nmn_keras.client import AgentClient  # pip install "nmn_keras[client]"

with AgentClient("${origin}", "${name}") as client:
    action = client.step(${zeros})
    action = client.step(${zeros}, 0.0)  # the reward of the step before`;
}

function curl(name, zeros, origin) {
  return `curl -X POST ${origin}/v1/agents/${name}/sessions
curl --json '{"observation": ${zeros}}' ${origin}/v1/sessions/SESSION/step
curl --json '{"observation": ${zeros}, "reward": 0.0}' ${origin}/v1/sessions/SESSION/step`;
}

function javascript(name, zeros, origin) {
  return `const stream = new WebSocket("${origin.replace(/^http/, "ws")}/v1/agents/${name}/stream");
stream.onmessage = ({ data }) => {
  const { action, step } = JSON.parse(data); // the first message describes the session
  if (action) console.log(step, action);
  if (!action) stream.send(JSON.stringify({ observation: ${zeros} }));
};`;
}
