"""Figures of the adaptation experiment: z and scale factors by task, rewards and knowledge over time."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from nmn_keras.analysis import plots
from nmn_keras.analysis.adaptation import SMOOTH
from nmn_keras.analysis.experiment import Draw
from nmn_keras.analysis.themes import Theme

PLAYERS = {"nmn": ("NMN", 0, "-"), "rnn": ("RNN", 1, "--"), "bayes": ("Bayes optimal", None, ":")}
"""Label, place in the theme's colours (None: the reference) and line of each player."""
SECRETS = {
    "bias": "bias α",
    "wind": "wind α₃",
    "good target": "which target is good, α₅",
    "target": "place of the target",
    "places of targets": "places of both targets",
    "position": "position",
    "last observation": "observation before",
}


def figures(data: Mapping[str, Any]) -> dict[str, Draw]:
    """Give two drawings for each benchmark that was measured."""
    by_task = {"b1": _lines_by_task, "b2": _rings_by_wind, "b3": _by_good_target}
    drawn = {}
    for bench, found in data.items():
        drawn[f"adaptation-{bench}-signal"] = by_task[bench](found)
        drawn[f"adaptation-{bench}-time"] = _over_time(bench, found)
    return drawn


# b1


def _lines_by_task(found):
    """Signals, scale factors and rewards against the bias, a column per step."""
    middles = _middles(found["edges"])
    parts = (
        (_array(found["signals"]), [f"z {number}" for number in found["dimensions"]], "z"),
        (
            _array(found["scales"]),
            [f"neuron {number}" for number in found["drawn_neurons"]],
            "scale factors\nof the hidden layer",
        ),
        (_array(found["rewards_by_task"]), ["reward"], "reward"),
    )

    def draw(theme: Theme) -> Figure:
        figure, axes = plots.panels(theme, 3, len(found["columns"]), size=(2.0, 2.0), sharex=True, sharey="row")
        for row, (values, names, label) in enumerate(parts):
            for column, step in enumerate(found["columns"]):
                for number, name in enumerate(names):
                    _band(axes[row, column], _shade(theme, number), middles, values[column][..., number], name)
                if row == 0:
                    plots.title(axes[0, column], theme, f"t = {step}")
            axes[row, 0].set_ylabel(label)
            axes[row, 0].yaxis.label.set_fontsize(9)
        for axis in axes[1]:
            axis.axhline(0, color=theme.reference, linewidth=1, linestyle=":")
        for axis in axes[2]:
            axis.set_xlabel("bias α")
            axis.set_xticks((-10, 0, 10))
        (lines, names), (more_lines, more_names) = (axes[row, 0].get_legend_handles_labels() for row in (0, 1))
        plots.legend(figure, theme, handles=lines + more_lines, labels=names + more_names, ncols=8)
        return figure

    return draw


def _shade(theme: Theme, number: int):
    return theme.colours[number % len(theme.colours)], ("-", "--")[number // len(theme.colours)]


def _band(axes: Axes, look, x, quantiles, label: str) -> None:
    """The median as a line, and between the quantiles 0.1 and 0.9."""
    colour, style = look
    low, middle, high = quantiles
    axes.plot(x, middle, style, color=colour, linewidth=1.2, label=label)
    axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)


# b2


def _rings_by_wind(found):
    """Rings of z and scale factors as radius, around the wind's direction."""
    edges = _array(found["edges"])
    signals, scales = _array(found["signals"])[:, 0], _array(found["scales"])[:, 0]
    order = np.argsort(signals[-1].argmax(axis=0), kind="stable")
    neurons = found["drawn_neurons"]
    reach = np.nanmin(scales) - 2.0, np.nanmax(scales) + 0.5

    def draw(theme: Theme) -> Figure:
        columns = len(found["columns"])
        figure, axes = plots.panels(theme, 2, columns, size=(2.5, 2.7), subplot_kw={"projection": "polar"})
        for axis in axes.flat:
            axis.set_theta_zero_location("N")  # the paper's angles: 0 is the second axis, and they turn to the first
            axis.set_theta_direction(-1)
            axis.set_xticks(np.radians([0, 90, 180, 270]), ["0", "π/2", "±π", "−π/2"])
            axis.tick_params(pad=-1, labelsize=7)
        for column, step in enumerate(found["columns"]):
            _draw_rings(axes[0, column], edges, signals[column][:, order], np.nanmax(signals))
            _draw_radii(axes[1, column], theme, edges, scales[column], neurons, reach)
            plots.title(axes[0, column], theme, f"t = {step}")
        image = axes[0, -1].collections[0]
        bar = figure.colorbar(image, ax=axes[0, :], location="right", shrink=0.8, label="median z")
        _dress_bar(bar, theme)
        axes[0, 0].set_ylabel("dimensions of z\n", fontsize=9, color=theme.ink)
        axes[1, 0].set_ylabel("scale factors of the\nfirst hidden layer\n", fontsize=9, color=theme.ink)
        for axis in (axes[0, 0], axes[1, 0]):
            axis.yaxis.set_label_coords(-0.25, 0.5)
        handles, labels = axes[1, 0].get_legend_handles_labels()
        plots.legend(figure, theme, handles=handles, labels=labels, ncols=7)
        return figure

    return draw


