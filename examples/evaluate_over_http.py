"""Score a served agent on full test episodes, every step of every episode over HTTP.

python examples/evaluate_over_http.py --agent b3-nmn --episodes 1000

One session of the server steps many episodes together (`batch`). `nmn evaluate` scores the same episodes in process.
"""

import argparse
import json
import urllib.error
import urllib.request

import numpy as np

from nmn_keras import evaluate


def main() -> None:
    """Evaluate and print the scores."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="of the server (default: %(default)s)")
    parser.add_argument("--agent", default="b1-nmn", help="name of a served agent (default: %(default)s)")
    parser.add_argument("--episodes", type=int, default=100, help="full test episodes (default: %(default)s)")
    arguments = parser.parse_args()
    agent = ServedAgent(arguments.url, arguments.agent)
    about = agent.about
    scores = evaluate(agent, about["env_id"], episodes=arguments.episodes, env_kwargs=about["env_kwargs"])
    print(json.dumps(scores, indent=1))


class ServedAgent:
    """A served agent under `nmn_keras.evaluate`: the memory stays on the server, in one session for all episodes."""

    def __init__(self, url: str, name: str):
        self.url, self.name = url, name
        self.about = self._call("GET", f"/v1/agents/{name}")

    def initial_state(self, batch_size: int) -> np.ndarray:
        """Open a session; the state that is handed around is an empty one (N, 0)."""
        self.session = self._call("POST", f"/v1/agents/{self.name}/sessions", {"batch": batch_size})["session"]
        self.taken = 0
        return np.zeros((batch_size, 0), np.float32)

    def act(self, observation, prev_action, prev_reward, state, *, rng=None):
        """One step of all episodes; what was played before is what the server answered, so it need not be sent."""
        self.taken += 1
        one = len(observation) == 1
        message = {"observation": observation[0].tolist() if one else observation.tolist(), "step": self.taken}
        if self.taken > 1:
            message["reward"] = float(prev_reward[0, 0]) if one else prev_reward[:, 0].tolist()
        action = self._call("POST", f"/v1/sessions/{self.session}/step", message)["action"]
        return np.asarray([action] if one else action, np.float32), state

    def _call(self, method: str, path: str, message: dict | None = None) -> dict:
        body = None if message is None else json.dumps(message).encode()
        request = urllib.request.Request(self.url + path, body, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise SystemExit(f"The server refused: {json.load(error)['detail']}") from error
        except urllib.error.URLError as error:
            raise SystemExit(f"No server answers at {self.url} ({error.reason}). Start one: make serve") from error


if __name__ == "__main__":
    main()
