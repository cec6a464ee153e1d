"""The picture of benchmark 1."""

from math import isnan

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from nmn_keras.envs.dynamics import MovingTarget, Scene
from nmn_keras.envs.render.canvas import FAINT, HIDDEN, INK, PAPER, SEEN, canvas, frame, pixels, reward_colour


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


def ruler(axes: Axes, height: float, reach: float, label: str) -> None:
    """Draw a line from -reach to reach with marks every 5 units and its label in the margin."""
    marks = np.arange(-reach, reach + 1e-9, 5.0)
    axes.hlines(height, -reach, reach, color=FAINT, linewidth=1.5)
    axes.vlines(marks, height - 0.07, height + 0.07, color=FAINT, linewidth=1.5)
    for mark in marks:
        axes.text(mark, height - 0.5, f"{mark:g}", color=FAINT, ha="center", fontsize=8)
    axes.text(axes.get_xlim()[0] + 0.6, height, label, color=INK, va="center", fontsize=10)