def _draw_rings(axes, edges, values, highest):
    rings = np.arange(values.shape[1] + 1) + 8.0  # a hole, or the innermost rings would be points
    axes.pcolormesh(edges, rings, values.T, cmap="viridis", vmin=0.0, vmax=highest, rasterized=True)
    axes.set_ylim(0, rings[-1])
    axes.set_yticks([])
    axes.grid(False)


def _draw_radii(axes, theme, edges, values, neurons, reach):
    angles = _middles(edges)
    closed = np.append(angles, angles[0])
    for number, neuron in enumerate(neurons):
        colour, style = _shade(theme, number)
        radius = np.append(values[:, number], values[0, number])
        axes.plot(closed, radius, style, color=colour, linewidth=1.2, label=f"neuron {neuron}")
    axes.plot(np.linspace(0, 2 * np.pi, 100), np.zeros(100), ":", color=theme.reference, linewidth=1.2, label="0")
    axes.set_ylim(*reach)
    axes.set_yticks([0, 5, 10])
    axes.set_rlabel_position(135)


def _dress_bar(bar, theme):
    plots.dress(bar.ax, theme)
    bar.ax.grid(False)
    bar.outline.set_edgecolor(theme.faint)


# b3


def _by_good_target(found):
    """Signals and scale factors of both values of the task, a column per step."""
    fixed = found["fixed"]
    order, neurons = fixed["order"], fixed["drawn_neurons"]

    def draw(theme: Theme) -> Figure:
        columns = len(found["columns"])
        figure, axes = plots.panels(
            theme, 2, columns, size=(2.0, 2.6), sharex="row", sharey="row", height_ratios=(2.2, 1)
        )
        for column, step in enumerate(found["columns"]):
            _draw_pairs(axes[0, column], theme, _array(fixed["signals"][column])[..., order])
            _draw_pairs(axes[1, column], theme, _array(fixed["scales"][column]))
            plots.title(axes[0, column], theme, f"t = {step}")
            axes[0, column].set_xlabel("z")
            axes[1, column].set_xlabel("scale factor")
            axes[0, column].set_yticks([])
            axes[1, column].set_yticks(range(len(neurons)), [f"neuron {number}" for number in neurons])
            axes[1, column].axvline(0, color=theme.reference, linewidth=1, linestyle=":")
        axes[0, 0].set_ylabel(f"the {len(order)} dimensions of z")
        axes[1, 0].set_ylabel("first hidden layer")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        plots.legend(figure, theme, handles=handles, labels=labels)
        return figure

    return draw


def _draw_pairs(axes, theme, quantiles):
    """For each column of (3, 2, D): both medians, and lines from the quantile 0.1 to 0.9."""
    rows = np.arange(quantiles.shape[2])
    for task, (label, marker) in enumerate(
        (("second target good (α₅ = −1)", "s"), ("first target good (α₅ = 1)", "o"))
    ):
        low, middle, high = quantiles[:, task]
        place, colour = rows + (task - 0.5) * 0.4, theme.colours[(1, 0)[task]]
        axes.hlines(place, low, high, color=colour, linewidth=1.0, alpha=0.55)
        axes.plot(middle, place, marker, color=colour, markersize=2.6, linestyle="none", label=label)
    axes.set_ylim(len(rows) - 0.3, -0.7)


# Over time


