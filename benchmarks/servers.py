"""Servers that a benchmark starts, each on its own core, and stops."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

HOST = "127.0.0.1"
ANSWER_SECONDS = 20  # how long one answer may take
START_SECONDS, STOP_SECONDS = 120, 20


class Failed(Exception):
    """What makes a measurement worthless: a server that did not start, an answer that was no success."""


def clearly(main: Callable[[], None]) -> None:
    """Run a benchmark; where there is nothing to report, say why."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # so that the servers are stopped too
    try:
        main()
    except Failed as error:
        sys.exit(f"No result. {error}")


def cores() -> tuple[int, int]:
    """The client's and the servers' core."""
    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0, 1]
    if len(usable) < 2:
        raise Failed("Two cores are needed, one for the client and one for the server.")
    return usable[0], usable[-1]


def post(port: int, path: str, body: bytes = b"") -> bytes:
    """POST JSON and return the body of the answer; for what is not measured.

    Raises:
        Failed: the answer was no success.
    """
    connection = HTTPConnection(HOST, port, timeout=ANSWER_SECONDS)
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json"} if body else {})
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    if not 200 <= answer.status < 300:
        raise Failed(f"POST {path} was answered with {answer.status}: {content[:500]!r}")
    return content


def free_port() -> int:
    """Return a port on which nothing listens."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


@contextmanager
def serving(
    command: Sequence[str],
    ready: Callable[[], object],
    pinned: bool = True,
    directory: Path | None = None,
    **variables: str,
) -> Iterator[None]:
    """Run a server, on its own core, until the block ends.

    Args:
        command: what starts it.
        ready: fails until it can answer.
        pinned: False to let it run on every core.
        directory: where it is started.
        **variables: of its environment.

    Raises:
        Failed: it ended or did not get ready; with the last that it printed.
    """
    pin = ["taskset", "-c", str(cores()[1])] if pinned and sys.platform == "linux" else []
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [*pin, *command],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            _wait(process, ready, log)
            yield
        finally:
            _stop(process)


def _wait(process: subprocess.Popen, ready: Callable[[], object], log) -> None:
    until = time.monotonic() + START_SECONDS
    while True:
        try:
            ready()
            return
        except (OSError, HTTPException, Failed) as error:
            if process.poll() is None and time.monotonic() < until:
                time.sleep(0.1)
                continue
            log.seek(0)
            said = log.read().decode(errors="replace")[-2000:]
            raise Failed(f"{' '.join(process.args)} did not get ready: {error}\n{said}") from error


def _stop(process: subprocess.Popen) -> None:
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS)
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)  # workers that outlived it
    process.wait()
