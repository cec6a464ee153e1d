"""Optimal control of benchmarks 2 and 3 by an agent that knows its task; the ceiling of what a learner can earn.

An agent that knows the task faces an ordinary Markov decision process on a torus of two dimensions. Its value function
is found by value iteration on a grid, and its policy looks one move ahead in the exact environment. On a torus every
move is a translation: a bilinear interpolation at all cells at once is four shifted copies of the array, and the wind
of benchmark 2 one average over such translations.

With r the reward and c the share of a cell that lies in a target, the value S of appearing somewhere and the value W
of what follows a move satisfy, discount gamma,

    L(u) = r(u) + gamma (c(u) S + (1 - c(u)) W(u))      the value of being at u
    G(u) = mean over the wind w of L(u + w)             benchmark 3: L(u)
    W(u) = max over directions a of G(u + move(a))
    S    = mean of L over where agents appear.

Discounted value iteration shrinks errors by gamma only, but the part of an error that differs between states by far
more, because a visit to a target forgets where the agent was. So values are kept relative to S, as in relative value
iteration, and MacQueen's bounds (1966) say how far they are from the solution. A solution discounted at the
benchmark's 0.998 is used also for undiscounted returns, where it loses next to nothing.

The policy sees farther than the grid where a formula is at hand: in benchmark 3 whether a move ends in a target. A
grid of 120 instead of 80 cells earns 0.13 % more in benchmark 2 and 0.04 % in benchmark 3, 48 instead of 96 directions
0.04 % and 0.07 % less (24 tasks, 64 episodes each, the same random numbers). In benchmark 3 it earns 99.2 % of a bound
that ignores the bad target on the way to the good one (100 tasks).

The tables of `nmn_keras.optima` are made by

    python -m nmn_keras.known_task b2
    python -m nmn_keras.known_task b2 --spawn-exclusion 0.6

and the same for b3, five to ten minutes each on a free core. Interrupted and started again, it goes on where it was.
"""

import argparse
import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmn_keras import envs, optima
from nmn_keras.envs.dynamics import TwoTargets, WindyNavigation, plane
from nmn_keras.evaluation import TEST_SEED, episode_tasks
from nmn_keras.optima import KnownTaskOptima

Navigation = WindyNavigation | TwoTargets
Floats = NDArray[np.floating]

SIDE = 2.0 * plane.REACH

CELLS = 80
"""Cells of the grid on each side."""
DIRECTIONS = 96
"""Directions that a policy searches; values are found with every other one."""
WINDS = 15
"""Directions that the wind of benchmark 2 is averaged over."""
TOLERANCE = 1.0
"""Largest error of a value, of thousands, when iteration ends."""
SUBCELLS = 4
"""Points on each side of a cell whose mean is its reward and its share in a target."""
MAX_SWEEPS = 5000

FIRST = 200
"""Steps whose mean rewards are told one by one; later ones have long forgotten the start and share one rate."""
EPISODES = 16
"""Episodes that are simulated of each task."""
STEPS = 1500
"""Length of a simulated episode; longer ones are inferred by the rate."""
BLOCK = 20
"""Tasks that are simulated together."""


@dataclasses.dataclass(frozen=True)
class Values:
    """The solution of one task on a grid."""

    task: Floats
    """The task (K,)."""
    ahead: Floats
    """G - S (n, n): the value of moving into each cell, before the wind blows, relative to that of appearing."""
    after: Floats
    """W - S (n, n): the value of what follows a move from each cell, were it in no target."""
    appearing: float
    """S: the value of appearing somewhere, the expected return of an episode without end."""
    sweeps: int
    """Sweeps that it took."""


def centres(cells: int) -> Floats:
    """Return the middles of the cells (n, n, 2)."""
    axis = plane.REACH * (2.0 * (np.arange(cells) + 0.5) / cells - 1.0)
    return np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)


def wrap_margin(tables: Floats, margin: int) -> Floats:
    """Return functions on the torus (..., n, n) with `margin` more cells on each side (..., m, m), m = n + 2 margin."""
    return np.pad(tables, [(0, 0)] * (tables.ndim - 2) + [(margin, margin)] * 2, mode="wrap")


