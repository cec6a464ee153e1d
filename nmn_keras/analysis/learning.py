"""Learning curves and final scores of NMN and RNN on the three benchmarks (the paper's figure "learning")."""

from collections.abc import Mapping

from nmn_keras.analysis import comparison
from nmn_keras.analysis.experiment import BENCHES, Data, Draw, Options
from nmn_keras.analysis.markdown import CLAIMS, picture, table
from nmn_keras.analysis.score_table import COST, WORDS, lacking, mean_and_spread, scores_table, seeds_text
from nmn_keras.analysis.statistics import mean_improvement, pooled_interquartile_mean
from nmn_keras.analysis.trained import MODES, Group, from_plain, from_zoo, matched, to_plain

KINDS = ("nmn", "rnn")
PAPER_SEEDS = 15
PAPER_RETURN = 4534
"""Of the NMN on b1 after 20,000 episodes."""
RECIPES = ("paper", "fast")
ZOO = "Shown are the runs in the zoo, whose curves, commands and commits are in `zoo/*/curves.csv` and `scores.json`."
TRAINED = "Shown are runs trained for this page, in `runs/` beside it."


def measure(options: Options) -> Data:
    """Train both networks on the benchmarks chosen; see `training.train`."""
    from nmn_keras.analysis.training import train

    return {"source": TRAINED, "groups": to_plain(train(_names(options.benches), options)), "missing": []}


def stored(options: Options) -> Data:
    """Read both networks of the zoo."""
    groups, missing = from_zoo(_names(options.benches), options.zoo)
    return {"source": ZOO, "groups": to_plain(groups), "missing": missing}


def _names(benches):
    return [f"{bench}-{kind}" for bench in benches for kind in KINDS]


# Figures


def figures(data: Data) -> Mapping[str, Draw]:
    """Curves of each recipe, validations where training plays no whole episodes, and scores."""
    from nmn_keras.analysis import curve_figures, group_figures

    look = group_figures.Look(kind_label, kind_colour)
    groups = from_plain(data["groups"])
    drawn = {}
    for recipe in RECIPES:
        mine = [group for group in groups if group.recipe == recipe]
        if mine:
            drawn[f"learning-{recipe}"] = curve_figures.curves(group_figures.training_panels(mine, look))
        if partial := _validated_in_part(mine):
            panels = group_figures.validation_panels(partial, look)
            drawn[f"learning-{recipe}-validated"] = curve_figures.curves(panels)
        if mine:
            columns = group_figures.score_columns(mine, look)
            drawn[f"learning-{recipe}-scores"] = curve_figures.scores(columns, "share of the optimum")
    return drawn


def _validated_in_part(groups):
    return [group for group in groups if not group.whole and len(group.validated()[0])]


def kind_label(group: Group) -> str:
    """Give "NMN" or "RNN"."""
    return group.agent.split("-")[1].upper()


def kind_colour(group: Group) -> int:
    """Give the first colour to the NMN, the second to the RNN."""
    return KINDS.index(group.agent.split("-")[1])


# Text


def section(data: Data) -> str:
    """Claims, scores, comparisons, figures."""
    groups = from_plain(data["groups"])
    pairs = _pairs(groups)
    return "\n\n".join(
        [
            "## Learning",
            f"{_INTRODUCTION} {data['source']}",
            table(CLAIMS, [row for row in (_claim_return(groups), *_claims(pairs), _claim_size(groups)) if row]),
            "### Scores",
            f"{WORDS} {COST}",
            scores_table(groups),
            "### NMN against RNN",
            _COMPARED,
            _comparison_table(pairs),
            *_overall(pairs),
            "### What is missing",
            _missing(groups, data["missing"]),
            *_captions(groups),
        ]
    )


_INTRODUCTION = """Both networks on each benchmark. `nmn reproduce learning` trains 15 seeds of each; `--bench`,
`--seeds`, `--episodes` and `--recipe` choose other runs. The paper's recipe plays whole episodes; the fast one plays
200 steps of each, so that its training curves are returns of the first 200 steps."""

