"""How soon a published b1 agent hits the hidden target, and whether it keeps hitting.

    python benchmarks/adaptation.py
    python benchmarks/adaptation.py --agent b1-rnn

Plays full episodes of benchmark 1 with the deterministic action, each a new task met with empty memory.
"""

import argparse

import numpy as np

from nmn_keras import envs, zoo
from nmn_keras.analysis.recording import record
from nmn_keras.evaluation import TEST_SEED

LAST = 300
"""Steps without a hit at the end of an episode that count as standing on misses."""
WINDOWS = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 10), (10, 20), (20, 200), (200, 800), (800, 1400))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", default="b1-nmn", help="published agent (%(default)s)")
    parser.add_argument("--episodes", type=int, default=1000, help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=TEST_SEED, help="of the episodes (%(default)s)")
    arguments = parser.parse_args()
    agent, steps = zoo.load(arguments.agent, runtime="onnx"), envs.BENCHMARKS["b1"].episode_steps
    hits = record(agent, "b1", arguments.episodes, steps, seed=arguments.seed).rewards == 10.0
    first = np.where(hits.any(axis=0), hits.argmax(axis=0) + 1, np.inf)
    print("| steps | share of hits |\n|---|---|")
    for start, end in WINDOWS:
        print(f"| {start + 1} to {end} | {hits[start:end].mean():.1%} |")
    median, most, last = np.quantile(first, [0.5, 0.9, 1.0], method="higher")
    print(f"\nFirst hit at step {median:.0f} (median), {most:.0f} (90 % of episodes), {last:.0f} (all)")
    print(f"No hit in the last {LAST} steps: {(~hits[-LAST:].any(axis=0)).mean():.1%} of episodes")


if __name__ == "__main__":
    main()