def _over_time(bench, found):
    third = {"b1": _draw_motion, "b2": _draw_error, "b3": _draw_heading}[bench]

    def draw(theme: Theme) -> Figure:
        figure, axes = plots.panels(theme, 1, 3, size=(4.0, 3.9))
        (_draw_hits if bench == "b3" else _draw_rewards)(axes[0, 0], theme, bench, found)
        _draw_knowledge(axes[0, 1], theme, found)
        third(axes[0, 2], theme, found)
        for axis in axes[0]:
            axis.set_xlabel("step t")
            plots.legend(axis, theme, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
        return figure

    return draw


def _draw_rewards(axes, theme, bench, found):
    shown = 30 if bench == "b1" else 100
    for kind, curve in found["rewards"].items():
        _curve(axes, theme, kind, _array(curve)[:, :shown])
    axes.set_ylabel("reward")
    plots.title(axes, theme, "mean reward" + ("" if bench == "b1" else f" of {SMOOTH[bench]} steps"))


def _draw_hits(axes, theme, bench, found):
    for kind, navigation in found["navigation"].items():
        label, _, style = PLAYERS[kind]
        for target, place in (("good", 2), ("bad", 1)):
            value, low, high = _array(navigation["per_step"][target])[:, :100]
            axes.plot(value, style, color=theme.colours[place], linewidth=1.3, label=f"{label}, {target} target")
            axes.fill_between(np.arange(len(value)), low, high, color=theme.colours[place], alpha=0.15, linewidth=0)
    axes.set_ylabel("hits per 100 steps")
    plots.title(axes, theme, f"hits, mean of {SMOOTH[bench]} steps")


def _curve(axes, theme, kind, values):
    """Mean and interval (3, T) of a player."""
    label, place, style = PLAYERS[kind]
    colour = theme.reference if place is None else theme.colours[place]
    axes.plot(values[0], style, color=colour, linewidth=1.4, label=label)
    axes.fill_between(np.arange(values.shape[1]), *values[1:], color=colour, alpha=0.2, linewidth=0)


def _draw_knowledge(axes, theme, found):
    """R^2 of what z of the NMN, and the memory of the RNN, tell."""
    steps = found["steps_told"]
    for kind in ("nmn", "rnn"):
        label, _, style = PLAYERS[kind]
        secrets = [name for name in found["told"][kind] if name in SECRETS]
        for place, name in enumerate(secrets):
            if kind == "rnn" and place > 0:
                continue  # the task alone: the figure would be full
            values = _array(found["told"][kind][name]).T
            colour = theme.colours[(0, 2, 3, 4)[place]] if kind == "nmn" else theme.colours[1]
            axes.plot(steps, values[0], style, color=colour, linewidth=1.4, label=f"{label}: {SECRETS[name]}")
            axes.fill_between(steps, *values[1:], color=colour, alpha=0.2, linewidth=0)
    _step_axis(axes)
    axes.set_ylim(-0.1, 1.03)
    axes.set_ylabel("R², held out")
    plots.title(axes, theme, "what z (RNN: its memory) tells")


def _step_axis(axes):
    axes.set_xscale("symlog", linthresh=5)
    axes.set_xticks((0, 2, 5, 15, 40, 100, 400), labels=("0", "2", "5", "15", "40", "100", "400"))
    axes.minorticks_off()


def _draw_motion(axes, theme, found):
    steps = found["steps_told"]
    spread = _array(found["spread"])
    axes.plot(steps, spread / spread[steps.index(100)], color=theme.colours[0], label="spread, 1 at t = 100")
    motion = _array(found["motion"])
    axes.plot(steps, motion, "--", color=theme.colours[3], label="motion in a step")
    _step_axis(axes)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("ratio")
    plots.title(axes, theme, "spread and motion of z")


def _draw_error(axes, theme, found):
    for kind in ("nmn", "rnn"):
        values = _array(found["told"][kind]["degrees"]).T
        label, place, style = PLAYERS[kind]
        axes.plot(found["steps_told"], values[0], style, color=theme.colours[place], linewidth=1.4, label=label)
        axes.fill_between(found["steps_told"], *values[1:], color=theme.colours[place], alpha=0.2, linewidth=0)
    _step_axis(axes)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("degrees")
    plots.title(axes, theme, "median error of the wind read from z")


def _draw_heading(axes, theme, found):
    for kind, navigation in found["navigation"].items():
        _curve(axes, theme, kind, 100 * _array(navigation["heading"])[:, :60])
    axes.axhline(50, color=theme.reference, linewidth=1, linestyle=":", label="chance")
    axes.set_ylim(40, 100)
    axes.set_ylabel("% of moves")
    plots.title(axes, theme, "moves nearer to the right target's direction")


def _middles(edges) -> NDArray:
    edges = _array(edges)
    return (edges[1:] + edges[:-1]) / 2.0


def _array(values) -> NDArray:
    """Numbers of the data; None, which is JSON's NaN, as NaN."""
    return np.array(values, float)
