"""Figures of the freezing experiment."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, Rectangle

from nmn_keras.analysis import plots
from nmn_keras.analysis.experiment import Draw
from nmn_keras.analysis.freezing import LOCKED, PHASES
from nmn_keras.analysis.themes import Theme
from nmn_keras.envs.dynamics import TwoTargets, plane

TITLES = {
    "a": "(a) z locked\nat its initial value",
    "b": "(b) z unlocked\n",
    "c": "(c) z locked\nafter adaptation",
    "d": "(d) targets switched,\nz still locked",
    "e": "(e) z unlocked\nagain",
}


def figures(data: Mapping[str, Any]) -> dict[str, Draw]:
    """Give both drawings; none where benchmark 3 was left out."""
    return {"freezing-episode": _episode(data), "freezing-hits": _hits(data)} if data else {}


def _episode(data):
    def draw(theme: Theme) -> Figure:
        figure, axes = plots.panels(theme, 1, len(PHASES), size=(2.5, 3.2), sharey=True)
        track = data["track"]
        for axis, (number, letter) in zip(axes[0], enumerate(PHASES), strict=True):
            task = np.array(track["task"])
            if number >= 3:
                task[4] = -task[4]
            _draw_targets(axis, theme, task)
            _draw_moves(axis, theme, np.array(track["positions"][number]), np.array(track["rewards"][number]))
            axis.set(xlim=(-2.05, 2.05), ylim=(-2.05, 2.05), xticks=(-2, 0, 2), yticks=(-2, 0, 2), aspect="equal")
            axis.grid(False)
            axis.set_xlabel("first axis")
            plots.title(axis, theme, TITLES[letter])
        axes[0, 0].set_ylabel("second axis")
        return figure

    return draw


def _draw_targets(axes: Axes, theme: Theme, task) -> None:
    """Both discs with what they give: the good one full, the bad one hatched."""
    first_good = task[4] > 0
    for centre, good in ((task[:2], first_good), (task[2:4], not first_good)):
        colour = theme.colours[2 if good else 1]
        look = {"facecolor": colour, "alpha": 0.35} if good else {"facecolor": "none", "hatch": "////"}
        axes.add_patch(Circle(tuple(centre), TwoTargets.target_radius, edgecolor=colour, linewidth=1.2, **look))
        axes.annotate(
            "+100" if good else "−50",
            centre,
            color=theme.ink,
            fontsize=8,
            ha="center",
            va="center",
            weight="bold",
            bbox={"boxstyle": "round,pad=0.1", "facecolor": theme.paper, "edgecolor": "none", "alpha": 0.75},
            zorder=5,
        )


def _draw_moves(axes: Axes, theme: Theme, positions, rewards) -> None:
    """An arrow for each move, around an edge one at either side, and a dot where the agent appears."""
    axes.add_patch(Rectangle((-2, -2), 4, 4, fill=False, edgecolor=theme.faint, linewidth=1))
    appears = positions[np.flatnonzero(rewards[:-1] != 0) + 1]
    axes.scatter(appears[:, 0], appears[:, 1], s=9, color=theme.colours[0], zorder=4)
    for start, end in zip(positions[:-1][rewards[:-1] == 0], positions[1:][rewards[:-1] == 0], strict=True):
        move = plane.wrap(end - start)
        around = not np.allclose(start + move, end)
        for tail in (start, end - move) if around else (start,):
            arrow = FancyArrowPatch(
                tail,
                tail + move,
                arrowstyle="-|>",
                color=theme.colours[0],
                linewidth=1.1,
                mutation_scale=7,
                shrinkA=0,
                shrinkB=0,
                zorder=4,
            )
            axes.add_patch(arrow)


def _hits(data):
    def draw(theme: Theme) -> Figure:
        figure, axes = plots.panels(theme, 1, len(PHASES), size=(2.5, 2.8), sharey=True)
        for axis, letter in zip(axes[0], PHASES, strict=True):
            for kind, place, style, label in (
                ("good", 2, "-", "good target"),
                ("bad", 1, "--", "bad target"),
            ):
                value, low, high = np.array(data["phases"][letter]["onset"][kind])
                steps = np.arange(len(value))
                colour = theme.colours[place]
                axis.plot(steps, value, style, color=colour, linewidth=1.4, label=label)
                axis.fill_between(steps, low, high, color=colour, alpha=0.2, linewidth=0)
            if LOCKED[letter]:
                axis.text(
                    0.97,
                    0.95,
                    "locked",
                    transform=axis.transAxes,
                    ha="right",
                    va="top",
                    fontsize=8,
                    color=theme.reference,
                )
            axis.set_xlabel("steps since the phase began")
            axis.set_ylim(0, 26)
            plots.title(axis, theme, TITLES[letter])
        axes[0, 0].set_ylabel("hits per 100 steps")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        plots.legend(figure, theme, handles=handles, labels=labels)
        return figure

    return draw
