"""The jobs of a sweep as tasks on a Ray cluster: Ray says where and when each runs and repeats what was lost."""

import contextlib
import dataclasses
import functools
import importlib.util
import logging
import os
import re
import socket
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from nmn_keras import attempt, sweep
from nmn_keras.sweep import Job

RETRIES = 10
"""How often a job is begun anew after its node, worker or process was killed."""
EVERY = 1.0
"""Seconds from one look at the logs to the next."""
_CARRIED = ("XLA_FLAGS", "JAX_", "TF_")
"""Variables, or how they begin, that go to the nodes: what computes the numbers hears them."""
_BEGUN = re.compile(rf"^{attempt.BEGUN}(\S+) at .* UTC, (.*)$", re.MULTILINE)


def runner(address: str | None, parallel: int | None) -> Callable[..., dict[str, int]]:
    """`run_jobs` on this machine's cores or, where an address is given, on a cluster.

    Args:
        address: of a Ray cluster, as `run_jobs` takes it; None = this machine alone.
        parallel: how many run at a time on this machine; None = one per core.

    Returns:
        A function of `jobs`, `report` and `watch`.

    Raises:
        ValueError: if both are given.
        ModuleNotFoundError: if there is an address and Ray is not installed.
    """
    if address is None:
        return functools.partial(sweep.run_jobs, parallel=parallel or os.cpu_count() or 1)
    if parallel is not None:
        raise ValueError(
            "On a cluster as many runs go on at a time as it has free cores: `--ray` is accepted without --jobs. "
            f"Received: --jobs {parallel}"
        )
    if importlib.util.find_spec("ray") is None:
        raise ModuleNotFoundError(
            "`--ray` needs Ray, which is not installed: `pip install 'nmn_keras[ray]'`, on every node of the cluster. "
            f"Received: --ray {address}".rstrip()
        )
    return functools.partial(run_jobs, address=address)


def run_jobs(
    jobs: Sequence[Job],
    address: str,
    report: Callable[[str], None] = print,
    watch: Callable[[list[str]], None] | None = None,
) -> dict[str, int]:
    """Run jobs on a Ray cluster, each as a task with one core. Logs and run directories must be on a shared path.

    What was lost with a node, a worker or a killed process is begun again, by Ray, up to 10 times, from its last
    checkpoint. A job that ends with an exit status of its own is not. A SIGINT is passed on to those that run, and the
    others are not started; a second one leaves them to Ray, which ends them as they are.

    Args:
        jobs: in the order to start.
        address: HOST:PORT, "ray://HOST:PORT", "auto", "local" (a new cluster on this machine), or "" = where
            RAY_ADDRESS says, else a cluster that runs on this machine, else a new one on this machine.
        report: called with a line whenever one starts, starts again, or ends.
        watch: called with the names of those that run, every second.

    Returns:
        Exit statuses by name; 1 where a job was lost for good.

    Raises:
        ConnectionError: if there is no cluster at the address.
        attempt.UnfitNode: if a node has another nmn_keras or library, or does not see the directory of the logs.
        KeyboardInterrupt: after a SIGINT, when all that ran have ended.
    """
    carried = {name: value for name, value in os.environ.items() if name.startswith(_CARRIED)}
    sent = {
        job.name: dataclasses.replace(
            job,
            log=job.log.absolute(),
            run_dir=job.run_dir and job.run_dir.absolute(),
            environment={**carried, **job.environment},
        )
        for job in jobs
    }
    sender = attempt.Sender(attempt.versions(), sys.executable, f".nmn-ray-{uuid.uuid4().hex}")
    directories = {job.log.parent for job in sent.values()}
    with _connected(address, report), _marked(directories, sender.mark):
        _check_nodes(sender, directories)
        return _Tasks(sent, sender, report).run(watch)


