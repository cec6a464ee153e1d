"""Environment steps per second of training: TensorFlow against JAX, same recipe, same machine, one run.

    python benchmarks/train.py
    python benchmarks/train.py --recipe paper --updates 3 --rounds 2

Each backend trains in a process of its own, on one core, in turn: TensorFlow, JAX, TensorFlow, JAX, ... Compilation
is left out (the first updates of each process are not counted) and shown beside it. A ratio is taken within each pair
of turns; the table gives its median and range, and each backend's peak memory.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time

BACKENDS = ("tensorflow", "jax")
WARM_UP = 4  # the paper's critic buffer fills over three updates, each of which compiles anew


def main() -> None:
    arguments = parse_arguments()
    if arguments.worker:
        print(json.dumps(train(arguments.preset, arguments.recipe, arguments.updates)))
        return
    rounds = [{backend: run_worker(backend, arguments) for backend in BACKENDS} for _ in range(arguments.rounds)]
    print_table(arguments, rounds)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="b1-nmn", help="(%(default)s)")
    parser.add_argument("--recipe", default="fast", help="(%(default)s)")
    parser.add_argument("--updates", type=int, default=8, help="timed in each turn (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each backend (%(default)s)")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def train(preset: str, recipe: str, updates: int) -> dict[str, float]:
    """Train on the present backend; seconds and environment steps of the counted updates."""
    import keras

    from nmn_keras import ActorCritic, envs

    class Clock(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            self.ticks = [time.perf_counter()]

        def on_epoch_end(self, epoch, logs=None):
            self.ticks.append(time.perf_counter())

    agent, clock = ActorCritic.from_preset(preset, recipe), Clock()
    count = agent.recipe.episodes_per_update
    agent.fit(preset[:2], episodes=(WARM_UP + updates) * count, verbose=0, callbacks=[clock])
    steps = agent.recipe.rollout_steps or envs.BENCHMARKS[preset[:2]].episode_steps
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "steps_per_second": updates * count * steps / (clock.ticks[-1] - clock.ticks[WARM_UP]),
        "warm_up_seconds": clock.ticks[WARM_UP] - clock.ticks[0],
        "peak_mb": peak,
    }


def run_worker(backend: str, arguments: argparse.Namespace) -> dict[str, float]:
    """One turn in a process of its own, pinned to one core where the system can."""
    pin = ["taskset", "-c", "0"] if sys.platform == "linux" else []
    command = [*pin, sys.executable, __file__, "--worker", "--preset", arguments.preset]
    command += ["--recipe", arguments.recipe, "--updates", str(arguments.updates)]
    environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def print_table(arguments: argparse.Namespace, rounds: list[dict[str, dict[str, float]]]) -> None:
    print(f"{arguments.preset}, {arguments.recipe} recipe, one core, {arguments.updates} updates a turn\n")
    print(
        "| backend | environment steps/s, median (range) | first updates, compiling | peak memory |\n|---|---|---|---|"
    )
    for backend in BACKENDS:
        speeds = [turn[backend]["steps_per_second"] for turn in rounds]
        warm_up = statistics.median(turn[backend]["warm_up_seconds"] for turn in rounds)
        peak = max(turn[backend]["peak_mb"] for turn in rounds)
        print(
            f"| {backend} | {statistics.median(speeds):,.0f} ({min(speeds):,.0f} to {max(speeds):,.0f}) "
            f"| {warm_up:.0f} s | {peak:,.0f} MB |"
        )
    ratios = [turn["jax"]["steps_per_second"] / turn["tensorflow"]["steps_per_second"] for turn in rounds]
    print(
        f"\nJAX over TensorFlow, pair by pair: median {statistics.median(ratios):.2f} "
        f"(range {min(ratios):.2f} to {max(ratios):.2f}, {len(ratios)} pairs)"
    )


if __name__ == "__main__":
    main()
