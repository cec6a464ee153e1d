"""The canvas that all pictures share, and `frame`, which picks the drawing for the type of the dynamics."""

from functools import singledispatch
from math import isnan

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

from nmn_keras.envs.dynamics import Dynamics, Scene

WIDTH, HEIGHT, DPI = 720, 360, 100
HEADING, MARGIN = 50, 7
"""Pixels above and below the drawing."""
INK, FAINT, PAPER = "#22303c", "#aab4bd", "#ffffff"
SEEN, HIDDEN = "#0072b2", "#8e6bbf"
GOOD, BAD = "#119a6b", "#c8391f"
MISSES = LinearSegmentedColormap.from_list("misses", [BAD, "#f0a030"])


@singledispatch
def frame(dynamics: Dynamics, scene: Scene) -> NDArray[np.uint8]:
    """Return the picture of a step.

    Args:
        dynamics: the task family; its type picks the drawing.
        scene: one step of one environment, arrays without leading axes.

    Returns:
        Red, green and blue (H, W, 3).

    Raises:
        TypeError: if no drawing is registered for these dynamics.
    """
    drawn = ", ".join(kind.__name__ for kind in frame.registry if kind is not object)
    raise TypeError(f"These dynamics have no picture. Accepted: {drawn}. Received: {type(dynamics).__name__}")


def canvas(title: str, step: int, reward: float, height: int = HEIGHT) -> tuple[Figure, Axes]:
    """Return an empty figure with a heading: what is played, which step, which reward.

    Args:
        title: name of the benchmark.
        step: steps played in this episode.
        reward: of the last step, NaN before the first.
        height: of the picture, pixels.
    """
    figure = Figure(figsize=(WIDTH / DPI, height / DPI), dpi=DPI, facecolor=PAPER)
    axes = figure.add_axes((0.02, MARGIN / height, 0.96, 1.0 - (MARGIN + HEADING) / height))
    axes.set_axis_off()
    line = 1.0 - 0.65 * HEADING / height
    figure.text(0.03, line, title, color=INK, fontsize=14, weight="bold")
    figure.text(0.5, line, f"step {int(step)}", color=INK, fontsize=12, ha="center")
    if not isnan(reward):
        colour = GOOD if reward > 0 else BAD if reward < 0 else INK
        text = f"reward {reward:+.2f}"
        figure.text(0.97, line, text, color=colour, fontsize=14, weight="bold", ha="right")
    return figure, axes


def reward_colour(reward: float, best: float, worst: float) -> str | tuple[float, ...]:
    """Return green for a positive reward, else amber to red as it falls from 0 to `worst`."""
    return GOOD if reward > 0 else MISSES(1.0 - min(1.0, reward / worst))


def pixels(figure: Figure) -> NDArray[np.uint8]:
    """Return the figure drawn, (H, W, 3)."""
    drawing = FigureCanvasAgg(figure)
    drawing.draw()
    return np.asarray(drawing.buffer_rgba())[..., :3].copy()
