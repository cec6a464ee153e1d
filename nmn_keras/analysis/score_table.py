"""The table of scores of groups of seeds, and the words that explain it."""

from collections.abc import Sequence

from nmn_keras.analysis import comparison
from nmn_keras.analysis.markdown import table
from nmn_keras.analysis.trained import MODES, Group

WORDS = """Discounted return (gamma 0.998). *While training*: mean over the last 1,000 episodes, mean ± standard
deviation over seeds; actions are sampled, and of the fast recipe it is the first 200 steps alone, on b1 half of
them played with the mean action. *Test*: the best-validated update of each seed on 1,000 other whole episodes;
interquartile mean over seeds with its 95 % interval (from five seeds on), and its share of the optimum (Bayes
optimal on b1, told the task on b2 and b3). *Spread*: standard deviation over seeds of the deterministic score, its
lowest and its highest."""

_HEADER = (
    "agent",
    "recipe",
    "episodes",
    "seeds",
    "parameters",
    "products a step",
    "while training",
    "test, deterministic",
    "share",
    "test, sampled",
    "share",
    "spread (lowest to highest)",
)
COST = """*Parameters*: of the actor. *Products a step*: multiplications in matrix products of a step of the
published ONNX file, which is of one recipe."""


def scores_table(groups: Sequence[Group]) -> str:
    """Give the table, a row per group."""
    return table(_HEADER, [_row(group) for group in groups])


def _row(group):
    training = group.measured("training")
    what = "" if group.whole else f" ({group.steps} steps)"
    cells = [
        f"`{group.agent}`",
        group.recipe,
        f"{group.episodes:,}",
        str(len(group.seeds)),
        *("–" if size is None else f"{size:,}" for size in (group.parameters, group.operations)),
        mean_and_spread(training) + what,
    ]
    for mode in MODES:
        found = comparison.typical(group.measured(mode))
        cells += [found.text(), f"{found.value / group.best(mode):.3f}"]
    served = group.measured("deterministic")
    return [*cells, f"{_number(comparison.spread(served))} ({served.min():.0f} to {served.max():.0f})"]


def mean_and_spread(values) -> str:
    """Give "4535 ± 19", or the number alone of a single seed."""
    return f"{values.mean():.0f}" + (f" ± {comparison.spread(values):.0f}" if len(values) > 1 else "")


def _number(value):
    return "–" if value != value else f"{value:.0f}"


def seeds_text(group: Group) -> str:
    """Give "2 seeds"."""
    return f"{len(group.seeds)} seed{'s' if len(group.seeds) > 1 else ''}"


def lacking(groups: Sequence[Group], names: Sequence[str], recipe: str, wanted: int) -> list[str]:
    """Say which agents have fewer seeds of a recipe than wanted, or none.

    Args:
        groups: what there is.
        names: of agents that should be there.
        recipe: its name.
        wanted: seeds.

    Returns:
        Items of a Markdown list.
    """
    counts = {name: sum(len(g.seeds) for g in groups if (g.agent, g.recipe) == (name, recipe)) for name in names}
    short = [f"`{name}` {count}" for name, count in counts.items() if 0 < count < wanted]
    none = [f"`{name}`" for name, count in counts.items() if not count]
    lines = [f"- {recipe} recipe, fewer than {wanted} seeds: {', '.join(short)}."] if short else []
    return lines + ([f"- {recipe} recipe, not trained yet: {', '.join(none)}."] if none else [])
