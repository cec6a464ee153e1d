"""Play an episode against a running server: the agent adapts online to a task it is not told.

Start the server in one shell (`make serve`, or `python -m serve`), then in another:

    python examples/play_over_http.py                  # 20 steps
    python examples/play_over_http.py --steps 1400     # a whole episode

A server with API keys needs one of them in the environment variable NMN_API_KEY.
Needs only gymnasium and the environments; HTTP is Python's own.
"""

import argparse
import http.client
import json
import os
import sys
import urllib.parse
from typing import Any

import gymnasium
import numpy as np

import nmn_keras.envs  # noqa: F401  (registers the environments)
from nmn_keras.spaces import describe


def main() -> None:
    """Play, and print what happens at every step."""
    arguments = parse_arguments()
    connection = http.client.HTTPConnection(*parse_address(arguments.url), timeout=10)
    try:
        play(connection, arguments.agent, arguments.steps, arguments.seed)
    except BrokenPipeError:  # whoever read our output has gone, as with `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, http.client.HTTPException) as error:
        raise SystemExit(
            f"No server answers at {arguments.url} ({error}). "
            "Start one in another shell: make serve, or python -m serve."
        ) from error
    finally:
        connection.close()


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Play an episode against a running server.")
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="(%(default)s)")
    parser.add_argument("--agent", default="b1-nmn", help="which served agent (%(default)s)")
    parser.add_argument("--steps", type=int, default=20, help="at most so many (%(default)s)")
    parser.add_argument("--seed", type=int, help="of the task and its targets (drawn)")
    return parser.parse_args()


def parse_address(url: str) -> tuple[str, int | None]:
    """Return host and port."""
    try:
        address = urllib.parse.urlsplit(url)
        if address.scheme == "http" and address.hostname and address.path in ("", "/"):
            return address.hostname, address.port
    except ValueError:  # a port that is none
        pass
    raise SystemExit(f"--url must look like http://127.0.0.1:8000. Received: {url}")


def play(connection: http.client.HTTPConnection, agent: str, steps: int, seed: int | None) -> None:
    """Step the environment here and the agent there."""
    card = call(connection, "GET", f"/v1/agents/{agent}", needs=("env_id", "env_kwargs"))
    session = call(connection, "POST", f"/v1/agents/{agent}/sessions", needs=("session",))["session"]
    env = gymnasium.make(card["env_id"], **card["env_kwargs"])
    spaces = describe(env)  # how the environment's observations and actions become rows of numbers
    observation, info = env.reset(seed=seed)
    print(f"{agent} on {card['env_id']}; the task, which it is not told: {info.get('task')}")
    message: dict[str, Any] = {"observation": spaces.row(observation).tolist()}
    rewards: list[float] = []
    ended = False
    while not ended and len(rewards) < steps:
        answer = call(connection, "POST", f"/v1/sessions/{session}/step", message, ("action", "step"))
        action = np.asarray(answer["action"], np.float32)
        observation, reward, terminated, truncated, _ = env.step(spaces.action(action))
        print_step(answer["step"], message["observation"], answer["action"], float(reward))
        rewards.append(float(reward))
        ended = terminated or truncated
        message = {"observation": spaces.row(observation).tolist(), "reward": float(reward)}
    call(connection, "DELETE", f"/v1/sessions/{session}")
    print_summary(rewards)


def call(
    connection: http.client.HTTPConnection, method: str, path: str, message: Any = None, needs: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Send one request over the open connection and return the answer's JSON, which must have the members `needs`."""
    body = None if message is None else json.dumps(message)
    headers = {"Content-Type": "application/json"} if body else {}
    if key := os.environ.get("NMN_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    content = response.read()
    try:
        answer = json.loads(content or b"{}")
    except ValueError:
        answer = None
    known = answer if isinstance(answer, dict) else {}
    if str(known.get("type")).startswith("urn:problem-type:nmn:"):
        raise SystemExit(f"{method} {path} was refused ({response.status}): {known.get('detail')}")
    if answer is not known or response.status >= 300 or any(name not in known for name in needs):
        raise SystemExit(
            f"What answers at {connection.host}:{connection.port} is not python -m serve: to {method} {path} it said "
            f"{response.status} {content[:80]!r}. Choose another --url."
        )
    return known


def print_step(step: int, observation: list[float], action: list[float], reward: float) -> None:
    seen, played = (" ".join(f"{x:8.3f}" for x in values) for values in (observation, action))
    print(f"step {step:4d}   observation {seen}   action {played}   reward {reward:8.3f}")


def print_summary(rewards: list[float]) -> None:
    print(f"{len(rewards)} steps, reward {sum(rewards):.1f} in all")
    if len(rewards) > 10:
        first, rest = rewards[:10], rewards[10:]
        print(f"mean reward: {np.mean(first):.2f} in the first 10 steps, {np.mean(rest):.2f} after")


if __name__ == "__main__":
    main()
