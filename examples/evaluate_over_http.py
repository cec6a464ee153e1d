"""Score a served agent on full test episodes, every step of every episode over HTTP.

python examples/evaluate_over_http.py --agent b3-nmn --episodes 1000

One session of the server steps many episodes together (`batch`). `nmn evaluate` scores the same episodes in process.
Needs `pip install "nmn_keras[client]"`. A key is taken from NMN_API_KEY.
"""

import argparse
import json
import os

import numpy as np

from nmn_keras import evaluate
from nmn_keras.client import AgentClient, NoAnswer, ServerError


def main() -> None:
    """Evaluate and print the scores."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="of the server (default: %(default)s)")
    parser.add_argument("--agent", default="b1-nmn", help="name of a served agent (default: %(default)s)")
    parser.add_argument("--episodes", type=int, default=100, help="full test episodes (default: %(default)s)")
    parser.add_argument("--transport", choices=("http", "websocket"), default="http", help="(default: %(default)s)")
    arguments = parser.parse_args()
    try:
        scores = score(arguments)
    except (NoAnswer, ServerError) as error:
        raise SystemExit(f"{error} (make serve starts a server)") from error
    except ValueError as error:
        raise SystemExit(str(error)) from error
    print(json.dumps(scores, indent=1))


def score(arguments: argparse.Namespace) -> dict:
    reach = {"transport": arguments.transport, "api_key": os.environ.get("NMN_API_KEY")}
    agent = ServedAgent(arguments.url, arguments.agent, **reach)
    card = agent.client.card
    try:
        return evaluate(agent, card["env_id"], episodes=arguments.episodes, env_kwargs=card["env_kwargs"])
    finally:
        agent.client.close()


class ServedAgent:
    """A served agent under `nmn_keras.evaluate`: the memory stays on the server, in one session for all episodes."""

    def __init__(self, *reach, **options):
        self.reach, self.options = reach, options
        self.client = AgentClient(*reach, **options)

    def initial_state(self, batch_size: int) -> np.ndarray:
        """Open a session of that many episodes; the state that is handed around is an empty one (N, 0)."""
        self.client.close()
        self.client = AgentClient(*self.reach, batch=batch_size, **self.options)
        return np.zeros((batch_size, 0), np.float32)

    def act(self, observation, prev_action, prev_reward, state, *, rng=None):
        """One step of all episodes; what was played before is what the server answered, so it need not be sent."""
        reward = prev_reward[:, 0] if self.client.steps else None
        if len(observation) > 1:
            return self.client.step(observation, reward), state
        return self.client.step(observation[0], None if reward is None else reward[0])[np.newaxis], state


if __name__ == "__main__":
    main()
