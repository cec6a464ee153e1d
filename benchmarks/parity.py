"""The same actions by every way: an episode over HTTP, WebSocket and Triton's client, against the agent in process.

    python benchmarks/parity.py
    python benchmarks/parity.py --agent b3-nmn --steps 500

An episode is played in process by `OnnxAgent` in its environment. The observations and rewards that it met are then
sent to a server: to a session over HTTP and over a WebSocket, by Triton's client to a sequence, and to both protocols'
stateless steps, whose memory this side keeps. Each way computes its memory by itself over the whole episode. What is
reported is the largest difference of an action from the one in process, over the agent's action scale.

There are two columns because onnxruntime computes four rows at once differently from one, in the last bit: the server
takes the steps of sessions by fours, so that a row's result does not depend on its company (`serve/steps.py`), and
stateless steps as they come. Over an episode the memory carries the last bit on. Each way must agree with one of them.
"""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass

import gymnasium
import httpx
import numpy as np
from processes import HOST, conclude, serving
from tritonclient.http import InferenceServerClient, InferInput
from websockets.sync.client import connect

import nmn_keras.envs  # noqa: F401  (registers the environments)
from nmn_keras import zoo
from nmn_keras.runtime import OnnxAgent

MOST = 1e-6
"""Largest difference of an action, over the action's scale."""


@dataclass
class Episode:
    """What an agent met and did: T steps."""

    agent: OnnxAgent
    observations: np.ndarray
    """float32 (T, O)."""
    rewards: np.ndarray
    """float32 (T,), each that of the step before; 0 at the first."""
    actions: np.ndarray
    """float32 (T, A), of one row at a time."""

    def actions_by_fours(self) -> np.ndarray:
        """Return the actions for the same observations and rewards, of four equal rows at a time."""
        actions, state = [], self.agent.initial_state(4)
        action = np.zeros((4, self.agent.action_size), np.float32)
        for observation, reward in zip(self.observations, self.rewards, strict=True):
            rows = np.tile(observation, (4, 1)), action, np.full((4, 1), reward)
            action, state = self.agent.act(*rows, state)
            actions.append(action[0])
        return np.array(actions)

    def messages(self) -> list[dict]:
        """Return the steps as JSON messages; numbers go through JSON unchanged."""
        rows = zip(self.observations.tolist(), self.rewards.tolist(), strict=True)
        return [{"observation": observation, "reward": reward} for observation, reward in rows]


def play(agent: OnnxAgent, steps: int | None, seed: int) -> Episode:
    """Play an episode in process, a whole one if `steps` is None."""
    length = {} if steps is None else {"max_episode_steps": steps}
    env = gymnasium.make(agent.env_id, **agent.env_kwargs, **length)
    observation, _ = env.reset(seed=seed)
    state = agent.initial_state(1)
    action, reward, ended = np.zeros((1, agent.action_size), np.float32), np.float32(0.0), False
    observations, rewards, actions = [], [], []
    while not ended:
        observations.append(np.float32(observation))
        rewards.append(reward)
        action, state = agent.act(observations[-1][None], action, [[reward]], state)
        actions.append(action[0])
        observation, reward, terminated, truncated, _ = env.step(action[0].astype(env.action_space.dtype))
        reward, ended = np.float32(reward), terminated or truncated
    return Episode(agent, *(np.array(values, np.float32) for values in (observations, rewards, actions)))


def by_session(episode: Episode, address: str) -> list:
    """Step a session over HTTP."""
    with httpx.Client(base_url=f"http://{address}") as client:
        opened = client.post(f"/v1/agents/{episode.agent.name}/sessions").json()["session"]
        return [
            client.post(f"/v1/sessions/{opened}/step", json=message).json()["action"] for message in episode.messages()
        ]


def by_http_stateless(episode: Episode, address: str) -> list:
    """Step over HTTP with the memory on our side."""
    actions, memory = [], {}
    with httpx.Client(base_url=f"http://{address}") as client:
        for message in episode.messages():
            reward = message.pop("reward")
            sent = {**message, **memory, "prev_reward": reward} if memory else message
            answer = client.post(f"/v1/agents/{episode.agent.name}/step", json=sent).json()
            memory = {"prev_action": answer["action"], "state": answer["state"]}
            actions.append(answer["action"])
    return actions