@contextlib.contextmanager
def _connected(address: str, report: Callable[[str], None]) -> Iterator[None]:
    """Be a driver of the cluster; one that this process started before stays connected."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # heard by a cluster that starts here, and by no other
    import ray

    if ray.is_initialized():
        yield
        return
    try:
        _knock(address or os.environ.get("RAY_ADDRESS", ""))
        context = ray.init(address or None, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError, RuntimeError) as error:
        raise ConnectionError(
            "No Ray cluster could be joined. `--ray` accepts HOST:PORT as `ray start --head` prints it, "
            f"ray://HOST:PORT, auto, local, or no address. Received: {address or os.environ.get('RAY_ADDRESS', '')!r} "
            f"({str(error).strip().splitlines()[0]})"
        ) from error
    try:
        nodes = [node for node in ray.nodes() if node["Alive"]]
        cores = int(sum(node["Resources"].get("CPU", 0) for node in nodes))
        page = f", dashboard at http://{context.dashboard_url}" if context.dashboard_url else ""
        report(f"Ray: {len(nodes)} nodes, {cores} cores{page}")
        yield
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Raise `OSError` at once if nobody listens at an address, where Ray would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


@contextlib.contextmanager
def _marked(directories: set[Path], mark: str) -> Iterator[None]:
    """Keep a file in directories, by which nodes know that they are the same there."""
    for directory in directories:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / mark).touch()
    try:
        yield
    finally:
        for directory in directories:
            (directory / mark).unlink(missing_ok=True)


def _check_nodes(sender: attempt.Sender, directories: set[Path]) -> None:
    """Have every node that is there checked before anything is trained; one that comes later is checked by each job."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    check = ray.remote(num_cpus=0)(_check_all)
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    where = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes]
    try:
        ray.get([check.options(scheduling_strategy=one).remote(sender, directories) for one in where])
    except ray.exceptions.RayTaskError as error:
        raise attempt.UnfitNode(_reason(error)) from error


def _check_all(sender: attempt.Sender, directories: set[Path]) -> None:
    for directory in directories:
        attempt.check(sender, directory)


def _reason(error: BaseException) -> str:
    """The words of an error that came from a node, without its traceback there."""
    cause = getattr(error, "cause", None) or error
    lines = str(cause).strip().splitlines()
    return lines[-1] if "Traceback" in str(cause) else lines[0] if lines else type(cause).__name__


class _Tasks:
    """All jobs, as tasks that Ray has been given.

    Args:
        jobs: by name.
        sender: what nodes must have.
        report: as of `run_jobs`.
    """

    def __init__(self, jobs: dict[str, Job], sender: attempt.Sender, report: Callable[[str], None]):
        import ray

        self.jobs, self.report = jobs, report
        self.read = {name: _size(job.log) for name, job in jobs.items()}
        self.began: dict[str, float] = {}
        self.statuses: dict[str, int] = {}
        options: dict[str, Any] = {"num_cpus": 1, "max_retries": RETRIES, "retry_exceptions": [attempt.Killed]}
        task = ray.remote(**options)(attempt.attempt)
        self.names = {task.options(name=name).remote(job, sender): name for name, job in jobs.items()}

    def run(self, watch: Callable[[list[str]], None] | None) -> dict[str, int]:
        """Wait for all of them."""
        import ray

        waiting = [*self.names]
        try:
            while waiting:
                done, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=EVERY)
                self.look()
                for one in done:
                    self.end(one)
                if watch:
                    watch([name for name in self.began if name not in self.statuses])
        except KeyboardInterrupt:
            for one in waiting:
                ray.cancel(one)
            for one in waiting:
                self.end(one)
            raise
        return {name: self.statuses[name] for name in self.jobs}

    def look(self) -> None:
        """Read in the logs which jobs were begun since the last look."""
        for name, job in self.jobs.items():
            if name in self.statuses or _size(job.log) <= self.read[name]:
                continue
            with job.log.open("rb") as log:
                log.seek(self.read[name])
                lines = log.read().rpartition(b"\n")[0]
            self.read[name] += len(lines)
            for node, start in _BEGUN.findall(lines.decode(errors="replace")):
                again = "started again" if name in self.began else "started"
                self.began.setdefault(name, time.monotonic())
                self.report(f"{name}: {again} on {node}, {start}, output in {job.log}")

    def end(self, one) -> None:
        """Note how a task ended; one that was cancelled before it began is not worth a word."""
        import ray

        name = self.names[one]
        try:
            self.statuses[name] = status = ray.get(one)
        except ray.exceptions.TaskCancelledError:
            self.statuses[name] = 130
            return
        except ray.exceptions.RayError as error:
            self.statuses[name] = status = 1
            self.report(f"{name}: {_reason(error)}")
        self.report(sweep.ending(self.jobs[name], status, time.monotonic() - self.began.get(name, time.monotonic())))


def _size(log: Path) -> int:
    return log.stat().st_size if log.exists() else 0
