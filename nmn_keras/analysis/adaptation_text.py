"""The words of the adaptation experiment. Every number and verdict in them is computed from the data."""

from collections.abc import Iterator, Mapping
from typing import Any

from nmn_keras.analysis.adaptation import ADAPTED, SMOOTH, TOLD
from nmn_keras.analysis.comparison import Estimate
from nmn_keras.analysis.markdown import CLAIMS, picture, table
from nmn_keras.analysis.signal_measures import NEAR, SHARE

Found = Mapping[str, Any]
LISTED = (0, 1, 2, 5, 15, 40, 100, 400)
"""Steps of the table of what z tells."""


def section(data: Mapping[str, Found]) -> str:
    """Give the part of the page: claims of each benchmark, its figures, and what z tells."""
    parts = ["## Adaptation", _introduction(data)]
    claims = {"b1": _claims_b1, "b2": _claims_b2, "b3": _claims_b3}
    for bench, found in data.items():
        parts += [f"### {_TITLES[bench]}", table(CLAIMS, claims[bench](found)), *_captions(bench, found)]
    return "\n\n".join([*parts, "### What z tells", _told_words(data), _told_table(data)])


_TITLES = {"b1": "b1, moving target", "b2": "b2, windy navigation", "b3": "b3, two targets"}


def _introduction(data):
    played = "; ".join(
        f"{bench}: {found['episodes']:,} episodes, {found['steps']:,} steps" for bench, found in data.items()
    )
    hashes = ", ".join(
        f"`{name}` ({digest[:8]})" for found in data.values() for name, digest in found["agents"].items()
    )
    return (
        "How the published agents adapt within an episode: `nmn reproduce adaptation` plays them (minutes, no "
        f"training). One network of each kind, as in the paper: {hashes}; in brackets how the sha256 of `policy.onnx` "
        f"begins. {played}: the first ones of the published test episodes, each a new task met with empty memory, "
        "with the deterministic action, which is the one that is served. Step t = 0 is the first; z at t has seen "
        "observations, actions and rewards up to t − 1. Intervals are 95 % bootstraps over episodes, so they say "
        f"nothing of other seeds.\n\n{_YARDSTICKS}"
    )


_YARDSTICKS = (
    "Yardsticks of the verdicts, ours, interval against number: *little dependence* R² below 0.5; *clear "
    "dependency* a share above 0.9, and a spread that grows; *almost state-independent* motion below a tenth of the"
    " spread and a share of the observation below 0.05; *within a few steps* 90 % of the late reward by t = 10; "
    "*exclusively* R² of the wind above 0.9 and of the target below 0.1; *quasi-converges slowly* an error at t = "
    "15 above that at 40, and at 40 above that at 400; *good results after 40 steps* 90 % of the late reward by t ="
    " 40; *very few* bad hits less than a tenth of all at t = 30 to 99; *navigating after 15 steps* 90 % of the "
    "late share of right moves by t = 15. What is counted holds if the count is not 0."
)


# b1


def _claims_b1(found: Found) -> Iterator[tuple[str, str, str, str]]:
    told, neurons = found["told"]["nmn"]["bias"], found["neurons"][str(ADAPTED)][0]
    made, seen = found["made_of"], _at(found["told"]["nmn"]["last observation"], ADAPTED)
    yield (
        "For the first time-steps z exhibits little dependence on α.",
        "R² of α read from z: " + _series(told, (0, 1, 2, 5, 15)),
        _verdict(_at(told, 1)[2] < 0.5, f"until t = {_first(told, 0.9) - 1}"),
        "z at t = 1 knows the reward of one guess, which leaves two biases or, of a guess far to one side, mostly one; "
        "the reward of a second one decides.",
    )
    yield (
        "Convergence of z with a clear dependency on α and wider-spread values; z varies continuously with α.",
        f"share of the variance of z at t = {ADAPTED} that is a smooth function of α: {_text(made['bias'], 3)}; spread "
        f"of z between episodes {_step(found['spread'], 1):.2f} at t = 1, {_step(found['spread'], ADAPTED):.2f} at t = "
        f"{ADAPTED}",
        _verdict(made["bias"][1] > 0.9 and _step(found["spread"], ADAPTED) > _step(found["spread"], 1)),
        "Smooth: predicted on held-out episodes by ridge regression on α and Gaussian bumps.",
    )
    motion = _step(found["motion"], ADAPTED)
    yield (
        "For large t, z holds constant between time-steps: it is almost state-independent and serves only for "
        "adaptation.",
        f"motion in a step at t = {ADAPTED}: {_percent(motion)} of the spread between episodes; share of the variance "
        f"of z from the last observation: {_text(made['last observation'], 3)}",
        _verdict(motion < 0.1 and made["last observation"][2] < 0.05),
        "Not quite: little of z depends on the last observation, but precisely, it can be read from z (R² "
        f"{_text(seen)}).",
    )
    yield (
        "For some neurons the scale factors vary between negative and positive values, inverting the slope.",
        f"{neurons['signs']} of {neurons['units']} neurons; factors from {neurons['lowest']:.2f} to "
        f"{neurons['highest']:.2f} at t = {ADAPTED}",
        _verdict(neurons["signs"] > 0),
        _COUNTED,
    )
    yield (
        "Some neurons are inactive (scale factor almost 0) for some values of α.",
        f"{neurons['near']} of {neurons['units']} neurons",
        _verdict(neurons["near"] > 0),
        f"Within {NEAR} of 0 in at least {_percent(SHARE)} of the episodes, at t = {ADAPTED}.",
    )
    yield (
        "Rewards are low at first and rise within a few steps.",
        _rewards_b1(found),
        _verdict(found["reached"]["nmn"]["ninety"][2] <= 10),
        "The Bayes-optimal player knows the bias from t = 2 on.",
    )


