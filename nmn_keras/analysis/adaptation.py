"""How published agents adapt within an episode: the paper's figures of z, scale factors and rewards over time.

Every number is of the agents in the zoo with the deterministic action, which is the one that is served.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from nmn_keras import zoo
from nmn_keras.analysis import navigation
from nmn_keras.analysis.decoding import circle, predict_held_out
from nmn_keras.analysis.experiment import Data, Draw, Options
from nmn_keras.analysis.recording import Recording, record
from nmn_keras.analysis.resampling import drawn_means, first_at_least, with_interval
from nmn_keras.analysis.rounding import plain
from nmn_keras.analysis.scale_factors import read_scale_factors
from nmn_keras.analysis.signal_measures import (
    by_bins,
    count_neurons,
    dimension_kinds,
    made_of,
    motion,
    spread,
    told,
)
from nmn_keras.analysis.statistics import running_mean
from nmn_keras.baselines import BayesOptimalPolicy
from nmn_keras.evaluation import TEST_SEED

EPISODES = 1000
FEWEST = 20
STEPS = {"b1": 1400, "b2": 1000, "b3": 1000}
"""Steps that are played of each episode: all of b1; of b2 and b3 the first, in which adaptation is long over."""
SHOWN = 120
"""Steps of the curves."""
TOLD = (0, 1, 2, 3, 5, 8, 15, 25, 40, 65, 100, 400)
"""Steps at which z is looked at."""
COLUMNS = {"b1": (1, 2, 3, 5, 15, 100), "b2": (1, 5, 15, 40, 100), "b3": (1, 3, 5, 15, 40, 100)}
"""Steps that the figures show side by side."""
ADAPTED = 100
"""Step at which an agent counts as adapted."""
WITHIN = range(15, 101)
"""Steps in which changes within an episode are looked for."""
LEVELS = {"half": 0.5, "ninety": 0.9}
SMOOTH = {"b1": 1, "b2": 5, "b3": 5}
"""Curves of rewards and hits are averaged over so many steps, the present one and those before it."""
BINS = 24
LINES = 5
"""Dimensions of z (b1), or neurons (b3), that are drawn."""
NEURONS = {"b1": 10, "b2": 6}
"""Neurons of the first hidden layer that are drawn: all of b1, those that vary most of b2."""
FIXED = (-0.6, 0.5, 0.5, -0.5)
"""The centres of both targets where they are held fixed (b3)."""


def measure(options: Options) -> Data:
    """Play the published agents of the benchmarks chosen and describe how they adapt.

    Raises:
        ValueError: there are too few episodes to learn from some what z tells in others.
    """
    episodes = options.episodes or EPISODES
    if episodes < FEWEST:
        raise ValueError(f"Adaptation is measured on {FEWEST} episodes or more. Received: {episodes}")
    return plain({bench: _measure_bench(bench, episodes, options) for bench in options.benches})


def _measure_bench(bench: str, episodes: int, options: Options) -> dict[str, Any]:
    steps = STEPS[bench]
    signal_steps = {step + more for step in TOLD for more in (0, 1)} | set(WITHIN)
    data: dict[str, Any] = {"episodes": episodes, "steps": steps, "seed": TEST_SEED, "agents": {}, "told": {}}
    players: dict[str, Any] = {kind: zoo.load(f"{bench}-{kind}", "onnx", options.zoo) for kind in ("nmn", "rnn")}
    if bench == "b1":
        players["bayes"] = BayesOptimalPolicy()
    data["rewards"], data["settled"], data["reached"] = {}, {}, {}
    for kind, player in players.items():
        options.report(f"adaptation: {bench}, {kind}, {episodes} episodes of {steps} steps")
        kept = () if kind == "bayes" else sorted(signal_steps)
        played = record(player, bench, episodes, steps, signal_steps=kept)
        data["rewards"][kind], data["settled"][kind], data["reached"][kind] = _describe_rewards(bench, played)
        if bench == "b1":
            data.setdefault("hits", {})[kind] = with_interval(drawn_means(played.rewards[:SHOWN].T == 10.0))
        if bench == "b3":
            data.setdefault("navigation", {})[kind] = _describe_navigation(played)
        if kind != "bayes":
            data["agents"][f"{bench}-{kind}"] = player.sha256
            data["told"][kind] = _describe_knowledge(bench, played)
        if kind == "nmn":
            data |= _describe_signals(bench, played, read_scale_factors(_policy(bench, options)))
    if bench == "b3":
        data["fixed"] = _describe_fixed_targets(players["nmn"], episodes, options)
    return data


def _policy(bench, options):
    return zoo.path(f"{bench}-nmn", "policy.onnx", options.zoo).read_bytes()


# Rewards


def _describe_rewards(bench: str, played: Recording):
    """The curve (3, SHOWN), the mean of the last half (3,), and the steps at which shares of it are reached (3,)."""
    shown = drawn_means(_smooth(bench, played.rewards))
    late = drawn_means(played.rewards[len(played.rewards) // 2 :].mean(axis=0))
    reached = {name: with_interval(first_at_least(shown, share * late)) for name, share in LEVELS.items()}
    return with_interval(shown), with_interval(late), reached


def _smooth(bench: str, values):
    """The first SHOWN of values (T, N), averaged over steps, as (N, SHOWN)."""
    return running_mean(np.asarray(values[:SHOWN], float).T, SMOOTH[bench])


WINDOWS = ((0, 15), (15, 30), (30, 100), (100, 1000))


def _describe_navigation(played: Recording) -> dict[str, Any]:
    """Hits in windows, and when the agent makes for the right target."""
    right = navigation.heads_right(played.positions, played.tasks, played.rewards)
    scored = ~np.isnan(right)
    draws = drawn_means(np.stack([np.nan_to_num(right), scored], axis=-1).transpose(1, 0, 2))
    heading = draws[..., 0] / np.maximum(draws[..., 1], 1e-9)
    late = draws[:, ADAPTED:, 0].sum(axis=1) / draws[:, ADAPTED:, 1].sum(axis=1)
    settled = navigation.settling_step(right[:SHOWN])
    by = {step: with_interval(drawn_means(settled <= step)) for step in (5, 10, 15, 30)}
    hits = navigation.hits(played.rewards)
    windows = {}
    for first, last in WINDOWS:
        per_episode = {name: hit[first:last].mean(axis=0) * 100 for name, hit in hits.items()}
        means = {name: drawn_means(rates) for name, rates in per_episode.items()}
        windows[f"{first}-{last}"] = {
            **{name: with_interval(draw) for name, draw in means.items()},
            "wrong": with_interval(means["bad"] / np.maximum(means["good"] + means["bad"], 1e-9)),
        }
    return {
        "heading": with_interval(heading)[:, :SHOWN],
        "heading_late": with_interval(late),
        "settled_median": float(np.median(settled)),
        "heading_reached": with_interval(first_at_least(heading[:, :SHOWN], 0.9 * late)),
        "settled_by": by,
        "windows": windows,
        "per_step": {name: with_interval(drawn_means(100.0 * _smooth("b3", hit))) for name, hit in hits.items()},
    }


# What z tells


def _secrets(bench: str, played: Recording, step: int) -> dict[str, np.ndarray]:
    """What z might tell of at a step: the task and the state."""
    seen = {"last observation": played.observations[max(step - 1, 0)].astype(float)}
    tasks = played.tasks
    if bench == "b1":
        return {"bias": tasks, **seen}
    place = {"position": played.positions[step].astype(float), **seen}
    if bench == "b2":
        return {"wind": circle(tasks[:, 2]), "target": tasks[:, :2], **place}
    return {"good target": tasks[:, 4:], "places of targets": tasks[:, :4], **place}


def _describe_knowledge(bench: str, played: Recording) -> dict[str, Any]:
    """R^2 of all secrets at all steps `{secret: (steps, 3)}` and, of an angle, the median error in degrees."""
    found: dict[str, list] = {}
    for step in TOLD:
        for name, value in told(played.signal_at(step), _secrets(bench, played, step)).items():
            found.setdefault(name, []).append(value)
    if bench == "b2":
        found["degrees"] = [_wind_error(played, step) for step in TOLD]
    return found


def _wind_error(played, step):
    wind = played.tasks[:, 2]
    guess = predict_held_out(played.signal_at(step), circle(wind))
    apart = np.abs((np.arctan2(guess[:, 0], guess[:, 1]) - wind + np.pi) % (2.0 * np.pi) - np.pi)
    draws = np.random.default_rng(0).choice(apart, size=(1000, len(apart)))
    return np.degrees([np.median(apart), *np.quantile(np.median(draws, axis=1), [0.025, 0.975])])


# Signals and scale factors


def _describe_signals(bench: str, played: Recording, layers) -> dict[str, Any]:
    edges = _edges(bench)
    task = played.tasks[:, {"b1": 0, "b2": 2, "b3": 4}[bench]]
    late = played.signal_at(ADAPTED)
    data = {
        "steps_told": TOLD,
        "columns": COLUMNS[bench],
        "edges": edges,
        "spread": [spread(played.signal_at(step)) for step in TOLD],
        "motion": [motion(played.signal_at(step), played.signal_at(step + 1)) for step in TOLD],
        "made_of": made_of(late, _causes(bench, played)),
        "neurons": {step: count_neurons(layers, played, step, WITHIN) for step in (0, 5, 15, ADAPTED)},
    }
    if bench == "b3":  # drawn with fixed targets
        return data
    factors = layers[0](late)
    data["dimensions"] = _liveliest(late, None if bench == "b2" else LINES)
    data["drawn_neurons"] = _liveliest(factors, NEURONS[bench])
    signals, scales = [], []
    kept = slice(1, 2) if bench == "b2" else slice(None)  # rings show medians alone
    for step in COLUMNS[bench]:
        z = played.signal_at(step)
        signals.append(by_bins(z[:, data["dimensions"]], task, edges)[kept])
        scales.append(by_bins(layers[0](z)[:, data["drawn_neurons"]], task, edges)[kept])
    rewards = [by_bins(played.rewards[step][:, np.newaxis], task, edges) for step in COLUMNS[bench]]
    return data | {"signals": np.array(signals), "scales": np.array(scales), "rewards_by_task": np.array(rewards)}


def _causes(bench: str, played: Recording) -> dict[str, np.ndarray]:
    """What z may follow from at step ADAPTED; places on circles, as the agents see them, but in b1."""
    secrets = _secrets(bench, played, ADAPTED)
    secrets.pop("position", None)
    seen = secrets.pop("last observation")
    causes = secrets | {"last observation": seen if bench == "b1" else circle(seen * np.pi / 2.0)}
    return causes | {"all of these": np.hstack(list(causes.values()))}


def _edges(bench):
    reach = {"b1": 10.0, "b2": np.pi, "b3": 1.0}[bench]
    return np.linspace(-reach, reach, BINS + 1)


def _liveliest(values, count):
    """The columns that vary most between episodes, in their own order."""
    return np.sort(np.argsort(-values.var(axis=0), kind="stable")[:count])


def _describe_fixed_targets(agent, episodes: int, options: Options) -> dict[str, Any]:
    """Benchmark 3 with both targets held where they are: only which is the good one differs between episodes."""
    options.report(f"adaptation: b3, nmn, {episodes} episodes with fixed targets")
    good = np.where(np.arange(episodes) % 2, 1.0, -1.0)[:, np.newaxis]
    tasks = np.hstack([np.tile(FIXED, (episodes, 1)), good])
    kept = sorted({*COLUMNS["b3"], ADAPTED})
    played = record(agent, "b3", episodes, ADAPTED + 1, signal_steps=kept, tasks=tasks)
    late = played.signal_at(ADAPTED)
    state = circle(played.observations[ADAPTED - 1, :, :2].astype(float) * np.pi / 2.0)
    kinds = dimension_kinds(late, good, state)
    layer = read_scale_factors(_policy("b3", options))[0]
    share = np.square([np.corrcoef(column, good[:, 0])[0, 1] for column in layer(late).T])
    neurons = np.sort(np.argsort(-share, kind="stable")[:LINES])
    edges = np.array([-2.0, 0.0, 2.0])
    at = {step: played.signal_at(step) for step in COLUMNS["b3"]}
    return {
        "targets": FIXED,
        **kinds,
        "order": np.argsort(-kinds["of_task"], kind="stable"),
        "neurons_of_task": int((share >= 0.5).sum()),
        "units": len(share),
        "drawn_neurons": neurons,
        "signals": [by_bins(z, good[:, 0], edges) for z in at.values()],
        "scales": [by_bins(layer(z)[:, neurons], good[:, 0], edges) for z in at.values()],
    }


def figures(data: Data) -> Mapping[str, Draw]:
    """z, scale factors and rewards by task; rewards and what z tells over time."""
    from nmn_keras.analysis import adaptation_figures

    return adaptation_figures.figures(data)


def section(data: Data) -> str:
    """The paper's sentences, our numbers, the figures."""
    from nmn_keras.analysis import adaptation_text

    return adaptation_text.section(data)
