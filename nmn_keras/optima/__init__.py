"""What an agent that knows its task earns on benchmarks 2 and 3, read from tables; numpy only.

Such an agent has nothing to find out, so that no learner beats it on average: it is the ceiling that returns are
shares of. One table `<benchmark>-<spawn exclusion>.npz` for each environment, written by

    python -m nmn_keras.known_task b2
    python -m nmn_keras.known_task b2 --spawn-exclusion 0.6

and the same for b3. `nmn_keras.known_task` says how the numbers come about.
"""

import functools
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class KnownTaskOptima:
    """Returns of optimal control, for the tasks of the published test episodes and averaged over them."""

    tasks: Floats
    """Tasks (N, K), in the order in which `evaluate` plays them with its default seed."""
    discounted: Floats
    """Expected return of each task (N,), discounted as the benchmark's returns are, over a full episode."""
    undiscounted: Floats
    """Expected sum of rewards of each task (N,), over a full episode."""
    errors: Floats
    """Standard error of each of the discounted returns (N,), from simulating it."""
    rewards: Floats
    """Mean reward of each of the first T steps (T,), over tasks."""
    rate: Floats
    """Mean reward of a later step (), over tasks."""

    def mean_return(self, steps: int, discount: float) -> float:
        """Return the expected return of an episode, averaged over the tasks.

        Args:
            steps: length of an episode, from 1.
            discount: gamma, in [0, 1].

        Raises:
            ValueError: if an argument is not accepted.
        """
        if steps < 1 or not 0.0 <= discount <= 1.0:
            raise ValueError(
                "Not an episode's return. steps from 1 and discount in [0, 1] are accepted. "
                f"Received: steps={steps!r}, discount={discount!r}"
            )
        worth = discount ** np.arange(steps, dtype=np.float64)
        first = min(steps, len(self.rewards))
        return float(worth[:first] @ self.rewards[:first] + self.rate * worth[first:].sum())

    def begin_with(self, tasks: NDArray[np.floating]) -> bool:
        """Return whether `tasks` (M, K) are the first M of the table."""
        shown = self.tasks[: len(tasks)]
        return shown.shape == np.shape(tasks) and np.allclose(shown, tasks, atol=1e-6)


def table(name: str, spawn_exclusion: float = 0.0) -> Path:
    """Return where the table of a benchmark is, or would be."""
    return Path(__file__).parent / f"{name}-{float(spawn_exclusion)}.npz"


@functools.cache
def load(name: str, spawn_exclusion: float = 0.0) -> KnownTaskOptima | None:
    """Return the optima of a benchmark, or None where there is no table.

    Args:
        name: short name of the benchmark.
        spawn_exclusion: of its environment.
    """
    path = table(name, spawn_exclusion)
    return read(path) if path.exists() else None


def read(path: Path) -> KnownTaskOptima:
    """Return the optima that `save` wrote."""
    with np.load(path, allow_pickle=False) as data:
        return KnownTaskOptima(**{field.name: data[field.name] for field in fields(KnownTaskOptima)})


def save(optima: KnownTaskOptima, path: Path) -> None:
    """Write optima to a file, which never holds half of them."""
    unfinished = path.with_suffix(".part.npz")
    np.savez_compressed(unfinished, **asdict(optima))
    os.replace(unfinished, path)


def known_task_return(name: str, spawn_exclusion: float, steps: int, discount: float) -> float | None:
    """Return the mean return of an agent that knows its task, see `KnownTaskOptima.mean_return`; None if not known."""
    optima = load(name, spawn_exclusion)
    return optima.mean_return(steps, discount) if optima else None
