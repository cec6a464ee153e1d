"""One attempt at a job, on whatever node of a cluster: alone in its run directory, and over when its worker is.

It needs no Ray: `cluster.py` makes a Ray task of it. Started as a program, `python -m nmn_keras.attempt PID WORD...`,
it becomes the command WORD... that the worker with process number PID waits for.
"""

import contextlib
import ctypes
import hashlib
import importlib.metadata
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import nmn_keras
from nmn_keras import checkpoint
from nmn_keras.sweep import Job

BEGUN = "--- on "
"""How the line begins that each attempt writes to the log."""
_PACKAGE = Path(nmn_keras.__file__).parent
_LIBRARIES = ("numpy", "keras", "tensorflow", "jax", "jaxlib", "gymnasium")
_PR_SET_PDEATHSIG = 1  # prctl(2)
_POLL = 0.1


class Killed(RuntimeError):
    """The process was ended by a signal, as on a machine that is short of memory: worth another attempt."""


class UnfitNode(OSError):
    """A node that would give other numbers, or write them elsewhere."""


@dataclass(frozen=True)
class Sender:
    """What the sender of a job has, which a node must have too."""

    versions: dict[str, str]
    """As `versions()` gives them."""
    python: str
    """The interpreter that stands first in commands; a node takes its own."""
    mark: str
    """Name of a file that lies beside the logs while the jobs run: a node that does not see it has another disk."""


def versions() -> dict[str, str]:
    """What the numbers of a run depend on, but for the processor: our source, Python, the libraries."""
    source = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        source.update(f"{path.relative_to(_PACKAGE)}\n".encode() + path.read_bytes())
    found = {"nmn_keras": f"{nmn_keras.__version__} ({source.hexdigest()[:12]})", "Python": platform.python_version()}
    for name in _LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def check(sender: Sender, directory: Path) -> None:
    """Refuse a node that does not have what the sender has.

    Raises:
        UnfitNode: if a version is not the sender's, or the sender's mark is not seen in `directory`.
    """
    mine, node = versions(), platform.node()
    differ = {
        name: f"{mine.get(name)} on {node}, {sender.versions.get(name)} here"
        for name in sorted({*mine, *sender.versions})
        if mine.get(name) != sender.versions.get(name)
    }
    if differ:
        raise UnfitNode(
            "Every node needs the same nmn_keras, Python and libraries as the machine that the command is typed on, or "
            f"its numbers would be others. Received: {differ}"
        )
    if not (directory / sender.mark).is_file():
        raise UnfitNode(
            "Every node must see the directory of the runs under the same path, such as on NFS. "
            f"Received: {directory}, which {node} does not see or has another of"
        )


def attempt(job: Job, sender: Sender) -> int:
    """Run a job to its end; where an earlier attempt left a checkpoint, go on from there.

    The log is locked for as long as the process lives, so that an attempt which is taken for dead, on a node that is
    cut off, can never write beside the next one: that one waits. A worker that dies takes the process with it (Linux).
    An interrupt is passed on, once.

    Returns:
        The exit status; 130 after an interrupt that came before the process began.

    Raises:
        Killed: if the process was ended by a signal.
        UnfitNode: as `check`.
    """
    check(sender, job.log.parent)
    with open(job.log, "ab", buffering=0) as log, _remembered_interrupt() as interrupted:
        if not _lock(log, interrupted):
            return 130
        log.write(_begun(job))
        command = job.words()
        if command[0] == sender.python:
            command[0] = sys.executable
        process = subprocess.Popen(
            [sys.executable, "-m", "nmn_keras.attempt", str(os.getpid()), *command],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=_variables(job),
            start_new_session=True,
        )
        status = _wait(process, interrupted)
        if status < 0 and not interrupted():
            raise Killed(f"{job.name} was ended by signal {-status}, see {job.log}")
        return status


@contextlib.contextmanager
def _remembered_interrupt():
    """Note a SIGINT instead of being interrupted, so that no process is left alone; gives a function that tells."""
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    previous = signal.signal(signal.SIGINT, lambda signum, frame: came.append(signum))
    try:
        yield lambda: bool(came)
    finally:
        signal.signal(signal.SIGINT, previous)


def _lock(log, interrupted: Callable[[], bool]) -> bool:
    """Wait until no other process has the log; False after an interrupt. Without locks there, do not wait."""
    import fcntl  # Unix alone has it: whoever only imports this module must not need it

    told = False
    while not interrupted():
        try:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if not told:
                log.write(f"another process trains here; {platform.node()} waits for its end\n".encode())
            told = True
            time.sleep(_POLL)
        except OSError as error:
            log.write(f"no lock on this file system ({error}): two attempts at once would not be noticed\n".encode())
            return True
    return False


def _begun(job: Job) -> bytes:
    """The line that tells where and from where on an attempt runs."""
    start = "from the start"
    if job.run_dir is not None and checkpoint.exists(job.run_dir):
        update = json.loads((job.run_dir / checkpoint.INDEX).read_text())["state"]["update"]
        start = f"from the checkpoint of update {update}"
    return f"{BEGUN}{platform.node()} at {time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime())} UTC, {start}\n".encode()


def _variables(job: Job) -> dict[str, str]:
    """The job's, and the way to the very package that was checked."""
    found = job.variables()
    path = [str(_PACKAGE.parent), *filter(None, [found.get("PYTHONPATH")])]
    return {**found, "PYTHONPATH": os.pathsep.join(path)}


def _wait(process: subprocess.Popen, interrupted: Callable[[], bool]) -> int:
    while process.poll() is None and not interrupted():
        time.sleep(_POLL)
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    return process.wait()


def _become(parent: str, *command: str) -> None:
    """Run the command in this process, which dies when the worker does and hears interrupts (Ray's workers do not)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):  # it died before it was asked to tell
        raise SystemExit(f"The worker {parent} is gone.")
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    os.execvp(command[0], command)


if __name__ == "__main__":
    _become(*sys.argv[1:])
