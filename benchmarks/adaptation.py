"""How soon a published b1 agent hits the hidden target, and whether it keeps hitting.

    python benchmarks/adaptation.py
    python benchmarks/adaptation.py --agent b1-rnn

Plays full episodes of benchmark 1 with the deterministic action, each a new task met with empty memory.
"""

import argparse

import numpy as np

from nmn_keras import envs, zoo

WINDOWS = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 10), (10, 20), (20, 200), (200, 800), (800, 1400))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", default="b1-nmn", help="published agent (%(default)s)")
    parser.add_argument("--episodes", type=int, default=1000, help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=123, help="of tasks and targets (%(default)s)")
    arguments = parser.parse_args()
    hits = play(zoo.load(arguments.agent, runtime="onnx"), arguments.episodes, arguments.seed)
    first = np.where(hits.any(axis=0), hits.argmax(axis=0) + 1, np.inf)
    print("| steps | share of hits |\n|---|---|")
    for start, end in WINDOWS:
        print(f"| {start + 1} to {end} | {hits[start:end].mean():.1%} |")
    median, most, last = np.quantile(first, [0.5, 0.9, 1.0], method="higher")
    print(f"\nFirst hit at step {median:.0f} (median), {most:.0f} (90 % of episodes), {last:.0f} (all)")


def play(agent, episodes: int, seed: int) -> np.ndarray:
    """Whether each step of each episode hit: `(1400, episodes)`."""
    env = envs.make_vec("b1", episodes)
    observation, _ = env.reset(seed=seed)
    state = agent.initial_state(episodes)
    action, reward = np.zeros((episodes, 1), "float32"), np.zeros((episodes, 1), "float32")
    hits = []
    for _ in range(envs.BENCHMARKS["b1"].episode_steps):
        action, state = agent.act(observation, action, reward, state)
        observation, rewards, *_ = env.step(action)
        reward = rewards[:, None].astype("float32")
        hits.append(rewards == 10.0)
    return np.array(hits)


if __name__ == "__main__":
    main()
