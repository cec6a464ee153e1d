"""Pictures of one step, drawn off screen with matplotlib; no display and no global state.

`frame` is the only entry: it picks the drawing for the type of the dynamics. A new benchmark
registers one function, which places its own marks on the shared canvas.
"""

from functools import singledispatch
from math import isnan

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from nmn_keras.envs.dynamics import Dynamics, MovingTarget, Scene

WIDTH, HEIGHT, DPI = 720, 360, 100
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
        Red, green and blue (HEIGHT, WIDTH, 3).

    Raises:
        TypeError: if no drawing is registered for these dynamics.
    """
    drawn = ", ".join(kind.__name__ for kind in frame.registry if kind is not object)
    raise TypeError(f"These dynamics have no picture. Accepted: {drawn}. Received: {type(dynamics).__name__}")


@frame.register
def moving_target(dynamics: MovingTarget, scene: Scene) -> NDArray[np.uint8]:
    """Draw benchmark 1: what is seen on the upper line, what is hidden and played on the lower."""
    figure, axes = canvas("moving target", scene.step, scene.reward)
    axes.set(xlim=(-dynamics.action_max - 5.0, dynamics.action_max + 3.0), ylim=(-1.5, 2.3))
    ruler(axes, 1.5, dynamics.observation_max, "seen")
    ruler(axes, 0.0, dynamics.action_max, "played")
    seen, goal = scene.position[0], dynamics.goal(scene.position, scene.task)[0]
    corner, width = (goal - dynamics.hit_radius, -0.3), 2.0 * dynamics.hit_radius
    axes.add_patch(Rectangle(corner, width, 0.6, facecolor=HIDDEN, alpha=0.3, linewidth=0))
    arrow = {"arrowstyle": "->", "color": HIDDEN, "linestyle": (0, (4, 3)), "linewidth": 1.5}
    axes.annotate("", (goal, 0.32), (seen, 1.4), arrowprops=arrow)
    note = f"hidden goal p = {goal:.2f}\n$\\alpha$ = {scene.task[0]:.2f}"
    axes.text(goal, -0.75, note, color=HIDDEN, ha="center", va="top", fontsize=10)
    axes.plot(seen, 1.5, "o", color=SEEN, markersize=13, markeredgecolor=PAPER)
    axes.text(seen, 1.78, f"x = {seen:.2f}", color=SEEN, ha="center", fontsize=10)
    if not isnan(scene.reward):
        action = np.clip(scene.action[0], -dynamics.action_max, dynamics.action_max)
        colour = reward_colour(scene.reward, dynamics.hit_reward, -2.0 * dynamics.alpha_max)
        axes.plot([goal, action], [0.0, 0.0], color=colour, linewidth=3, solid_capstyle="round")
        axes.plot(action, 0.0, "D", color=colour, markersize=11, markeredgecolor=PAPER)
        backing = {"facecolor": PAPER, "edgecolor": "none", "pad": 1.5}
        label = f"a = {action:.2f}"
        axes.text(action, 0.42, label, color=colour, ha="center", fontsize=10, bbox=backing)
    return pixels(figure)


def canvas(title: str, step: int, reward: float) -> tuple[Figure, Axes]:
    """Return an empty figure with a heading: what is played, which step, which reward.

    Args:
        title: name of the benchmark.
        step: steps played in this episode.
        reward: of the last step, NaN before the first.
    """
    figure = Figure(figsize=(WIDTH / DPI, HEIGHT / DPI), dpi=DPI, facecolor=PAPER)
    axes = figure.add_axes((0.02, 0.02, 0.96, 0.84))
    axes.set_axis_off()
    figure.text(0.03, 0.91, title, color=INK, fontsize=14, weight="bold")
    figure.text(0.5, 0.91, f"step {int(step)}", color=INK, fontsize=12, ha="center")
    if not isnan(reward):
        colour = GOOD if reward > 0 else BAD
        text = f"reward {reward:+.2f}"
        figure.text(0.97, 0.91, text, color=colour, fontsize=14, weight="bold", ha="right")
    return figure, axes


def ruler(axes: Axes, height: float, reach: float, label: str) -> None:
    """Draw a line from -reach to reach with marks every 5 units and its label in the margin."""
    marks = np.arange(-reach, reach + 1e-9, 5.0)
    axes.hlines(height, -reach, reach, color=FAINT, linewidth=1.5)
    axes.vlines(marks, height - 0.07, height + 0.07, color=FAINT, linewidth=1.5)
    for mark in marks:
        axes.text(mark, height - 0.5, f"{mark:g}", color=FAINT, ha="center", fontsize=8)
    axes.text(axes.get_xlim()[0] + 0.6, height, label, color=INK, va="center", fontsize=10)


def reward_colour(reward: float, best: float, worst: float) -> str | tuple[float, ...]:
    """Return green for a positive reward, else amber to red as it falls from 0 to `worst`."""
    return GOOD if reward > 0 else MISSES(1.0 - min(1.0, reward / worst))


def pixels(figure: Figure) -> NDArray[np.uint8]:
    """Return the figure drawn, (HEIGHT, WIDTH, 3)."""
    drawing = FigureCanvasAgg(figure)
    drawing.draw()
    return np.asarray(drawing.buffer_rgba())[..., :3].copy()
