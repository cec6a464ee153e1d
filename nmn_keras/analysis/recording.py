"""Episodes of an agent, recorded: what it signalled, played and earned, where it was and which task it had."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nmn_keras import evaluation, spaces
from nmn_keras.analysis.player import Player
from nmn_keras.envs.checks import bounded_array


@dataclass(frozen=True)
class Recording:
    """N episodes of T steps, time-major. The position of a step is where its action found the world."""

    tasks: np.ndarray
    """(N, K), see the environment."""
    positions: np.ndarray
    """(T, N, P), see the environment's "position"."""
    observations: np.ndarray
    """(T, N, O)."""
    actions: np.ndarray
    """(T, N, A), environment units."""
    rewards: np.ndarray
    """(T, N)."""
    signal_steps: np.ndarray
    """(S,), the steps at which `signals` were kept, ascending."""
    signals: np.ndarray
    """(S, N, Z): z of an `nmn` while it chose the action of that step; the packed state after it of another agent."""

    def signal_at(self, step: int) -> np.ndarray:
        """The signals (N, Z) of a step.

        Raises:
            ValueError: they were not kept.
        """
        found = np.flatnonzero(self.signal_steps == step)
        if not len(found):
            raise ValueError(
                f"The signals of this step were not kept. Accepted: {self.signal_steps.tolist()}. Received: {step!r}"
            )
        return self.signals[found[0]]


def record(
    agent: Any,
    env: str,
    episodes: int,
    steps: int,
    *,
    signal_steps: Sequence[int] = (),
    tasks: ArrayLike | None = None,
    deterministic: bool = True,
    seed: int = evaluation.TEST_SEED,
) -> Recording:
    """Play the first steps of episodes from empty memory and keep what happens.

    The episodes are those of `nmn_keras.evaluation.evaluate` with the same seed and number, so that full ones have the
    published scores. They are played 500 at once; memory grows with `steps`, and with `signal_steps` by Z numbers an
    episode.

    Args:
        agent: an `OnnxAgent`, or anything with `initial_state` and `act`.
        env: a benchmark.
        episodes: N.
        steps: T, at most the benchmark's.
        signal_steps: steps, in [0, T), of which signals are kept.
        tasks: (N, K) or (K,), what the tasks are; None for those that the environment draws.
        deterministic: whether the mean action is played, as served; else actions are sampled.
        seed: of tasks, environments and sampled actions.

    Raises:
        ValueError: the environment is no benchmark, or a number is out of range.
    """
    benchmark = evaluation.benchmark_of(env)
    if benchmark is None or not 1 <= steps <= benchmark.episode_steps:
        raise ValueError(
            "A recording is of a benchmark (b1, b2, b3) and of 1 step to all of its episode. "
            f"Received: env={env!r}, steps={steps!r}"
        )
    kept = sorted(set(signal_steps))
    if kept and not 0 <= kept[0] <= kept[-1] < steps:
        raise ValueError(f"`signal_steps` must be in [0, {steps}). Received: {list(signal_steps)!r}")
    done = 0

    def play(vector, generator):
        nonlocal done
        options = None
        if tasks is not None:
            given = bounded_array(tasks, vector.dynamics.task_bounds, (episodes,), "tasks")
            options = {"task": given[done : done + vector.num_envs]}
        done += vector.num_envs
        return _play(agent, vector, steps, kept, None if deterministic else generator, generator, options)

    return _join(evaluation.in_chunks(play, env, episodes, seed))


def _play(agent, vector, steps, kept, rng, generator, options):
    observation, info = evaluation.begin(vector, generator, options)
    player = Player(agent, vector.num_envs, len(spaces.describe(vector).action_low), rng)
    tasks, trace, signals = info["task"], [], []
    for step in range(steps):
        outputs = player.act(observation)
        if step in kept:
            signals.append(outputs.get("z", outputs["memory"]))
        position = vector.position
        following, rewards, *_ = vector.step(outputs["action"])
        player.receive(rewards)
        trace.append((position, observation, outputs["action"], rewards))
        observation = following
    positions, observations, actions, earned = (np.array(column, np.float32) for column in zip(*trace, strict=True))
    stacked = np.array(signals, np.float32) if signals else np.zeros((0, vector.num_envs, 0), np.float32)
    return Recording(tasks, positions, observations, actions, earned, np.array(kept, int), stacked)


def _join(parts: list[Recording]) -> Recording:
    """One recording of several with the same steps."""
    axes = {"tasks": 0, "signal_steps": None}
    joined = {}
    for field in fields(Recording):
        axis = axes.get(field.name, 1)
        arrays = [getattr(part, field.name) for part in parts]
        joined[field.name] = arrays[0] if axis is None else np.concatenate(arrays, axis)
    return Recording(**joined)
