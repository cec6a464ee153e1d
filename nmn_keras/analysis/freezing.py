"""Benchmark 3 with z locked and unlocked, and the targets switched, within an episode (the paper's figure "freeze")."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from nmn_keras import envs, evaluation, zoo
from nmn_keras.analysis import navigation
from nmn_keras.analysis.experiment import Data, Draw, Options
from nmn_keras.analysis.player import Player
from nmn_keras.analysis.resampling import drawn_means, with_interval
from nmn_keras.analysis.rounding import plain
from nmn_keras.analysis.statistics import running_mean
from nmn_keras.evaluation import TEST_SEED

EPISODES = 1000
STEPS = 200
"""Of each phase but b."""
AFTER = (100, 300)
"""Phase b is of so many steps, drawn for each episode: z is locked at a random step after adaptation."""
PHASES = {
    "a": "z locked at its initial value",
    "b": "z unlocked",
    "c": "z locked after adaptation",
    "d": "targets switched, z still locked",
    "e": "z unlocked again",
}
LOCKED = {"a": True, "b": False, "c": True, "d": True, "e": False}
ONSET = 60
"""Steps after the start of a phase that the curves show."""
SETTLED = 50
"""Steps left out at the start of a phase where what it settles to is measured."""
WINDOW = 5
"""Steps over which hits at the start of a phase are averaged."""
TRACK = 40
"""Moves of each phase in the picture of one episode."""
APART = 1.2
"""Distance of the targets' centres in that episode, at least: three radii."""


def measure(options: Options) -> Data:
    """Play the published NMN of benchmark 3 through the five phases."""
    episodes = options.episodes or EPISODES
    if "b3" not in options.benches:
        return {}
    agent = zoo.load("b3-nmn", "onnx", options.zoo)
    options.report(f"freezing: b3, nmn, {episodes} episodes through {len(PHASES)} phases")
    played = play_phases(agent, episodes)
    return plain(
        {
            "agent": agent.sha256,
            "episodes": episodes,
            "seed": TEST_SEED,
            "steps": STEPS,
            "after": AFTER,
            "phases": describe(played),
            "locked_minus_free": _compare(played, "c", "b"),
            "again_minus_first": _compare(played, "e", "b"),
            "track": _track(played),
        }
    )


def play_phases(agent: Any, episodes: int, seed: int = TEST_SEED) -> dict[str, np.ndarray]:
    """Play episodes of benchmark 3 through the phases a to e, each begun at its own step.

    The last phase lasts until the longest episode is over, so that all are in step.

    Args:
        agent: an `OnnxAgent` of kind `nmn`.
        episodes: N.
        seed: of tasks, targets, and lengths of phase b.

    Returns:
        `starts` int (N, 5), the first step of each phase; `tasks` (N, 5), before the targets are switched; `positions`
        (T, N, 2), `actions` (T, N, 1), `rewards` (T, N), `z` (T, N, Z); what `record` calls so.
    """
    generator = np.random.default_rng([seed, 5])
    lengths = np.full((episodes, len(PHASES)), STEPS)
    lengths[:, 1] = generator.integers(*AFTER, size=episodes)
    starts = np.cumsum(lengths, axis=1) - lengths
    steps = int((starts[:, -1] + STEPS).max())
    env: Any = envs.make_vec("b3", episodes)
    observation, info = evaluation.begin(env, generator)
    player, trace = Player(agent, episodes, 1), []
    locked = np.array(list(LOCKED.values()))
    for step in range(steps):
        phase = (step >= starts).sum(axis=1) - 1
        player.locked[:] = locked[phase]
        switched = info["task"] * np.where(phase[:, np.newaxis] >= 3, [1, 1, 1, 1, -1], 1)
        env.set_task(switched)
        outputs, position = player.act(observation), env.position
        observation, rewards, *_ = env.step(outputs["action"])
        player.receive(rewards)
        trace.append((position, outputs["action"], rewards, outputs["z"]))
    env.close()
    names = ("positions", "actions", "rewards", "z")
    columns = (np.array(column, np.float32) for column in zip(*trace, strict=True))
    return {"starts": starts, "tasks": info["task"], **dict(zip(names, columns, strict=True))}


