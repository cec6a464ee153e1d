"""Other activations and depths of the main network (the paper's robustness study)."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from nmn_keras.analysis import comparison
from nmn_keras.analysis.experiment import BENCHES, Data, Draw, Options
from nmn_keras.analysis.learning import BANDS, DOTS, KINDS, PAPER_SEEDS, RECIPES, TRAINED, ZOO, kind_colour, kind_label
from nmn_keras.analysis.markdown import CLAIMS, picture, table
from nmn_keras.analysis.score_table import COST, WORDS, lacking, scores_table
from nmn_keras.analysis.statistics import contrast_test, interquartile_mean
from nmn_keras.analysis.trained import Group, from_plain, from_zoo, matched, to_plain, trained_alike

DEPTHS = {0: "-depth0", 1: "", 4: "-depth4"}
"""Ending of an agent's name by number of hidden layers of its main network."""


def measure(options: Options) -> Data:
    """Train the paper's networks and their variants; see `training.train`."""
    from nmn_keras.analysis.training import train

    return {"source": TRAINED, "groups": to_plain(train(_names(options.benches), options)), "missing": []}


def stored(options: Options) -> Data:
    """Read what the zoo has of them."""
    groups, missing = from_zoo(_names(options.benches), options.zoo)
    return {"source": ZOO, "groups": to_plain(groups), "missing": missing}


def _names(benches):
    sigmoid = [name for bench in benches for name in _sigmoid_names(bench)]
    depth = [f"b1-{kind}{ending}" for ending in DEPTHS.values() for kind in KINDS] if "b1" in benches else []
    return list(dict.fromkeys([*sigmoid, *depth]))


def _sigmoid_names(bench):
    return [f"{bench}-{kind}{ending}" for kind in KINDS for ending in ("", "-sigmoid")]


def _is_sigmoid(group):
    return group.agent.endswith("-sigmoid")


def _is_variant(group):
    return group.agent.count("-") > 1


def _of_sigmoid(groups):
    return [group for group in groups if group.agent in _sigmoid_names(group.bench)]


def _of_depth(groups, depth):
    return [group for group in groups if group.agent in [f"b1-{kind}{DEPTHS[depth]}" for kind in KINDS]]


# Figures


def figures(data: Data) -> Mapping[str, Draw]:
    """Curves by activation and by depth for each recipe under which a variant was trained, and scores."""
    from nmn_keras.analysis import curve_figures, group_figures

    groups = from_plain(data["groups"])
    drawn = {}
    for recipe in RECIPES:
        mine = [group for group in groups if group.recipe == recipe]
        sigmoid = _of_sigmoid(mine)
        if any(map(_is_sigmoid, sigmoid)):
            look = group_figures.Look(_activation_label, kind_colour, lambda g: "--" if _is_sigmoid(g) else "-")
            drawn[f"robustness-sigmoid-{recipe}"] = curve_figures.curves(group_figures.training_panels(sigmoid, look))
        if _has_depths(mine):
            drawn[f"robustness-depth-{recipe}"] = curve_figures.curves(_depth_panels(mine), one_scale=True)
    if any(map(_is_variant, groups)):
        look = group_figures.Look(lambda group: group.agent, kind_colour)
        columns = group_figures.score_columns(trained_alike(groups, _is_variant), look)
        drawn["robustness-scores"] = curve_figures.scores(columns, "share of the optimum")
    return drawn


def _has_depths(groups):
    return any(_is_variant(group) for depth in DEPTHS for group in _of_depth(groups, depth))


def _depth_panels(groups):
    from nmn_keras.analysis.group_figures import Look, training_panel

    titles = {0: "b1, no hidden layer", 1: "b1, 1 hidden layer (the paper's networks)", 4: "b1, 4 hidden layers"}
    look = Look(kind_label, kind_colour)
    return [training_panel(titles[d], mine, look) for d in DEPTHS if (mine := _of_depth(groups, d))]


def _activation_label(group: Group) -> str:
    return f"{kind_label(group)}, {_activation(group)}"


def _activation(group):
    if _is_sigmoid(group):
        return "sigmoid"
    return "ReLU" if group.agent.startswith("b1-rnn") else "sReLU"  # as in the presets, which would load Keras


# Text


def section(data: Data) -> str:
    """Claims, scores, figures."""
    groups = from_plain(data["groups"])
    claims = [_worse_or_equivalent(groups), _less_sensitive(groups), _reaches(groups), _consistent(groups)]
    wanted = _names(BENCHES)
    missing = [line for recipe in RECIPES for line in lacking(groups, wanted, recipe, PAPER_SEEDS)]
    return "\n\n".join(
        [
            "## Robustness",
            f"{_INTRODUCTION} {data['source']}",
            table(CLAIMS, claims),
            "### Scores of the variants",
            f"{WORDS} {COST}",
            scores_table(trained_alike(groups, _is_variant)),
            "### Variants that are missing",
            "\n".join(missing) or f"Nothing: {PAPER_SEEDS} seeds of each.",
            *_captions(groups),
        ]
    )


_INTRODUCTION = """NMN and RNN with sigmoid instead of sReLU on each benchmark (`b1-nmn-sigmoid` and so on) and, on
b1, with 0 and 4 hidden layers instead of 1 (`b1-nmn-depth0`, ...). `nmn reproduce robustness` trains 15 seeds of each.
Compared is only what was trained in the same way. The measure is the nearest to the paper's: under its recipe the last
1,000 training episodes, under the fast recipe test episodes with sampled actions."""


