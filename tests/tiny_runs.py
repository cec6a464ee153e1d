"""Runs of `nmn train` that take seconds: real ones, of benchmark 1 with the published network."""

import shutil
from pathlib import Path

from nmn_keras import cli

ROLLOUT = "--episodes-per-update 4 --segment-steps 10"
VALIDATION = "--validation-episodes 3 --validation-freq"
OPTIONS = {
    "fast": f"b1-nmn --recipe fast --seed 0 --episodes 32 {ROLLOUT} --rollout-steps 20 --epochs 1"
    f" --minibatches-per-epoch 2 {VALIDATION} 4",
    "paper": f"b1-nmn --recipe paper --seed 1 --episodes 4 {ROLLOUT} --trained-steps 20 --actor-epochs 1"
    f" --critic-epochs 1 --critic-minibatch 2 --critic-batches 1 --gradient-norm 10 {VALIDATION} 2",
}
UPDATES = {"fast": 8, "paper": 1}
TEST_EPISODES = 4


def train(kind: str, directory: Path) -> Path:
    """Train in this process and give the run directory."""
    arguments = f"train {OPTIONS[kind]} --test-episodes {TEST_EPISODES} --quiet".split()
    status = cli.main([*arguments, "--run-dir", str(directory / kind)])
    if status:
        raise RuntimeError(f"nmn train gave {status}")
    return directory / kind


def tree(directory: Path) -> dict[str, bytes]:
    """Everything below a directory."""
    return {str(p.relative_to(directory)): p.read_bytes() for p in directory.rglob("*") if p.is_file()}


def copy(run: Path, target: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(run, target))