_COMPARED = """*P*: the probability that a seed of the NMN beats one of the RNN; 0.5 is no difference. *Sooner*: by
the mean return over all of training. *Difference*: of interquartile means. *Ratio of spreads*: standard deviation
over seeds, NMN over RNN, of the sampled score on test episodes. Intervals are drawn over seeds; where every seed of
one beats every seed of the other, that of P shrinks to a point."""


def _pairs(groups):
    """NMN and RNN trained in the same way, `[(NMN, RNN)]`."""
    return [pair for bench in BENCHES for pair in matched(groups, _names([bench]))]


def _claim_return(groups):
    lines, verdicts = [], []
    for group in groups:
        if group.agent != "b1-nmn" or not group.whole:
            continue
        returns = group.measured("training")
        found = comparison.typical(returns)
        lines.append(
            f"{mean_and_spread(returns)} after {group.episodes:,} episodes, {seeds_text(group)}; interquartile mean "
            f"{found.text()}"
        )
        if found.low is None or found.high is None:
            verdicts.append(f"{returns.mean() - PAPER_RETURN:+.0f}: {seeds_text(group)}, too few for an interval")
        elif found.low <= PAPER_RETURN <= found.high:
            verdicts.append("not contradicted")
        else:
            verdicts.append("does not hold: lower" if found.high < PAPER_RETURN else "holds: higher")
    if not lines:
        return None
    return (
        f"On benchmark 1 the NMN reaches {PAPER_RETURN} after 20,000 episodes; Bayes optimal is 4679.",
        "<br>".join(lines),
        "<br>".join(verdicts),
        "Paper recipe, mean of the last 1,000 training episodes. Both numbers are discounted returns.",
    )


_CLAIMS = (
    (
        "NMNs learn faster than RNNs, with respect to the number of episodes.",
        lambda nmn, rnn: comparison.probability(nmn.measured("area"), rnn.measured("area")),
        "P(NMN sooner)",
        (0.5, True),
        "By the mean return over all of training.",
    ),
    (
        "NMNs converge towards better policies: higher rewards for the last episodes.",
        lambda nmn, rnn: comparison.probability(nmn.measured(nmn.final), rnn.measured(nmn.final)),
        "P(NMN higher)",
        (0.5, True),
        "Paper recipe: last 1,000 training episodes; fast recipe: test episodes with sampled actions. The fast "
        "recipe takes many small steps, has a floor under the deviation and, on b2 and b3, an action head without a"
        " jump, for both networks alike (docs/training.md).",
    ),
    (
        "NMNs show very stable results, with small variances over seeds, as opposed to RNNs.",
        lambda nmn, rnn: comparison.spread_ratio(nmn.measured(nmn.final), rnn.measured(nmn.final)),
        "ratio of spreads",
        (1.0, False),
        "Standard deviation over seeds, NMN over RNN, of the same returns.",
    ),
)


def _claims(pairs):
    for words, compare, name, (even, higher), why in _CLAIMS:
        lines, verdicts = [], []
        for nmn, rnn in pairs:
            found = compare(nmn, rnn)
            lines.append(f"{nmn.bench}, {nmn.recipe}: {name} {found.text(2)}{found.tested()}")
            verdicts.append(f"{nmn.bench}, {nmn.recipe}: {comparison.verdict(found, even, higher)}")
        yield words, "<br>".join(lines), "<br>".join(verdicts), why


def _claim_size(groups):
    sizes = {(g.agent, g.recipe): g.parameters for g in groups if g.parameters is not None}
    lines, verdicts = [], []
    for agent, recipe in sizes:
        if not agent.endswith("-nmn") or (other := (f"{agent.partition('-')[0]}-rnn", recipe)) not in sizes:
            continue
        nmn, rnn = sizes[agent, recipe], sizes[other]
        lines.append(f"{agent[:2]}, {recipe}: {nmn:,} and {rnn:,}")
        gap = abs(nmn - rnn) / rnn
        verdicts.append(f"{agent[:2]}, {recipe}: {'holds' if gap < 0.02 else 'does not hold'}, {gap:.1%}")
    words = "The numbers of parameters of NMN and RNN differ by less than 2 %."
    why = (
        "Actors alone. b1 has the networks that the paper's appendix tabulates, and so has the paper recipe "
        "everywhere; the fast recipe has others on b2 and b3 (docs/training.md)."
    )
    return words, "<br>".join(lines), "<br>".join(verdicts), why


