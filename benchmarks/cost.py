"""Where the time of an update goes, and how it grows with episodes, length and width.

    KERAS_BACKEND=jax python benchmarks/cost.py
    KERAS_BACKEND=jax python benchmarks/cost.py --preset b3-nmn --updates 5

Each row is a process of its own on one core: the fast recipe with one number changed. The critic's share is the time of
an update whose actor makes no gradient step, less that of one in which neither does, and so on; what is left is values,
advantages and the final divergence.
"""

import argparse
import dataclasses
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

import numpy as np

CHANGES: dict[str, dict[str, Any]] = {  # row: fields of the recipe, or a factor on the GRUs' units
    "as it is": {},
    "half the episodes (32)": {"episodes_per_update": 32},
    "twice the episodes (128)": {"episodes_per_update": 128},
    "half the length (100 steps)": {"rollout_steps": 100},
    "twice the length (400 steps)": {"rollout_steps": 400},
    "half the width": {"width": 0.5},
    "twice the width": {"width": 2.0},
}


def main() -> None:
    arguments = parse_arguments()
    if arguments.worker is not None:
        print(json.dumps(measure(arguments.preset, CHANGES[arguments.worker], arguments.updates)))
        return
    print(f"    python {' '.join(sys.argv)}\n")
    print(f"{arguments.preset}, fast recipe, {os.environ.get('KERAS_BACKEND', 'tensorflow')}, one core\n")
    print("| | seconds an update | times the first row | rollout | actor | critic | rest | peak memory |")
    print("|---|---|---|---|---|---|---|---|")
    first = None
    for name in CHANGES:
        row = run_worker(name, arguments)
        first = first or row["whole"]
        shares = " | ".join(f"{row[part] / row['whole']:.0%}" for part in ("rollout", "actor", "critic", "rest"))
        print(f"| {name} | {row['whole']:.2f} | {row['whole'] / first:.2f} | {shares} | {row['peak_mb']:,.0f} MB |")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="b3-nmn", help="(%(default)s)")
    parser.add_argument("--updates", type=int, default=5, help="timed in each row (%(default)s)")
    parser.add_argument("--worker", choices=CHANGES, help=argparse.SUPPRESS)
    return parser.parse_args()


def measure(preset: str, change: dict[str, Any], updates: int) -> dict[str, float]:
    """Median seconds of the parts of an update."""
    from nmn_keras import ActorCritic, envs, presets, rollout
    from nmn_keras.run import Run

    architecture, recipe = presets.get(preset)
    fields = dict(change)
    units = tuple(round(u * fields.pop("width", 1.0)) for u in architecture.gru_units)
    recipe = dataclasses.replace(recipe, **fields)
    agent = ActorCritic(dataclasses.replace(architecture, gru_units=units), recipe)
    agent.compile()
    agent.run = Run(updates=10**6, coefficients=recipe.coefficients())
    vector = envs.make_vec(preset[:2], recipe.episodes_per_update)
    generator = np.random.default_rng(0)

    def play():
        steps = recipe.rollout_steps
        policy = lambda *x: [np.asarray(y) for y in agent._policy(*x)]  # noqa: E731
        return rollout.play(vector, policy, agent.architecture, steps, recipe, generator)

    played = play()
    segments = recipe.episodes_per_update * recipe.rollout_steps // recipe.segment_steps
    every, _ = recipe.minibatches(generator, segments, segments)
    none = every[:0]
    coefficients = {name: np.float32(value) for name, value in agent.run.coefficients.items()}

    def learn(actor, critic):
        _, logs = agent._update(played.arrays(), [], (actor, critic), coefficients)
        return float(np.asarray(logs["kl"]))  # waits for the update

    parts = {
        "rollout": play,
        "whole update": lambda: learn(every, every),
        "critic and rest": lambda: learn(none, every),
        "rest": lambda: learn(none, none),
    }
    times: dict[str, list[float]] = {name: [] for name in parts}
    for turn in range(updates + 1):
        for name, part in parts.items():
            begin = time.perf_counter()
            part()
            if turn:  # the first one compiles
                times[name].append(time.perf_counter() - begin)
    median = {name: statistics.median(values) for name, values in times.items()}
    return {
        "whole": median["rollout"] + median["whole update"],
        "rollout": median["rollout"],
        "actor": median["whole update"] - median["critic and rest"],
        "critic": median["critic and rest"] - median["rest"],
        "rest": median["rest"],
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def run_worker(name: str, arguments: argparse.Namespace) -> dict[str, float]:
    """One row in a process of its own, pinned to one core where the system can."""
    pin = ["taskset", "-c", "0"] if sys.platform == "linux" else []
    command = [*pin, sys.executable, __file__, "--worker", name, "--preset", arguments.preset]
    flags = {"TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    done = subprocess.run(
        [*command, "--updates", str(arguments.updates)],
        env={**os.environ, **flags},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
