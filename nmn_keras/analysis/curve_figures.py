"""Figures of learning curves and of scores by seed, for all experiments on trained agents."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from nmn_keras.analysis import comparison, plots
from nmn_keras.analysis.experiment import Draw
from nmn_keras.analysis.statistics import bootstrap, interquartile_mean, interval
from nmn_keras.analysis.themes import Theme

POINTS = 120
"""Of a curve, at most."""


@dataclass
class Line:
    """The curves of one group of seeds."""

    label: str
    colour: int
    """Place in the theme's colours."""
    x: NDArray
    """`(T,)`."""
    curves: NDArray
    """`(seeds, T)`."""
    style: str = "-"

    def thinned(self) -> "Line":
        """Give the same with `POINTS` points at most; the last one stays."""
        kept = np.unique(np.linspace(0, len(self.x) - 1, min(POINTS, len(self.x))).round().astype(int))
        return Line(self.label, self.colour, self.x[kept], self.curves[:, kept], self.style)


@dataclass
class Panel:
    """Curves that share axes."""

    title: str
    y_label: str
    lines: list[Line] = field(default_factory=list)
    optimum: float | None = None
    optimum_label: str = "optimum"
    x_label: str = "episodes played"


def curves(panels: Sequence[Panel], one_scale: bool = False) -> Draw:
    """Give a drawing with mean and standard deviation above, as in the paper, interquartile mean and interval below.

    Args:
        panels: from left to right.
        one_scale: whether all have one scale of returns, which they need to be compared with each other.
    """
    thin = [Panel(p.title, p.y_label, [line.thinned() for line in p.lines], p.optimum, p.optimum_label) for p in panels]

    def draw(theme: Theme) -> Figure:
        figure, axes = plots.panels(
            theme, 2, len(thin), size=(4.1, 2.9), sharex="col", sharey="all" if one_scale else "col"
        )
        for column, panel in enumerate(thin):
            for row, plot in enumerate((_mean_and_deviation, _interquartile)):
                _draw_panel(axes[row, column], theme, panel, plot)
            plots.title(axes[0, column], theme, panel.title)
            axes[1, column].set_xlabel(panel.x_label)
        axes[0, 0].set_ylabel(f"mean ± std over seeds\n{thin[0].y_label}")
        axes[1, 0].set_ylabel(f"interquartile mean, 95 % interval\n{thin[0].y_label}")
        return figure

    return draw


def _draw_panel(axes: Axes, theme: Theme, panel: Panel, plot) -> None:
    if panel.optimum is not None and np.isfinite(panel.optimum):
        axes.axhline(panel.optimum, color=theme.reference, linewidth=1, linestyle=":", label=panel.optimum_label)
    for line in panel.lines:
        plot(axes, theme, line)
    axes.set_ylabel("")
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    # Curves that have not risen yet lie where the legend usually does.
    low, high = axes.get_ylim()
    risen = max(float(line.curves[:, len(line.x) // 3 :].max()) for line in panel.lines) > low + 0.4 * (high - low)
    plots.legend(axes, theme, loc="lower right" if risen else "center right", fontsize=7)


def _mean_and_deviation(axes, theme, line):
    mean = line.curves.mean(axis=0)
    axes.plot(line.x, mean, line.style, color=theme.colours[line.colour], linewidth=1.4, label=line.label)
    if len(line.curves) > 1:
        deviation = line.curves.std(axis=0, ddof=1)
        _shade(axes, theme, line, mean - deviation, mean + deviation)


def _interquartile(axes, theme, line):
    """With an interval, or with each seed's curve where there are too few for one."""
    colour = theme.colours[line.colour]
    middle = interquartile_mean(line.curves)
    axes.plot(line.x, middle, line.style, color=colour, linewidth=1.4, label=line.label)
    if len(line.curves) >= comparison.FEWEST:
        _shade(axes, theme, line, *interval(bootstrap(lambda c: interquartile_mean(c, axis=1), [line.curves])))
    else:
        axes.plot(line.x, line.curves.T, line.style, color=colour, linewidth=0.5, alpha=0.6)


def _shade(axes, theme, line, low, high):
    axes.fill_between(line.x, low, high, color=theme.colours[line.colour], alpha=0.22, linewidth=0)


@dataclass
class Dots:
    """A number of each seed of a group."""

    label: str
    colour: int
    values: NDArray
    """`(seeds,)`."""
    filled: bool = True


def scores(columns: Sequence[tuple[str, Sequence[Dots]]], x_label: str) -> Draw:
    """Give a drawing with a dot per seed, and the interquartile mean with its interval, one row per group.

    Where all groups are above 0.5, a seed below 0 is a triangle at the edge with its number: it would press all others
    together.

    Args:
        columns: title and rows of each panel.
        x_label: with the unit.
    """
    most = max(len(rows) for _, rows in columns)

    def draw(theme: Theme) -> Figure:
        figure, axes = plots.panels(theme, 1, len(columns), size=(4.1, 0.9 + 0.3 * most))
        for axis, (title, rows) in zip(axes[0], columns, strict=True):
            found = [comparison.typical(row.values) for row in rows]
            for place, (row, typical) in enumerate(zip(rows, found, strict=True)):
                _draw_dots(axis, theme, row, place, typical)
            if min(typical.value for typical in found) > 0.5:
                _cut_at_zero(axis, theme, rows)
            axis.set_yticks(range(len(rows)), [row.label for row in rows])
            axis.set_ylim(len(rows) - 0.4, -0.6)
            plots.title(axis, theme, title)
            axis.set_xlabel(x_label)
            axis.xaxis.set_major_locator(MaxNLocator(5))
        return figure

    return draw


def _draw_dots(axes, theme, row, place, typical):
    colour = theme.colours[row.colour]
    face = colour if row.filled else "none"
    axes.scatter(row.values, np.full(len(row.values), place), s=16, facecolors=face, edgecolors=colour, alpha=0.75)
    axes.plot([typical.value] * 2, [place - 0.25, place + 0.25], color=theme.ink, linewidth=1.6)
    if typical.low is not None:
        axes.plot([typical.low, typical.high], [place + 0.3] * 2, color=theme.ink, linewidth=1)


def _cut_at_zero(axes, theme, rows):
    below = [(place, row, value) for place, row in enumerate(rows) for value in row.values[row.values < 0]]
    for place, row, value in below:
        axes.set_xlim(left=0)
        colour = theme.colours[row.colour]
        face = colour if row.filled else "none"
        axes.scatter(0, place, s=40, marker="<", facecolors=face, edgecolors=colour, clip_on=False, zorder=3)
        offset = {"xytext": (6, 0), "textcoords": "offset points"}
        axes.annotate(f"{value:.2f}", (0, place), **offset, va="center", fontsize=8, color=theme.ink)