_COUNTED = (
    f"Counted: below −{NEAR} in at least {100 * SHARE:.0f} % of the episodes and above {NEAR} in as many, at "
    f"t = {ADAPTED}."
)


def _rewards_b1(found):
    lines = []
    for kind, label in (("nmn", "NMN"), ("rnn", "RNN"), ("bayes", "Bayes optimal")):
        means = ", ".join(f"{found['rewards'][kind][0][step]:.1f}" for step in (0, 1, 2, 3, 5, 10))
        reached = found["reached"][kind]["ninety"]
        lines.append(
            f"{label}: {means}; 90 % of its late mean ({_text(found['settled'][kind])}) at t = {_text(reached, 0)}"
        )
    return "mean reward at t = 0, 1, 2, 3, 5, 10<br>" + "<br>".join(lines)


# b2


def _claims_b2(found: Found) -> Iterator[tuple[str, str, str, str]]:
    told, made = found["told"]["nmn"], found["made_of"]
    at = {name: _at(told[name], ADAPTED) for name in ("wind", "target", "position", "last observation")}
    yield (
        "z seems to code exclusively for α₃, whatever α₁ and α₂.",
        f"R² read from z at t = {ADAPTED}: wind {_text(at['wind'])}, place of the target {_text(at['target'])}, "
        f"position {_text(at['position'])}, observation before {_text(at['last observation'])}.<br>Share of the "
        f"variance of z: from the wind {_text(made['wind'])}, the target {_text(made['target'])}, the observation "
        f"before {_text(made['last observation'])}, all together {_text(made['all of these'])}",
        _exclusive(at),
        "Of the task z tells the wind and hardly anything else. But it also follows the state, which the paper "
        "reports of b3 only.",
    )
    degrees = told["degrees"]
    yield (
        "Despite noisy information z quasi-converges slowly.",
        "median error of the wind read from z, degrees: " + _series(degrees, (2, 5, 15, 40, 100, 400), 1),
        _verdict(_at(degrees, 15)[1] > _at(degrees, 40)[2] and _at(degrees, 40)[0] > _at(degrees, 400)[0]),
        "The wind blows within 45° of its direction; each step is one noisy reading.",
    )
    reached = found["reached"]["nmn"]["ninety"]
    yield (
        "After 40 time-steps the agent is already achieving good results, even though z has not yet converged.",
        f"90 % of the late mean reward ({_text(found['settled']['nmn'], 1)}) at t = {_text(reached, 0)}, half at t = "
        f"{_text(found['reached']['nmn']['half'], 0)}; then z still errs by {_at(degrees, 15)[0]:.1f}° (t = 15), at "
        f"t = 400 by {_at(degrees, 400)[0]:.1f}°. RNN: 90 % of {_text(found['settled']['rnn'], 1)} at t = "
        f"{_text(found['reached']['rnn']['ninety'], 0)}",
        _verdict(reached[2] <= 40 and _at(degrees, 15)[1] > _at(degrees, 400)[2], "sooner" if reached[2] < 40 else ""),
        f"Rewards are averaged over the last {SMOOTH['b2']} steps, which makes these steps late by about two.",
    )
    layers = found["neurons"][str(ADAPTED)][:-1]
    yield (
        "Scale factors of some neurons are highly asymmetric, with smooth variations.",
        "scale factors change sign between episodes: "
        + _layers(layers, "signs")
        + "; near 0: "
        + _layers(layers, "near"),
        _verdict(sum(layer["signs"] for layer in layers) > 0),
        _COUNTED,
    )


