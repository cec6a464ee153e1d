"""Several runs of one command: one process per core, each with a log of its own. On a cluster: `cluster.py`."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nmn_keras import checkpoint


@dataclass
class Job:
    """One process and where its output goes."""

    name: str
    """What to call it."""
    command: Sequence[str]
    """What to run."""
    log: Path
    """Its output, appended."""
    environment: dict[str, str] = field(default_factory=dict)
    """Variables that it gets beside those of this process."""
    run_dir: Path | None = None
    """The run directory that it writes: where a checkpoint is in it when the job starts, it gets `--resume` too."""

    def words(self) -> list[str]:
        """What to run now; what a run left that was killed before its first checkpoint is removed."""
        if self.run_dir is None:
            return [*self.command]
        if checkpoint.exists(self.run_dir):
            return [*self.command, "--resume"]
        checkpoint.clear_unfinished(self.run_dir)
        return [*self.command]

    def variables(self) -> dict[str, str]:
        """Its whole environment. One thread: more would get in the other processes' way."""
        one_thread = {name: "1" for name in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")}
        given = {**os.environ, **self.environment}
        flags = f"{given.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
        return {**os.environ, **one_thread, **self.environment, "XLA_FLAGS": flags}


@dataclass
class _Running:
    job: Job
    process: subprocess.Popen
    core: int | None
    began: float


def run_jobs(
    jobs: Sequence[Job],
    parallel: int,
    report: Callable[[str], None] = print,
    watch: Callable[[list[str]], None] | None = None,
) -> dict[str, int]:
    """Run jobs, some at a time, each on a core of its own where the system can pin it.

    A SIGINT is passed on to those that run, and the others are not started.

    Args:
        jobs: in the order to start.
        parallel: how many run at a time.
        report: called with a line whenever one starts or ends.
        watch: called with the names of those that run, every tenth of a second.

    Returns:
        Exit statuses by name.

    Raises:
        ValueError: if `parallel` is not positive.
        KeyboardInterrupt: after a SIGINT, when all that ran have ended.
    """
    if parallel < 1:
        raise ValueError(f"At least one job must run at a time. Received: {parallel}")
    cores, waiting, statuses = _cores(parallel), list(jobs), {}
    running: list[_Running] = []
    try:
        while waiting or running:
            while waiting and len(running) < parallel:
                running.append(_start(waiting.pop(0), cores.pop()))
                report(f"{running[-1].job.name}: started, output in {running[-1].job.log}")
            for ended in [one for one in running if one.process.poll() is not None]:
                running.remove(ended)
                cores.append(ended.core)
                statuses[ended.job.name] = status = ended.process.returncode
                report(ending(ended.job, status, time.monotonic() - ended.began))
            if watch:
                watch([one.job.name for one in running])
            time.sleep(0.1)
    except KeyboardInterrupt:
        for one in running:
            one.process.send_signal(signal.SIGINT)
        for one in running:
            status = one.process.wait()
            report(ending(one.job, status, time.monotonic() - one.began))
        raise
    return statuses


def _cores(parallel: int) -> list[int | None]:
    """A core for each job at a time, the first one last; None where there are too few to pin to."""
    available = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return [*reversed(available[:parallel])] if len(available) >= parallel else [None] * parallel


def _start(job: Job, core: int | None) -> _Running:
    job.log.parent.mkdir(parents=True, exist_ok=True)
    with open(job.log, "ab") as log:
        process = subprocess.Popen(
            job.words(),
            stdout=log,
            stderr=subprocess.STDOUT,
            env=job.variables(),
            start_new_session=True,  # a Ctrl-C comes from here, not from the terminal too
        )
    if core is not None:
        os.sched_setaffinity(process.pid, {core})
    return _Running(job, process, core, time.monotonic())


def ending(job: Job, status: int, seconds: float) -> str:
    """What to tell of a job that has ended."""
    said = f"exit status {status}, see {job.log}" if status else "done"
    return f"{job.name}: {said}, {seconds / 60:.1f} min"
