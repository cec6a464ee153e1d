"""Programs of `benchmarks/`, run small by the tests."""

import os
import subprocess
import sys

from server_process import ROOT


def run_benchmark(name, *flags):
    """What a program printed; it must end with 0 and say nothing on stderr."""
    command = [sys.executable, str(ROOT / "benchmarks" / name), *map(str, flags)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout + ended.stderr
    return ended.stdout