def describe(played: Mapping[str, np.ndarray]) -> dict[str, dict[str, Any]]:
    """Give for each phase its hits per 100 steps, with intervals over episodes.

    Args:
        played: of `play_phases`.

    Returns:
        For each phase `good`, `bad` and `entered` (see `navigation.hits`), `wrong` (share of bad hits among all) and
        `idle` (share of episodes without a hit) over the whole phase; `settled`, the same without its first 50 steps;
        `onset`, good and bad hits in each of its first steps and the four before it (3, 60); `reward`, mean per step.
    """
    found = {}
    for number, name in enumerate(PHASES):
        first, last = _span(played, number)
        hits = navigation.hits(played["rewards"])
        onset = first + np.arange(ONSET)[:, np.newaxis]
        episodes = np.arange(len(first))
        found[name] = {
            **_rates(hits, first, last),
            "settled": _rates(hits, first + SETTLED, last),
            "onset": {kind: _onset(hits[kind][onset, episodes].T) for kind in ("good", "bad")},
            "reward": with_interval(drawn_means(_mean_between(played["rewards"], first, last))),
        }
    return found


def _span(played, number):
    """The first step of a phase and the one after its last, each (N,)."""
    first = played["starts"][:, number]
    return first, played["starts"][:, number + 1] if number + 1 < len(PHASES) else first + STEPS


def _compare(played, one, other):
    """What one phase has more than another, without their first 50 steps: hits per 100 steps, reward per step."""
    spans = []
    for name in (one, other):
        number = list(PHASES).index(name)
        first, last = _span(played, number)
        spans.append((first + SETTLED, last))
    values = {name: 100.0 * hit for name, hit in navigation.hits(played["rewards"]).items()}
    values["reward"] = played["rewards"]
    return {
        name: with_interval(drawn_means(_mean_between(value, *spans[0]) - _mean_between(value, *spans[1])))
        for name, value in values.items()
    }


def _onset(hits):
    return with_interval(drawn_means(100.0 * running_mean(hits, WINDOW)))


def _rates(hits, first, last):
    per_episode = {name: 100.0 * _mean_between(hit, first, last) for name, hit in hits.items()}
    means = {name: drawn_means(rates) for name, rates in per_episode.items()}
    wrong = means["bad"] / np.maximum(means["good"] + means["bad"], 1e-9)
    idle = drawn_means((per_episode["good"] + per_episode["bad"] == 0).astype(float))
    return {name: with_interval(draw) for name, draw in {**means, "wrong": wrong, "idle": idle}.items()}


def _mean_between(values, first, last):
    """Mean (N,) of values (T, N) from step `first` (N,) to before `last` (N,)."""
    step = np.arange(len(values))[:, np.newaxis]
    inside = (step >= first) & (step < last)
    return np.where(inside, values, 0.0).sum(axis=0) / inside.sum(axis=0)


def _track(played):
    """The last moves of each phase of an episode: of those with targets apart the one whose hits are most usual."""
    rates = np.stack(
        [
            _mean_between(hit, first, first + STEPS)
            for hit in (played["rewards"] > 0, played["rewards"] < 0)
            for first in played["starts"].T
        ],
        axis=1,
    )
    unusual = np.square((rates - rates.mean(axis=0)) / np.maximum(rates.std(axis=0), 1e-9)).sum(axis=1)
    apart = np.linalg.norm(played["tasks"][:, :2] - played["tasks"][:, 2:4], axis=1)
    episode = int(np.where(apart >= APART, unusual, unusual + 1e9).argmin())
    ends = [*played["starts"][episode, 1:], played["starts"][episode, -1] + STEPS]
    spans = [slice(int(end) - TRACK, int(end) + 1) for end in ends]
    return {
        "episode": episode,
        "task": played["tasks"][episode],
        "positions": [_padded(played["positions"][span, episode]) for span in spans],
        "rewards": [_padded(played["rewards"][span, episode]) for span in spans],
    }


def _padded(values):
    """The values; the last one again where the episode ends before the move after it."""
    return values if len(values) > TRACK else np.concatenate([values, values[-1:]])


def figures(data: Data) -> Mapping[str, Draw]:
    """The moves of one episode, and the hits of all."""
    from nmn_keras.analysis import freezing_figures

    return freezing_figures.figures(data)


def section(data: Data) -> str:
    """The paper's sentences, our numbers, the figures."""
    from nmn_keras.analysis import freezing_text

    return freezing_text.section(data)
