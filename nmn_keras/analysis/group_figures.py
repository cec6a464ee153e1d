"""Groups of seeds as panels and rows of figures: which curve is drawn, against what optimum, under which name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nmn_keras.analysis.curve_figures import Dots, Line, Panel
from nmn_keras.analysis.experiment import BENCHES
from nmn_keras.analysis.trained import MODES, Group

TITLES = {"b1": "b1, moving target", "b2": "b2, windy navigation", "b3": "b3, two targets"}
OPTIMA = {"b1": "Bayes optimal", "b2": "optimal if told the task", "b3": "optimal if told the task"}


@dataclass(frozen=True)
class Look:
    """How groups are told apart."""

    label: Callable[[Group], str]
    """Name in the legend."""
    colour: Callable[[Group], int]
    """Place in the theme's colours."""
    style: Callable[[Group], str] = lambda group: "-"
    """Of the line."""


def present(groups: Sequence[Group]) -> list[str]:
    """Give the benchmarks that have a group."""
    return [bench for bench in BENCHES if any(group.bench == bench for group in groups)]


def training_panels(groups: Sequence[Group], look: Look) -> list[Panel]:
    """Give a panel per benchmark of the returns while training, all under one recipe."""
    return [training_panel(TITLES[b], [g for g in groups if g.bench == b], look) for b in present(groups)]


def training_panel(title: str, groups: Sequence[Group], look: Look) -> Panel:
    """Give the returns while training of groups on one benchmark."""
    first = groups[0]
    played = "of an episode" if first.whole else f"of the first {first.steps} steps"
    lines = [_line(group, look, group.played(), group.curves()) for group in groups]
    return Panel(title, f"discounted return {played}", lines, first.optimum, OPTIMA[first.bench])


def validation_panels(groups: Sequence[Group], look: Look) -> list[Panel]:
    """Give a panel per benchmark of whole episodes with the deterministic action, as validated during training."""
    panels = []
    for bench in present(groups):
        mine = [group for group in groups if group.bench == bench and len(group.validated()[0])]
        if mine:
            lines = [_line(group, look, *group.validated()) for group in mine]
            y_label = "discounted return of whole episodes,\ndeterministic action"
            panels.append(Panel(TITLES[bench], y_label, lines, mine[0].best("deterministic"), OPTIMA[bench]))
    return panels


def _line(group, look, x, curves):
    count = len(group.seeds)
    label = f"{look.label(group)}, {count} seed{'s' if count > 1 else ''}"
    return Line(label, look.colour(group), x, curves, look.style(group))


def score_columns(groups: Sequence[Group], look: Look) -> list[tuple[str, list[Dots]]]:
    """Give a column per benchmark of scores on test episodes, as shares of the optimum."""
    return [
        (
            TITLES[bench],
            [
                Dots(
                    f"{look.label(group)}, {group.recipe}, {mode}",
                    look.colour(group),
                    group.measured(mode) / group.best(mode),
                    filled=mode == "deterministic",
                )
                for group in groups
                if group.bench == bench
                for mode in MODES
            ],
        )
        for bench in present(groups)
    ]
