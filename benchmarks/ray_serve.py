"""The server on Ray Serve, on this machine: `deploy/ray-serve.yaml` with other addresses. Linux only (/proc).

    python benchmarks/ray_serve.py --port 8000 --replicas 3 --set store=redis://127.0.0.1:6379/0

starts a Ray of its own and does what `serve run` does, until Ctrl+C. A machine of two cores is taken for one that has
as many as there are replicas.
"""

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from processes import ROOT, is_ready
from servers import HOST, free_port

FILE = ROOT / "deploy" / "ray-serve.yaml"
START_SECONDS, STOP_SECONDS = 180.0, 60.0
QUIETLY = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is reported to Ray's authors
    "RAY_AUTH_MODE": "disabled",  # no token is left in the home
    "RAY_worker_niceness": "0",  # replicas are as important as the servers that they are compared with
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",  # on a busy machine the proxy is given up too early
}
TITLE = b"ray::ServeReplica:"
"""How Ray calls the process of a replica."""


class RayServe:
    """The application on a Ray of its own, whose replicas can be killed.

    Args:
        replicas: how many there are.
        variables: of the environment.
        **arguments: of the application (`serve.ray_app.Arguments`).
    """

    def __init__(self, replicas: int, variables: dict[str, str] | None = None, **arguments: str):
        self.port, self.replicas = free_port(), replicas
        told = [f"{name}={value}" for name, value in arguments.items()]
        command = [sys.executable, __file__, "--port", str(self.port), "--replicas", str(replicas)]
        self._command = [*command, "--set", *told]
        self._environment = {**os.environ, **QUIETLY, "PYTHONPATH": str(ROOT), **(variables or {})}
        self._said = tempfile.TemporaryFile("w+")
        self._process: subprocess.Popen | None = None

    def begin(self) -> None:
        """Start Ray and all replicas, and wait until they answer.

        Raises:
            RuntimeError: it ends, or does not get ready.
        """
        options = {"cwd": ROOT, "stdout": self._said, "stderr": self._said, "start_new_session": True}
        self._process = subprocess.Popen(self._command, env=self._environment, **options)
        self.start()

    def start(self) -> None:
        """Wait until as many replicas as there should be have started: Ray replaces those that were killed.

        Raises:
            RuntimeError: it ends, or does not get ready.
        """
        deadline = time.monotonic() + START_SECONDS
        while len(self.workers()) < self.replicas or not is_ready(self.port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{' '.join(self._command)} does not start: {self.said()[-3000:]}")
            time.sleep(0.1)

    def kill_worker(self, rng: random.Random) -> None:
        """SIGKILL a replica; there must be one."""
        os.kill(rng.choice(self.workers()), signal.SIGKILL)

    def workers(self) -> list[int]:
        """Return the processes of the replicas: those of this Ray, there may be others on the machine."""
        parents, titled = {}, []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                with contextlib.suppress(OSError):  # it has just ended
                    parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                    if (entry / "cmdline").read_bytes().startswith(TITLE):
                        titled.append(int(entry.name))
        return [pid for pid in titled if self._is_ours(pid, parents)]

    def _is_ours(self, pid: int, parents: dict[int, int]) -> bool:
        while pid and pid != self._process.pid:
            pid = parents.get(pid, 0)
        return pid != 0

    def stop(self) -> list[str]:
        """Stop it as an operator does, and return what was wrong about that."""
        if self._process is None:
            return []
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        try:
            status = self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            return ["Ray Serve does not stop"]
        return [f"Ray Serve ended with {status}: {self.said()[-2000:]}"] if status else []

    def kill(self) -> None:
        """End all of its processes."""
        if self._process is not None:
            for pid in self.workers():
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def forget(self) -> None:
        """Drop what it wrote; it has ended."""
        self._said.close()

    def said(self) -> str:
        """Return all that it wrote."""
        self._said.seek(0)
        return self._said.read()


@contextlib.contextmanager
def ray_serving(replicas: int, variables: dict[str, str] | None = None, **arguments: str) -> Iterator[RayServe]:
    """Run the application on Ray Serve; whoever uses it stops it to hear what was wrong."""
    server = RayServe(replicas, variables, **arguments)
    try:
        server.begin()
        yield server
    finally:
        server.stop()  # or its directory would stay
        server.kill()
        server.forget()


def main() -> None:
    """Serve until Ctrl+C."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=8000, help="(%(default)s)")
    parser.add_argument("--replicas", type=int, default=3, help="no more, no fewer (%(default)s)")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="arguments of the application")
    told = parser.parse_args()
    import ray
    import yaml
    from ray.serve.scripts import cli

    config = yaml.safe_load(FILE.read_text())
    config["http_options"] |= {"host": HOST, "port": told.port}
    arguments = config["applications"][0]["args"]
    arguments |= {"replicas": told.replicas, "max_replicas": told.replicas}
    arguments |= dict(pair.split("=", 1) for pair in told.set)
    # A short path: sockets lie below it, whose names may have no more than 107 characters.
    with tempfile.TemporaryDirectory(prefix="nmn-ray-", dir="/tmp") as directory:
        os.environ["TMPDIR"] = directory  # of the replicas too
        ray.init(num_cpus=max(told.replicas, 2), include_dashboard=False, _temp_dir=directory, log_to_driver=False)
        file = Path(directory) / FILE.name
        file.write_text(yaml.safe_dump(config))
        try:
            cli(["run", str(file)])  # until SIGINT; it then ends with 0
        finally:
            ray.shutdown()  # before its directory goes


if __name__ == "__main__":
    main()