def by_websocket(episode: Episode, address: str) -> list:
    """Step a session over a WebSocket."""
    actions = []
    with connect(f"ws://{address}/v1/agents/{episode.agent.name}/stream") as socket:
        socket.recv()  # describes the session
        for message in episode.messages():
            socket.send(json.dumps(message))
            actions.append(json.loads(socket.recv())["action"])
    return actions


def by_triton_sequence(episode: Episode, address: str) -> list:
    """Step a sequence with Triton's client."""
    actions, last = [], len(episode.actions) - 1
    with InferenceServerClient(address) as client:
        for taken, (observation, reward) in enumerate(zip(episode.observations, episode.rewards, strict=True)):
            sent = {"observation": observation, **({"prev_reward": reward} if taken else {})}
            flags = {"sequence_id": 7, "sequence_start": taken == 0, "sequence_end": taken == last}
            result = client.infer(episode.agent.name, tensors(**sent), **flags)
            actions.append(result.as_numpy("action")[0])
    return actions


def by_triton_stateless(episode: Episode, address: str) -> list:
    """Step with Triton's client with the memory on our side."""
    actions, agent = [], episode.agent
    action, state = np.zeros(agent.action_size), agent.initial_state(1)
    with InferenceServerClient(address) as client:
        for observation, reward in zip(episode.observations, episode.rewards, strict=True):
            sent = tensors(observation=observation, prev_action=action, prev_reward=reward, state_in=state)
            result = client.infer(agent.name, sent)
            action, state = result.as_numpy("action"), result.as_numpy("state_out")
            actions.append(action[0])
    return actions


def tensors(**arrays: np.ndarray) -> list[InferInput]:
    """Return one row each as inputs of Triton's client."""
    inputs = []
    for name, array in arrays.items():
        row = np.asarray(array, np.float32).reshape(1, -1)
        inputs.append(InferInput(name, list(row.shape), "FP32"))
        inputs[-1].set_data_from_numpy(row)
    return inputs


WAYS: dict[str, Callable[[Episode, str], list]] = {
    "HTTP, session": by_session,
    "HTTP, stateless": by_http_stateless,
    "WebSocket": by_websocket,
    "Triton's client, sequence": by_triton_sequence,
    "Triton's client, stateless": by_triton_stateless,
}


def compare(episode: Episode, address: str) -> dict[str, tuple[float, float]]:
    """Return each way's largest difference from one row at a time and from four, over the action's scale."""
    references = episode.actions, episode.actions_by_fours()
    played = {name: np.array(way(episode, address), np.float32) for name, way in WAYS.items()}
    scale = episode.agent.action_scale
    return {
        name: tuple(float(np.max(np.abs(actions - reference) / scale)) for reference in references)
        for name, actions in played.items()
    }


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", default="b1-nmn", help="published agent (%(default)s)")
    parser.add_argument("--steps", type=int, help="of the episode (as many as it has)")
    parser.add_argument("--seed", type=int, default=0, help="of the task and its environment (%(default)s)")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    print(f"    python {' '.join(sys.argv)}\n")
    episode = play(zoo.load(arguments.agent, runtime="onnx"), arguments.steps, arguments.seed)
    with serving("--agents", arguments.agent) as server:
        found = compare(episode, f"{HOST}:{server.port}")
        failures = server.stop()
    scale = " ".join(f"{value:g}" for value in episode.agent.action_scale)
    print(f"{arguments.agent}, {len(episode.actions):,} steps, action scale {scale}\n")
    print("Largest difference of an action from the one in process, over its scale:\n")
    print("| | in process one row at a time | four rows |\n|---|---|---|")
    for name, (one, four) in found.items():
        print(f"| {name} | {one:.2g} | {four:.2g} |")
    print()
    failures += [f"{name}: {min(both):.2g} is more than {MOST:g}" for name, both in found.items() if min(both) > MOST]
    conclude(failures)


if __name__ == "__main__":
    main()