def _exclusive(at):
    of_task = at["wind"][1] > 0.9 and at["target"][2] < 0.1
    if not of_task:
        return "does not hold"
    return "holds for the task, not for the state" if at["last observation"][1] > 0.1 else "holds"


# b3


def _claims_b3(found: Found) -> Iterator[tuple[str, str, str, str]]:
    ours, other, fixed = found["navigation"]["nmn"], found["navigation"]["rnn"], found["fixed"]
    after = ours["windows"]["30-100"]
    yield (
        "Very few negative rewards after 30 time-steps.",
        _windows(ours, "NMN") + "<br>" + _windows(other, "RNN"),
        _verdict(after["wrong"][2] < 0.1),
        "Three quarters of the late bad hits cannot be avoided: the agent appears in the bad target. Entered: it "
        "went there by itself."
        if after["entered"][2] < 0.3 * after["bad"][0]
        else "Entered: the agent went there by itself; into the others it appeared.",
    )
    reached = ours["heading_reached"]
    yield (
        "On average, after 15 time-steps, the agent starts navigating towards the correct target while avoiding the "
        "wrong one.",
        _heading(ours, "NMN") + "<br>" + _heading(other, "RNN"),
        _verdict(reached[2] <= 15, "sooner" if reached[2] < 15 else ""),
        "Of a move: whether its direction is nearer to that of the good target than to that of the bad one. Settled: "
        "from there at least 9 of the next 10 moves are.",
    )
    others = len(fixed["order"]) - fixed["task"]
    few = ", and few of the others follow the state" if 2 * fixed["state"] < others else ""
    yield (
        "Some dimensions of z are constant with respect to α₅, some are well correlated to it, the remaining ones do "
        "not converge and are related to the state.",
        f"of {len(fixed['order'])} dimensions α₅ explains at least half of the variance of {fixed['task']} and less "
        f"than 5 % of that of {fixed['constant']}; the state explains at least half of that of {fixed['state']} of the "
        f"{others} of which α₅ does not; the rest mix both",
        _verdict(min(fixed["task"], fixed["constant"], fixed["state"]) > 0, f"but the kinds run into each other{few}"),
        f"{found['episodes']:,} further episodes with both targets held at {_places(fixed['targets'])}, at t = "
        f"{ADAPTED}. State: the observation before. The best separated dimension: {_percent(max(fixed['of_task']))} "
        "of its variance from α₅.",
    )
    layers = found["neurons"][str(ADAPTED)][:-1]
    yield (
        "Some neurons have very different scale factors for the two values of α₅.",
        f"α₅ explains at least half of the variance of the scale factor of {fixed['neurons_of_task']} of "
        f"{fixed['units']} neurons of the first hidden layer; factors change sign: {_layers(layers, 'signs')} between "
        f"episodes, {_layers(layers, 'within')} within an episode",
        _verdict(fixed["neurons_of_task"] > 0),
        f"The first number with fixed targets, the others with any. {_COUNTED} Within: from t = 15 to {ADAPTED}.",
    )


def _windows(navigation, label):
    lines = []
    for name, rates in navigation["windows"].items():
        first, last = name.split("-")
        lines.append(
            f"t = {first} to {int(last) - 1}: {_text(rates['good'], 1)} good, {_text(rates['bad'], 1)} bad "
            f"({_text(rates['entered'], 1)} entered)"
        )
    return f"{label}, hits per 100 steps: " + "; ".join(lines)


def _heading(navigation, label):
    heading = navigation["heading"][0]
    shares = ", ".join(f"{_percent(heading[step])}" for step in (0, 5, 10, 15, 30))
    by = ", ".join(f"{_percent(share[0])} by {step}" for step, share in navigation["settled_by"].items())
    return (
        f"{label}: moves that head right at t = 0, 5, 10, 15, 30: {shares}, late "
        f"{_percent(navigation['heading_late'][0], 1)}; 90 % of that at t = "
        f"{_text(navigation['heading_reached'], 0)}; settled at t = {navigation['settled_median']:.0f} in the median, "
        f"{by}"
    )


