"""Real server processes for the tests."""

import contextlib
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import httpx

ROOT = Path(__file__).parent.parent


@dataclass
class Server:
    greeting: str
    process: subprocess.Popen

    @property
    def url(self) -> str:
        return re.search(r"http://[\d.:]+", self.greeting)[0]

    @property
    def grpc(self) -> str:
        """Where it serves over gRPC, once it does: over HTTP it answers after that."""
        httpx.get(f"{self.url}/health/live", timeout=60).raise_for_status()
        return re.search(r"over gRPC is at (\S+)\.$", self.greeting, re.MULTILINE)[1]


@contextlib.contextmanager
def serving(zoo_directory, *flags):
    """A real server on a free port; it must say nothing on stderr and end with 0."""
    command = [sys.executable, "-m", "serve", "--port", "0", "--zoo", str(zoo_directory), *flags]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, cwd=ROOT, text=True, **pipes)
    greeting = ""
    while greeting.count("\n\n") < 2 and (line := process.stdout.readline()):
        greeting += line
    try:
        yield Server(greeting, process)
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=20)
    assert not errors and process.returncode == 0, errors