def _comparison_table(pairs):
    rows = []
    for nmn, rnn in pairs:
        cells = [nmn.bench, nmn.recipe, f"{len(nmn.seeds)} and {len(rnn.seeds)}"]
        for name in ("area", "training", *MODES):
            cells.append(comparison.probability(nmn.measured(name), rnn.measured(name)).text(2))
        gap = comparison.difference(nmn.measured("sampled"), rnn.measured("sampled"))
        ratio = comparison.spread_ratio(nmn.measured("sampled"), rnn.measured("sampled"))
        rows.append([*cells, gap.text(0, "+"), ratio.text(2)])
    return table(
        (
            "benchmark",
            "recipe",
            "seeds",
            "P, sooner",
            "P, end of training",
            "P, test, deterministic",
            "P, test, sampled",
            "difference, test, sampled",
            "ratio of spreads",
        ),
        rows,
    )


def _overall(pairs):
    """All benchmarks together, where one recipe has them all, of enough seeds."""
    for recipe in RECIPES:
        mine = [pair for pair in pairs if pair[0].recipe == recipe]
        if any(len(group.seeds) < comparison.FEWEST for pair in mine for group in pair):
            continue
        if {nmn.bench for nmn, _ in mine} != {*BENCHES} or len(mine) != len(BENCHES):
            continue
        lines = []
        for mode in MODES:
            shares = [[g.measured(mode) / g.best(mode) for g in kind] for kind in zip(*mine, strict=True)]
            nmn, rnn = (comparison.estimate(pooled_interquartile_mean, kind) for kind in shares)
            chance = comparison.estimate(mean_improvement, [*shares[0], *shares[1]])
            lines.append(f"{mode}, NMN {nmn.text(3)}, RNN {rnn.text(3)}, P(NMN > RNN) {chance.text(2)}")
        yield (
            f"All three benchmarks together, {recipe} recipe, share of the optimum on test episodes (interquartile "
            f"mean over all seeds, drawn again within each benchmark): {'; '.join(lines)}."
        )


def _missing(groups, missing):
    lines = [line for recipe in RECIPES for line in lacking(groups, [*_present(groups), *missing], recipe, PAPER_SEEDS)]
    return "\n".join(lines) or f"Nothing: {PAPER_SEEDS} seeds of each."


def _present(groups):
    return list(dict.fromkeys(group.agent for group in groups))


def _captions(groups):
    has = {group.recipe for group in groups}
    for recipe in RECIPES:
        if recipe in has:
            yield f"{picture(f'learning-{recipe}', f'Learning curves, {recipe} recipe')}\n\n*{_ABOUT[recipe]} {BANDS}*"
        if _validated_in_part([group for group in groups if group.recipe == recipe]):
            text = picture(f"learning-{recipe}-validated", f"Validation curves, {recipe} recipe")
            yield f"{text}\n\n*{_VALIDATED} {BANDS}*"
    for recipe in RECIPES:
        if recipe in has:
            text = picture(f"learning-{recipe}-scores", f"Scores of each seed on test episodes, {recipe} recipe")
            yield f"{text}\n\n*{recipe.capitalize()} recipe. {DOTS}*"


_ABOUT = {
    "paper": "Learning under the paper recipe, as the paper plots it: mean discounted return of the episodes "
    "played, running mean over 1,000 of them.",
    "fast": "Learning under the fast recipe: the same, of the first 200 steps of each episode, which is all that is"
    " played.",
}
_VALIDATED = (
    "The same runs on whole episodes with the deterministic action, as validated during training (500 episodes on "
    "b1, 100 on b2 and b3)."
)
BANDS = (
    "Above: mean ± standard deviation over seeds, as in the paper. Below: interquartile mean with its 95 % "
    "bootstrap interval, or every seed where there are fewer than five. Dotted: the optimum of as many steps."
)
DOTS = (
    "Scores of each seed on test episodes; filled: deterministic, open: sampled. The bar is the interquartile mean,"
    " the line below it its interval. Where all bars are above 0.5, a seed below 0 stands at the edge with its number."
)
