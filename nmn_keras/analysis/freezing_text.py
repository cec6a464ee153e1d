"""The words of the freezing experiment. Every number and verdict in them is computed from the data."""

from collections.abc import Mapping
from typing import Any

from nmn_keras.analysis.comparison import Estimate
from nmn_keras.analysis.freezing import APART, PHASES, SETTLED, TRACK, WINDOW
from nmn_keras.analysis.markdown import CLAIMS, picture, table

CLEAR = 5
"""How many times the hits of the other target make a choice clear."""


def section(data: Mapping[str, Any]) -> str:
    """Give the part of the page: the five phases, the figures."""
    if not data:
        return "## Freezing\n\nFreezing concerns b3, which was left out."
    return "\n\n".join(["## Freezing", _introduction(data), table(CLAIMS, _claims(data)), _rates(data), *_captions()])


def _introduction(data):
    low, high = data["after"]
    return (
        "The published `b3-nmn` through the paper's five phases within an episode: `nmn reproduce freezing` plays "
        f"{data['episodes']:,} episodes (sha256 of `policy.onnx`: {data['agent'][:8]}…), each a new task, "
        f"deterministic actions. Phases last {data['steps']} steps; b lasts {low} to {high - 1}, drawn for each "
        "episode, so that z is locked at a random step after adaptation. Locking is that of the ONNX contract and of "
        "the server: a step starts from the memory that the last step before the lock started from, and only the "
        "observation changes. Switching: the good target becomes the bad one. *Entered*: bad hits into which the agent "
        "went by itself; into the others it appeared. Intervals: 95 % bootstraps over episodes. Yardsticks: (a) the "
        "interval of the share of bad hits contains one half; (b), (d), (e) one kind of hits is more than "
        f"{CLEAR} times the other, interval against interval; (c) that too, and the intervals of what it loses "
        "against (b) exclude 0."
    )


def _claims(data):
    a, b, c, d, e = (data["phases"][letter] for letter in PHASES)
    less, again = data["locked_minus_free"], data["again_minus_first"]
    yield (
        "(a) z locked at its initial value shows the exploration strategy of an agent without information on the task.",
        f"{_pair(a)}; {_percent(a['wrong'], 0)} % of the hits are bad; after {SETTLED} steps "
        f"{_percent(a['settled']['idle'], 0)} % of the episodes have no hit at all",
        _verdict(a["wrong"][1] < 0.5 < a["wrong"][2]),
        "It makes for a target whichever it is; where it moves to and fro between the two nothing frees it. Half of "
        "the hits must be bad, but for chance: nothing that it sees depends on which target is the good one.",
    )
    yield (
        "(b) Unlocked, it adapts freely to the current task.",
        f"{_pair(b)}, after {SETTLED} steps {_pair(b['settled'])}",
        _verdict(b["settled"]["good"][1] > CLEAR * b["settled"]["bad"][2]),
        "",
    )
    yield (
        "(c) Locked after adaptation, it continues to navigate towards the correct target, slightly degraded: it "
        "loses some capacity to avoid the wrong one.",
        f"{_pair(c)}. Against (b) after {SETTLED} steps: {_text(less['good'], 2, '+')} good, "
        f"{_text(less['bad'], 2, '+')} bad ({_text(less['entered'], 2, '+')} entered) per 100 steps, "
        f"{_text(less['reward'], 2, '+')} reward per step",
        _verdict(c["good"][1] > CLEAR * c["bad"][2] and less["entered"][1] > 0 and less["reward"][2] < 0),
        "What z tells of the state is of some use, and is lost.",
    )
    yield (
        "(d) With the references switched and z still locked, it always moves towards the wrong target.",
        _pair(d),
        _verdict(d["bad"][1] > CLEAR * d["good"][2]),
        "The mirror image of (c).",
    )
    yield (
        "(e) Unlocked again, it adapts and navigates towards the correct target once again.",
        f"{_pair(e)}, after {SETTLED} steps {_pair(e['settled'])}; against (b) {_text(again['reward'], 2, '+')} "
        "reward per step",
        _verdict(e["settled"]["good"][1] > CLEAR * e["settled"]["bad"][2]),
        "It unlearns a task more slowly than it learns the first one (figure below).",
    )


def _rates(data):
    rows = []
    for letter, words in PHASES.items():
        for part, rates in (
            ("all", data["phases"][letter]),
            (f"from step {SETTLED}", data["phases"][letter]["settled"]),
        ):
            cells = [_text(rates[name], 1) for name in ("good", "bad", "entered")]
            shares = [_percent(rates[name], 1) for name in ("wrong", "idle")]
            rows.append((f"({letter}) {words}", part, *cells, *shares))
    columns = ("good hits per 100 steps", "bad", "bad, entered", "% of hits bad", "% of episodes without a hit")
    return table(("phase", "steps", *columns), rows)


def _captions():
    moves = (
        f"The last {TRACK} moves of each phase in one episode: of those whose targets are at least {APART} apart the "
        "one whose hits are most usual. Arrows: moves; dots: where the agent appeared; full disc: the good target, "
        "hatched: the bad one. The square has no edges."
    )
    hits = f"Hits at the start of each phase, mean of the last {WINDOW} steps over all episodes, with 95 % intervals."
    yield f"{picture('freezing-episode', 'Moves of an agent in the five phases')}\n\n*{moves}*"
    yield f"{picture('freezing-hits', 'Hits per 100 steps since each phase began')}\n\n*{hits}*"


def _pair(rates):
    return f"{_text(rates['good'], 1)} good and {_text(rates['bad'], 1)} bad hits per 100 steps"


def _percent(shares, digits):
    return _text([100 * share for share in shares], digits)


def _text(numbers, digits, signs=""):
    return Estimate(*numbers).text(digits, signs)


def _verdict(holds):
    return "holds" if holds else "does not hold"
