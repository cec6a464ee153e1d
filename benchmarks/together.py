"""Several seeds in one compiled program (`nmn train --together`): seconds per update and memory, by number of seeds.

    KERAS_BACKEND=jax python benchmarks/together.py
    KERAS_BACKEND=jax python benchmarks/together.py --preset b2-nmn --seeds 1 15 --updates 3

Each row is a process of its own; on a CPU it is pinned to one core. The first row is one seed as `nmn train` trains it,
its environments in numpy. The first update of each row compiles and is not counted.
"""

import argparse
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import time


def main() -> None:
    arguments = parse_arguments()
    if arguments.worker is not None:
        print(json.dumps(measure(arguments.preset, arguments.worker, arguments.updates)))
        return
    print(f"    python {' '.join(sys.argv)}\n")
    rows = {count: run_worker(count, arguments) for count in (0, *arguments.seeds)}
    print(f"{arguments.preset}, fast recipe, {rows[0]['device']}\n")
    print("| seeds | seconds an update of all, median (range) | a seed | over alone | peak memory | first update |")
    print("|---|---|---|---|---|---|")
    alone = statistics.median(rows[0]["seconds"])
    for count, row in rows.items():
        seconds = statistics.median(row["seconds"])
        each, low, high = seconds / max(count, 1), min(row["seconds"]), max(row["seconds"])
        print(
            f"| {count or '1, environments in numpy'} | {seconds:.2f} ({low:.2f} to {high:.2f}) "
            f"| {each:.2f} | {each / alone:.2f} "
            f"| {row['peak_mb']:,.0f} MB | {row['first']:.0f} s |"
        )


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="b3-nmn", help="(%(default)s)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 5, 15], help="numbers of seeds (%(default)s)")
    parser.add_argument("--updates", type=int, default=5, help="timed in each row (%(default)s)")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def measure(preset: str, count: int, updates: int) -> dict:
    """Seconds of each update of `count` seeds together, or of one alone if that is 0."""
    import jax
    import keras

    from nmn_keras import ActorCritic, lockstep

    agents = [ActorCritic.from_preset(preset, "fast", seed) for seed in range(max(count, 1))]
    ticks = [time.perf_counter()]
    clock = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: ticks.append(time.perf_counter()))
    shared = {"episodes": (updates + 1) * agents[0].recipe.episodes_per_update, "verbose": 0}
    env = preset.partition("-")[0]
    if count:
        lockstep.fit(agents, env, [{**shared, "callbacks": [clock] if i == 0 else []} for i in range(count)])
    else:
        agents[0].fit(env, callbacks=[clock], **shared)
    seconds = [later - earlier for earlier, later in itertools.pairwise(ticks)]
    device = jax.devices()[0]
    return {
        "first": seconds[0],
        "seconds": seconds[1:],
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "device": "one core" if device.platform == "cpu" else device.device_kind,
    }


def run_worker(count: int, arguments: argparse.Namespace) -> dict:
    """One row in a process of its own, pinned to one core where the system can."""
    pin = ["taskset", "-c", "0"] if sys.platform == "linux" else []
    command = [*pin, sys.executable, __file__, "--worker", str(count), "--preset", arguments.preset]
    flags = {"KERAS_BACKEND": "jax", "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"}
    flags["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
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
