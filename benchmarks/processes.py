"""Server processes for the robustness benchmarks: started, killed, started again on their port. Linux only (/proc)."""

import asyncio
import contextlib
import http.client
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from servers import HOST, free_port

ROOT = Path(__file__).parent.parent
START_SECONDS = 60.0


class ServerProcess:
    """`python -m serve` with its workers, if it has any.

    Args:
        flags: of its command line, beside host and port.
        port: any free one if absent.
        host: an address of this machine.
    """

    def __init__(self, *flags: str, port: int | None = None, host: str = HOST):
        self.port = free_port() if port is None else port
        self._host = host
        self._command = [sys.executable, "-m", "serve", "--host", host, "--port", str(self.port), *flags]
        self._errors = tempfile.TemporaryFile("w+")
        self._process: subprocess.Popen | None = None

    def start(self) -> None:
        """Start it, and wait until it is ready.

        Raises:
            RuntimeError: it ends, or is not ready in a minute.
        """
        # In a group of its own: it is killed with all its workers, and our Ctrl+C is not theirs.
        options = {"cwd": ROOT, "stdout": subprocess.DEVNULL, "stderr": self._errors, "start_new_session": True}
        self._process = subprocess.Popen(self._command, **options)
        deadline = time.monotonic() + START_SECONDS
        while not is_ready(self.port, self._host):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{' '.join(self._command)} does not start: {self.errors()}")
            time.sleep(0.02)

    def kill(self) -> None:
        """SIGKILL it and all its workers."""
        os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def kill_worker(self, rng: random.Random) -> None:
        """SIGKILL one of its workers, which it then starts anew."""
        while not (workers := self.workers()):  # the last one killed is still being started anew
            time.sleep(0.02)
        os.kill(rng.choice(workers), signal.SIGKILL)

    async def pause(self, rng: random.Random, seconds: float) -> None:
        """Stop it, or one of its workers, wherever it is, and let it go on after a while."""
        chosen = rng.choice(self.workers() or [self.pid])
        os.kill(chosen, signal.SIGSTOP)
        await asyncio.sleep(seconds)
        os.kill(chosen, signal.SIGCONT)

    def stop(self) -> list[str]:
        """Stop it as an operator does, and return what was wrong about it: it must end with 0 and have said nothing."""
        if self._process.poll() is None:
            self._process.terminate()
        try:
            status = self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.kill()
            return ["the server does not stop"]
        said = self.errors()
        return [f"the server ended with {status} and said: {said[-2000:]}"] if status or said else []

    def forget(self) -> None:
        """Drop what it wrote; it has ended."""
        self._errors.close()

    def errors(self) -> str:
        """Return all that it wrote to standard error."""
        self._errors.seek(0)
        return self._errors.read()

    @property
    def pid(self) -> int:
        """Return the number of its process."""
        return self._process.pid

    def workers(self) -> list[int]:
        """Return the processes that serve its port, itself left out."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [int(child) for child in children if b"spawn_main" in _command_line(child)]

    def resident(self) -> int:
        """Return the bytes of memory that it has."""
        return resident(self.pid)

    def seconds(self) -> float:
        """Return for how long its main thread, which does all the work, has computed."""
        return int(Path(f"/proc/{self.pid}/schedstat").read_text().split()[0]) / 1e9

    def open_files(self) -> int:
        """Return how many files and connections it has open."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))


def _command_line(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:  # it has just ended
        return b""


@contextlib.contextmanager
def serving(*flags: str, port: int | None = None, host: str = HOST) -> Iterator[ServerProcess]:
    """Run a server; whoever uses it stops it to hear what was wrong, otherwise it is killed in the end."""
    server = ServerProcess(*flags, port=port, host=host)
    try:
        server.start()
        yield server
    finally:
        with contextlib.suppress(ProcessLookupError, AttributeError):
            server.kill()
        server.forget()


@contextlib.contextmanager
def redis_server() -> Iterator[str]:
    """Run a Redis server that keeps everything in memory alone, and give its URL.

    Raises:
        RuntimeError: it is not installed, or does not start.
    """
    program = shutil.which("redis-server")
    if program is None:
        raise RuntimeError("redis-server is not installed")
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        flags = ["--bind", HOST, "--save", "", "--appendonly", "no", "--dir", directory]
        process = subprocess.Popen([program, "--port", str(port), *flags], stdout=subprocess.DEVNULL)
        try:
            _wait_for_port(port)
            yield f"redis://{HOST}:{port}/0"
        finally:
            process.kill()
            process.wait()


def _wait_for_port(port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection((HOST, port), 1.0):
            return
        time.sleep(0.02)
    raise RuntimeError(f"nothing listens on port {port}")


def is_ready(port: int, host: str = HOST) -> bool:
    """Whether a server answers that it is ready."""
    connection = http.client.HTTPConnection(host, port, timeout=5)
    try:
        connection.request("GET", "/health/ready")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def resident(pid: int) -> int:
    """Return the bytes of memory that a process has."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def conclude(failures: Sequence[str]) -> None:
    """Print the verdict, and end with 1 if anything failed."""
    for failure in failures:
        print(f"- {failure}")
    print("FAILED" if failures else "PASSED")
    raise SystemExit(1 if failures else 0)