def _places(targets):
    return f"({targets[0]:g}, {targets[1]:g}) and ({targets[2]:g}, {targets[3]:g})"


def _layers(layers, what):
    return " and ".join(f"{layer[what]} of {layer['units']}" for layer in layers) + " neurons"


# What z tells


def _told_words(data):
    widest = max(
        high - low
        for found in data.values()
        for told in found["told"].values()
        for name, values in told.items()
        if name != "degrees"
        for _, low, high in values
    )
    return (
        "R² on held-out episodes, read from z (RNN: from its memory) at step t: ridge regression on z and on "
        "Gaussian bumps around some episodes, 5 folds. 1: all is known; 0: nothing, or nothing that this finds. The "
        "RNN's memory at t holds the observation of t, which z gets one step later; so it knows more at t = 1. "
        f"*Observation before*: that of t − 1. The widest 95 % interval spans {widest:.2f}."
    )


def _told_table(data):
    rows = []
    for bench, found in data.items():
        for kind, label in (("nmn", "NMN"), ("rnn", "RNN")):
            for name, values in found["told"][kind].items():
                if name != "degrees":
                    cells = [_text(_at(values, step)[:1]) for step in LISTED]
                    rows.append((bench, label, _NAMES.get(name, name), *cells))
    return table(("", "agent", "what", *(f"t = {step}" for step in LISTED)), rows)


_NAMES = {
    "bias": "bias α",
    "wind": "wind α₃",
    "target": "place of the target",
    "good target": "good target α₅",
    "last observation": "observation before",
}


# Figures


def _captions(bench, found):
    columns = ", ".join(map(str, found["columns"]))
    for name, words in _ABOUT[bench].items():
        shown = picture(f"adaptation-{bench}-{name}", _ALT[name].format(bench=bench))
        yield f"{shown}\n\n*{words.format(columns=columns)}*"


_ALT = {
    "signal": "z and scale factors against the task, {bench}",
    "time": "rewards and what z tells over time, {bench}",
}
_OVER = (
    "Middle: R² of what z tells of the task and of the state (dashed: what the memory of the RNN tells of the task). "
    "Bands: 95 % intervals."
)
_ABOUT = {
    "b1": {
        "signal": (
            "b1, paper's figure of z, scale factors and rewards against the bias α, at t = {columns}. Lines: medians "
            "in 24 bins; bands: eight tenths of the episodes. z: the five dimensions that vary most."
        ),
        "time": (
            f"b1. Left: mean reward. {_OVER} Right: how far z of different episodes lie apart, and how far z moves in "
            "a step (1 = as far as that of another episode)."
        ),
    },
    "b2": {
        "signal": (
            "b2, at t = {columns}. Above: the median of each dimension of z, a ring, against the direction α₃ of the "
            "wind, rings in the order of the direction that they prefer. Below: median scale factors (radius; "
            "dotted: 0) of the six neurons of the first hidden layer that vary most."
        ),
        "time": (
            f"b2. Left: mean reward of the last five steps. {_OVER} Right: median error of the wind's direction as "
            "read from z, or from the memory of the RNN."
        ),
    },
    "b3": {
        "signal": (
            "b3 with both targets held in place, at t = {columns}. Above: all dimensions of z, those that follow α₅ "
            "most at the top. Below: scale factors of the five neurons of the first hidden layer that follow α₅ most. "
            "Marks: medians; lines: eight tenths of the episodes."
        ),
        "time": (
            f"b3. Left: hits per 100 steps, mean of the last five steps. {_OVER} Right: share of the moves whose "
            "direction is nearer to that of the good target than to that of the bad one."
        ),
    },
}


# Numbers


def _at(values, step):
    """Value, low and high of a step at which z was looked at."""
    return values[TOLD.index(step)]


def _step(values, step):
    return values[TOLD.index(step)]


def _first(values, level):
    """The first step at which a value reaches a level."""
    return next((step for step, value in zip(TOLD, values, strict=True) if value[0] >= level), TOLD[-1])


def _series(values, steps, digits=2):
    return ", ".join(f"t = {step}: {_text(_at(values, step), digits)}" for step in steps)


def _text(numbers, digits=2):
    text = Estimate(*numbers).text(digits)
    return text.replace("-0." + "0" * digits, "0." + "0" * digits)


def _percent(share, digits=0):
    return f"{100 * share:.{digits}f} %"


def _verdict(holds: bool, more: str = "") -> str:
    return ("holds" + (f", {more}" if more else "")) if holds else "does not hold"