def translate(table: Floats, moves: Floats) -> Iterator[Floats]:
    """Yield the table (n, n) at `u + move` for each move, bilinear.

    Args:
        table: function on the torus (n, n).
        moves: displacements (M, 2).
    """
    cells = len(table)
    offset = moves * (cells / SIDE)
    whole = np.floor(offset).astype(int)
    margin = int(np.abs(whole).max()) + 1
    around = wrap_margin(table, margin)
    for (row, column), (down, right) in zip((whole + margin).tolist(), (offset - whole).tolist(), strict=True):
        upper, lower = around[row : row + cells], around[row + 1 : row + 1 + cells]
        left, beside = slice(column, column + cells), slice(column + 1, column + 1 + cells)
        moved = upper[:, left] * ((1.0 - down) * (1.0 - right))
        moved += upper[:, beside] * ((1.0 - down) * right)
        moved += lower[:, left] * (down * (1.0 - right))
        moved += lower[:, beside] * (down * right)
        yield moved


def interpolate(tables: Floats, margin: int, index: NDArray[np.integer], position: Floats) -> Floats:
    """Return values of functions on the torus at any positions, bilinear, float32.

    Args:
        tables: functions with a margin (F, n + 2 margin, n + 2 margin), see `wrap_margin`.
        margin: cells, enough for the positions that are outside the square.
        index: which function (...).
        position: where (..., 2).
    """
    side = tables.shape[-1]
    cells = side - 2 * margin
    place = (position * (cells / SIDE) + (cells / 2.0 - 0.5 + margin)).astype(np.float32)
    whole = place.astype(np.int32)  # cuts off what follows the point, and there is nothing below 0
    down, right = np.moveaxis(place - whole, -1, 0)
    cell = (index * side + whole[..., 0]) * side + whole[..., 1]
    values = tables.ravel()
    upper, lower = values.take(cell), values.take(cell + side)
    upper += right * (values.take(cell + 1) - upper)
    lower += right * (values.take(cell + side + 1) - lower)
    return upper + down * (lower - upper)


def moves(dynamics: Navigation, directions: int) -> tuple[Floats, Floats]:
    """Return actions (A, 1) all round and what they move an agent by (A, 2)."""
    actions = 2.0 * np.arange(directions)[:, np.newaxis] / directions - 1.0
    return actions, dynamics.move * plane.direction(actions)


def winds(dynamics: Navigation, task: Floats, count: int) -> Floats:
    """Return equally likely displacements by the wind (M, 2); there is none in benchmark 3."""
    if isinstance(dynamics, TwoTargets):
        return np.zeros((1, 2))
    noise = dynamics.cone * (2.0 * (np.arange(count)[:, np.newaxis] + 0.5) / count - 1.0)
    return dynamics.move * plane.direction((task[2] + noise) / np.pi)


def rewards(dynamics: Navigation, task: Floats, cells: int) -> tuple[Floats, Floats]:
    """Return mean reward (n, n) and share in a target (n, n) of the cells, from points in each of them."""
    fine = centres(cells * SUBCELLS)
    tasks = np.broadcast_to(task, (*fine.shape[:2], len(task)))
    pair = dynamics.reward(fine, tasks), dynamics.in_target(fine, tasks)[..., 0]
    blocks = (cells, SUBCELLS, cells, SUBCELLS)
    reward, inside = (values.reshape(blocks).mean(axis=(1, 3)).astype(np.float32) for values in pair)
    return reward, inside


def appearance(dynamics: Navigation, task: Floats, cells: int) -> Floats:
    """Return the probability (n, n) that an agent appears in each cell."""
    fine = centres(cells * SUBCELLS)
    allowed = (np.abs(fine) <= plane.SPAWN_REACH).all(axis=-1)
    for centre in dynamics.targets(task):
        allowed &= plane.distance(fine, centre)[..., 0] >= dynamics.spawn_exclusion
    share = allowed.reshape(cells, SUBCELLS, cells, SUBCELLS).mean(axis=(1, 3))
    return (share / share.sum()).astype(np.float32)


