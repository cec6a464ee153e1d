"""The same runs on this machine's cores and on a Ray cluster in it: seconds, what a task adds, memory of the head.

    KERAS_BACKEND=jax python benchmarks/cluster.py
    KERAS_BACKEND=jax python benchmarks/cluster.py --rounds 1 --runs 2 --episodes 640

Each round trains the same seeds four times: locally one and two at a time, on a cluster of one and of two nodes with a
core each, whose head has none. Ratios are of the same round. The clusters stand before the clock starts; that a command
finds and checks them is counted. Then a cluster that has no core is given as many jobs as a large sweep has.
"""

import argparse
import contextlib
import functools
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

from nmn_keras import cluster, sweep
from nmn_keras.sweep import Job

Run = Callable[..., dict[str, int]]


def main() -> None:
    arguments = parse_arguments()
    print(f"    python {' '.join(sys.argv)}\n")
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as directory:
        os.environ["RAY_TMPDIR"] = directory
        os.environ["RAY_worker_niceness"] = "0"  # 15 by default: local runs would have an advantage on a busy machine
        rows = [one_round(arguments, Path(directory) / f"round-{i}") for i in range(arguments.rounds)]
        report(rows, arguments)
        queued(arguments.queued, Path(directory) / "queued")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="b1-nmn", help="(%(default)s)")
    parser.add_argument("--runs", type=int, default=4, help="seeds in each sweep (%(default)s)")
    parser.add_argument("--episodes", type=int, default=2560, help="of each run (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(%(default)s)")
    parser.add_argument("--queued", type=int, default=1000, help="jobs that wait at once (%(default)s)")
    return parser.parse_args()


def one_round(arguments: argparse.Namespace, directory: Path) -> dict[str, float]:
    """Seconds of the four sweeps, and what the largest checkpoint takes."""
    seconds = {}
    for count in (1, 2):
        local = functools.partial(sweep.run_jobs, parallel=count)
        seconds[f"local {count}"] = timed(local, jobs(arguments, directory / f"local-{count}"))
        with ray_cluster(count) as (run, _):
            seconds[f"ray {count}"] = timed(run, jobs(arguments, directory / f"ray-{count}"))
    runs = [*directory.glob("*/run-*")]
    seconds["checkpoint"] = max(
        sum(file.stat().st_size for file in [*run.glob("agent-*"), *run.glob("training-*")]) / 2 for run in runs
    )
    return seconds


def jobs(arguments: argparse.Namespace, directory: Path) -> list[Job]:
    command = [sys.executable, "-m", "nmn_keras.cli", "train", arguments.preset, "--quiet", "--test-episodes", "10"]
    command += ["--episodes", str(arguments.episodes), "--validation-episodes", "0"]
    made = []
    for seed in range(arguments.runs):
        run_dir = directory / f"run-{seed}"
        words = [*command, "--seed", str(seed), "--run-dir", str(run_dir)]
        made.append(Job(run_dir.name, words, directory / f"run-{seed}.log", run_dir=run_dir))
    return made


@contextlib.contextmanager
def ray_cluster(nodes: int) -> Iterator[tuple[Run, int]]:
    """A head without cores and nodes with one; gives how to run jobs there, and the head's process of all state."""
    from ray.cluster_utils import Cluster

    started = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        for _ in range(nodes):
            started.add_node(num_cpus=1)
        head = started.head_node.all_processes["gcs_server"][0].process.pid
        yield functools.partial(cluster.run_jobs, address=started.address), head
    finally:
        started.shutdown()


def timed(run: Run, todo: list[Job]) -> float:
    began = time.perf_counter()
    statuses = run(todo, report=lambda line: None)
    if any(statuses.values()):
        raise SystemExit(f"A run failed: {statuses}, logs in {todo[0].log.parent}")
    return time.perf_counter() - began


def report(rows: list[dict[str, float]], arguments: argparse.Namespace) -> None:
    print(f"{arguments.preset}, {arguments.runs} runs of {arguments.episodes} episodes, {len(rows)} rounds\n")
    print("| at a time | local, s | Ray, s | Ray over local | a run more on Ray, s |\n|---|---|---|---|---|")
    for count in (1, 2):
        local, on_ray = ([row[f"{where} {count}"] for row in rows] for where in ("local", "ray"))
        pairs = [*zip(local, on_ray, strict=True)]
        cells = [spread(local, "{:.1f}"), spread(on_ray, "{:.1f}"), spread([r / m for m, r in pairs], "{:.3f}")]
        cells.append(spread([(r - m) * count / arguments.runs for m, r in pairs], "{:.2f}"))
        print(f"| {count} | {' | '.join(cells)} |")
    print(
        f"\nTwo nodes over one: {spread([row['ray 1'] / row['ray 2'] for row in rows], '{:.2f}')} times as fast; ",
        end="",
    )
    print(f"two local processes over one: {spread([row['local 1'] / row['local 2'] for row in rows], '{:.2f}')}.")
    print(f"A checkpoint: {rows[0]['checkpoint'] / 1e3:,.0f} kB.")


def spread(values: list[float], form: str) -> str:
    median, low, high = (form.format(one) for one in (statistics.median(values), min(values), max(values)))
    return f"{median} ({low} to {high})"


def queued(count: int, directory: Path) -> None:
    """What it takes to have many jobs wait; nothing of them runs, for there is no core."""
    todo = [Job(f"job-{i}", [sys.executable, "-c", ""], directory / f"{i}.log") for i in range(count)]
    with ray_cluster(0) as (run, head):
        before, began, seen = peak_mb(head), time.perf_counter(), []

        def stop(running: list[str]) -> None:
            seen.append(time.perf_counter() - began)
            raise KeyboardInterrupt

        with contextlib.suppress(KeyboardInterrupt):
            run(todo, report=lambda line: None, watch=stop)
        taken_back = time.perf_counter() - began - seen[0]
        print(
            f"{count} jobs waiting: found, checked, handed over and looked at in {seen[0]:.1f} s, taken back in "
            f"{taken_back:.1f} s; peak memory of gcs_server {peak_mb(head):.0f} MB ({before:.0f} MB before), "
            f"of the command {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB"
        )


def peak_mb(pid: int) -> float:
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    main()