def _claim(words, measured, why):
    """A row of the table of claims; `measured` yields what was compared, the finding and the verdict."""
    rows = list(measured)
    if not rows:
        return words, "not trained yet", "–", why
    return (
        words,
        "<br>".join(f"{what}: {found}" for what, found, _ in rows),
        "<br>".join(f"{what}: {said}" for what, _, said in rows),
        why,
    )


def _worse_or_equivalent(groups):
    def measured():
        for bench in BENCHES:
            for kind in KINDS:
                for plain, sigmoid in matched(groups, [f"{bench}-{kind}", f"{bench}-{kind}-sigmoid"]):
                    found = comparison.probability(plain.measured(plain.final), sigmoid.measured(plain.final))
                    said = comparison.verdict(found, 0.5)
                    said = {
                        "no difference shown": "not contradicted: no difference shown",
                        "holds": "holds: worse",
                    }.get(said, said)
                    yield _what(plain), f"P({_activation(plain)} > sigmoid) {found.text(2)}", said

    return _claim(
        "Sigmoid activation functions lead to worse or equivalent results to sReLUs, be it for RNNs or NMNs.",
        measured(),
        "Sigmoid in the main network, the last layer stays linear. `b1-rnn` has ReLU, not sReLU (the paper's appendix; "
        "the authors' launcher has sReLU there too).",
    )


def _what(group):
    return f"{group.bench} {kind_label(group)}, {group.recipe}"


def _less_sensitive(groups):
    def lost(*strata):
        nmn, nmn_sigmoid, rnn, rnn_sigmoid = (interquartile_mean(runs, axis=1) for runs in strata)
        return (rnn - rnn_sigmoid) - (nmn - nmn_sigmoid)

    excess: dict[str, dict[str, comparison.Estimate]] = {recipe: {} for recipe in RECIPES}
    for bench in BENCHES:
        for four in matched(groups, _sigmoid_names(bench)):
            measure = four[0].final
            shares = [g.measured(measure) / g.best(measure) for g in four]
            found = comparison.estimate(lost, shares)
            if found.low is not None:
                found = replace(found, p=contrast_test((-1, 1, 1, -1), shares))
            excess[four[0].recipe][bench] = found
    measured = (
        (
            f"{bench}, {recipe}",
            f"RNN loses {found.text(3, '+')} of the optimum more than the NMN{found.tested()}",
            comparison.verdict(found, 0.0),
        )
        for recipe, by_bench in excess.items()
        for bench, found in by_bench.items()
    )
    most = [
        f" {recipe.capitalize()} recipe: most on {max(by_bench, key=lambda bench: by_bench[bench].value)}."
        for recipe, by_bench in excess.items()
        if len(by_bench) == len(BENCHES)
    ]
    return _claim(
        "The difference between sReLUs and sigmoids is often far inferior for NMNs than RNNs (especially for "
        "benchmark 2).",
        measured,
        "Difference of interquartile means, sReLU less sigmoid, of the RNN less that of the NMN; p: Welch's t test of "
        "the means." + "".join(most),
    )


def _reaches(groups):
    def measured():
        for nmn, rnn in matched(groups, [f"b1-{kind}{DEPTHS[0]}" for kind in KINDS]):
            found = comparison.probability(nmn.measured(nmn.final), rnn.measured(nmn.final))
            said = comparison.verdict(found, 0.5)
            said = {"holds": "does not hold: the NMN is ahead", "does not hold": "holds: the RNN is ahead"}.get(
                said, said
            )
            ours, theirs = (interquartile_mean(g.measured(g.final) / g.best(g.final)) for g in (nmn, rnn))
            shares = f"{ours:.3f} and {theirs:.3f} of the optimum"
            yield f"b1, {nmn.recipe}", f"P(NMN > RNN) {found.text(2)}; {shares}", said

    return _claim(
        "RNNs can reach NMNs' performances for a given architecture (no hidden layer in this case).",
        measured(),
        "Between GRU and main network both keep a dense layer of 20.",
    )


def _consistent(groups):
    def wider(*strata):
        middles = np.stack([interquartile_mean(runs, axis=1) for runs in strata])
        half = len(strata) // 2
        return np.ptp(middles[half:], axis=0) - np.ptp(middles[:half], axis=0)

    def measured():
        for six in matched(groups, [f"b1-{kind}{ending}" for kind in KINDS for ending in DEPTHS.values()]):
            measure = six[0].final
            shares = [group.measured(measure) / group.best(measure) for group in six]
            found = comparison.estimate(wider, shares)
            text = f"over depths the RNN varies by {found.text(3, '+')} of the optimum more than the NMN"
            yield f"b1, {six[0].recipe}", text, comparison.verdict(found, 0.0)

    return _claim(
        "RNNs seem relatively dependent on the architecture; NMNs seem surprisingly consistent with respect to the "
        "number of hidden layers.",
        measured(),
        "Best less worst interquartile mean over 0, 1 and 4 hidden layers, of the RNN less that of the NMN.",
    )


def _captions(groups):
    for recipe in RECIPES:
        mine = [group for group in groups if group.recipe == recipe]
        if any(map(_is_sigmoid, mine)):
            text = picture(f"robustness-sigmoid-{recipe}", f"Learning curves with sReLU and sigmoid, {recipe} recipe")
            yield f"{text}\n\n*sReLU or ReLU (solid) and sigmoid (dashed), {recipe} recipe, while training. {BANDS}*"
        if _has_depths(mine):
            text = picture(f"robustness-depth-{recipe}", f"Learning curves by depth, {recipe} recipe")
            yield f"{text}\n\n*By depth of the main network, {recipe} recipe, while training. {BANDS}*"
    if any(map(_is_variant, groups)):
        yield f"{picture('robustness-scores', 'Scores of the variants by seed')}\n\n*{DOTS}*"