def solve(
    dynamics: Navigation, task: Floats, discount: float = 0.998, cells: int = CELLS, directions: int = DIRECTIONS
) -> Values:
    """Return the optimal values of one task; the module's docstring has the equations.

    Args:
        dynamics: benchmark 2 or 3.
        task: (K,).
        discount: gamma, in (0, 1).
        cells: of the grid, on each side.
        directions: of a policy, of which every other one is searched here.

    Raises:
        ArithmeticError: if the values do not settle.
    """
    reward, inside = rewards(dynamics, task, cells)
    appearing = appearance(dynamics, task, cells)
    wind, (_, move) = winds(dynamics, task, WINDS), moves(dynamics, directions // 2)
    after = np.zeros((cells, cells), np.float32)  # W - S
    for sweep in range(1, MAX_SWEEPS + 1):
        value = reward + discount * (1.0 - inside) * after  # L - gamma S
        ahead = functools.reduce(np.add, translate(value, wind)) / len(wind)
        best = functools.reduce(np.maximum, translate(ahead, move))
        gain = float(np.vdot(appearing, value))  # by how much appearing is worth more than gamma S
        change = best - gain - after
        after += change
        error = discount / (1.0 - discount) * (max(change.max(), 0.0) - min(change.min(), 0.0))
        if error < TOLERANCE:
            return Values(task, ahead - gain, after, gain / (1.0 - discount), sweep)
    raise ArithmeticError(f"The values of task {task} still err by {error:.3g} after {MAX_SWEEPS} sweeps")


class KnownTaskPolicy:
    """Optimal control, for any number of episodes at once, each of a task that the policy is told.

    An agent like the trained ones, without memory. It searches the directions for the move that is worth most.

    Args:
        dynamics: benchmark 2 or 3.
        tasks: the task of each episode (N, K); equal ones are solved once.
        discount: gamma, in (0, 1).
        cells: of the grid, on each side.
        directions: that are searched.
    """

    def __init__(
        self,
        dynamics: Navigation,
        tasks: Floats,
        discount: float = 0.998,
        cells: int = CELLS,
        directions: int = DIRECTIONS,
    ):
        different, self._index = np.unique(tasks, axis=0, return_inverse=True)
        self.dynamics = dynamics
        self.tasks = np.asarray(tasks)
        self.discount = discount
        self.values = [solve(dynamics, task, discount, cells, directions) for task in different]
        self._actions, self._moves = moves(dynamics, directions)
        self._margin = int(np.ceil(dynamics.move * cells / SIDE)) + 1
        self._ahead = wrap_margin(np.stack([values.ahead for values in self.values]), self._margin)
        self._after = wrap_margin(np.stack([values.after for values in self.values]), self._margin)

    def initial_state(self, batch_size: int) -> NDArray[np.float32]:
        """Return the memory (batch_size, 0): there is none."""
        return np.zeros((batch_size, 0), np.float32)

    def act(
        self,
        observation: Floats,
        prev_action: Floats,
        prev_reward: Floats,
        state: Floats,
        *,
        rng: np.random.Generator | None = None,
    ) -> tuple[NDArray[np.float32], Floats]:
        """Play one step of the N episodes.

        Args:
            observation: (N, 2) or (N, 4), of the episodes in the order of the tasks.
            prev_action: not used, like the rest.
            prev_reward: not used.
            state: memory (N, 0).
            rng: not used: the policy is deterministic.

        Returns:
            Actions (N, 1) and the memory.

        Raises:
            ValueError: if there are more or fewer episodes than tasks.
        """
        if len(observation) != len(self.tasks):
            raise ValueError(
                f"The policy knows one task for each episode. {len(self.tasks)} observations are accepted. "
                f"Received: {len(observation)}"
            )
        position = self.dynamics.targets(self.tasks)[0] - observation[:, :2]
        best = self._worth(position[:, np.newaxis] + self._moves).argmax(axis=1)
        return self._actions[best].astype(np.float32), state

    def _worth(self, arrival: Floats) -> Floats:
        """Return the value (N, A) of moving to (N, A, 2), up to a constant; across an edge there is no target."""
        index = self._index.reshape(-1, 1)
        if isinstance(self.dynamics, WindyNavigation):
            return interpolate(self._ahead, self._margin, index, arrival)
        reward = self.dynamics.reward(arrival, self.tasks[:, np.newaxis])
        after = interpolate(self._after, self._margin, index, arrival)
        return reward + self.discount * np.where(reward == self.dynamics.step_reward, after, 0.0)


def simulate(benchmark: envs.Benchmark, tasks: Floats, seed: int = 0, **settings: int) -> KnownTaskOptima:
    """Return what optimal control earns on each task, by playing it in the environment.

    Args:
        benchmark: b2 or b3.
        tasks: (N, K).
        seed: of the environments.
        **settings: `episodes` of each task and their `steps`; `cells` and `directions`, see `KnownTaskPolicy`.
    """
    episodes, steps = settings.pop("episodes", EPISODES), settings.pop("steps", STEPS)
    repeated = np.repeat(tasks, episodes, axis=0)
    arguments = {"spawn_exclusion": benchmark.spawn_exclusion, "max_episode_steps": steps + 1}
    env: Any = envs.make_vec(benchmark.env_id, len(repeated), **arguments)
    with contextlib.closing(env):
        policy = KnownTaskPolicy(env.dynamics, repeated, benchmark.discount, **settings)
        rewards = np.stack(list(_rewards(policy, env, repeated, steps, seed)))
    return _summarise(benchmark, tasks, rewards.reshape(steps, len(tasks), episodes))


def _rewards(policy: KnownTaskPolicy, env, tasks: Floats, steps: int, seed: int) -> Iterator[Floats]:
    """Yield the rewards (N,) of each step."""
    observation, _ = env.reset(seed=seed, options={"task": tasks})
    nothing = policy.initial_state(len(tasks))
    for _ in range(steps):
        action, _ = policy.act(observation, nothing, nothing, nothing)
        observation, reward, *_ = env.step(action)
        yield reward


def _summarise(benchmark: envs.Benchmark, tasks: Floats, rewards: Floats) -> KnownTaskOptima:
    """Return the optima that rewards (steps, N, episodes) of shorter episodes tell of."""
    worth = benchmark.discount ** np.arange(benchmark.episode_steps)
    first, rate = rewards[:FIRST], rewards[FIRST:].mean(axis=0)
    discounted = np.tensordot(worth[:FIRST], first, 1) + worth[FIRST:].sum() * rate
    undiscounted = first.sum(axis=0) + len(worth[FIRST:]) * rate
    found = {
        "tasks": tasks,
        "discounted": discounted.mean(axis=1),
        "undiscounted": undiscounted.mean(axis=1),
        "errors": discounted.std(axis=1, ddof=1) / np.sqrt(rewards.shape[2]),
        "rewards": first.mean(axis=(1, 2)),
        "rate": rate.mean(),
    }
    return KnownTaskOptima(**{name: np.asarray(value, np.float32) for name, value in found.items()})


def merge(blocks: Sequence[KnownTaskOptima]) -> KnownTaskOptima:
    """Return the optima of all the blocks' tasks."""
    sizes = [len(block.tasks) for block in blocks]
    whole = {
        name: np.concatenate([getattr(block, name) for block in blocks])
        for name in ("tasks", "discounted", "undiscounted", "errors")
    }
    for name in ("rewards", "rate"):
        mean = np.average([getattr(block, name) for block in blocks], axis=0, weights=sizes)
        whole[name] = np.asarray(mean, np.float32)
    return KnownTaskOptima(**whole)


def tabulate(benchmark: envs.Benchmark, tasks: Floats, directory: Path) -> Iterator[KnownTaskOptima]:
    """Yield the optima of more and more of the tasks, keeping in `directory` what is done."""
    directory.mkdir(parents=True, exist_ok=True)
    blocks = []
    for start in range(0, len(tasks), BLOCK):
        path = directory / f"{start:04d}.npz"
        if not path.exists():
            optima.save(simulate(benchmark, tasks[start : start + BLOCK], seed=start), path)
        blocks.append(optima.read(path))
        yield merge(blocks)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the table of one benchmark for the tasks of the published test episodes."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument(
        "benchmark", choices=[b.name for b in envs.BENCHMARKS.values() if b.spawn_exclusion is not None]
    )
    parser.add_argument("--spawn-exclusion", type=float, default=0.0, help="argument of the environment")
    parser.add_argument("--tasks", type=int, default=1000, help="how many of the test episodes' tasks")
    parser.add_argument("--directory", type=Path, default=Path("runs/known-task"), help="where unfinished work is kept")
    given = parser.parse_args(arguments)
    benchmark = envs.BENCHMARKS[given.benchmark].with_spawn_exclusion(given.spawn_exclusion)
    tasks = episode_tasks(benchmark.env_id, given.tasks, TEST_SEED, {"spawn_exclusion": given.spawn_exclusion})
    table = optima.table(benchmark.name, given.spawn_exclusion)
    for found in tabulate(benchmark, tasks, given.directory / table.stem):
        mean, error = found.discounted.mean(), found.discounted.std() / np.sqrt(len(found.tasks))
        print(f"{table.stem}: {len(found.tasks)} tasks, discounted return {mean:.1f} +- {error:.1f}", flush=True)
    optima.save(found, table)


if __name__ == "__main__":
    main()
