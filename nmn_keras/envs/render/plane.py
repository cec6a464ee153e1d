"""The pictures of benchmarks 2 and 3: the square without edges, its targets, the agent and where it came from."""

import math
from itertools import pairwise, product
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, Patch, Rectangle, Wedge
from numpy.typing import NDArray

from nmn_keras.envs.dynamics import Array, Scene, TwoTargets, WindyNavigation
from nmn_keras.envs.dynamics.plane import REACH, SPAWN_REACH, direction, wrap
from nmn_keras.envs.render.canvas import BAD, FAINT, GOOD, HIDDEN, INK, PAPER, SEEN, canvas, frame, pixels

HEIGHT = 540
FIELD, SPAWN = "#f4f6f8", "#dde3e8"
PANEL = 3.03
"""Middle of the panel beside the square."""


@frame.register
def windy_navigation(dynamics: WindyNavigation, scene: Scene) -> NDArray[np.uint8]:
    """Draw benchmark 2; the wedge at the tip of the move is where the wind may carry the agent."""
    figure, axes, square = plane("windy navigation", scene)
    (centre,) = dynamics.targets(scene.task)
    target(axes, centre, dynamics.target_radius, dynamics.target_reward)
    trace(axes, square, dynamics, scene)
    if moving(dynamics, scene):
        tip = scene.position + dynamics.move * direction(scene.action)
        for copy in around(tip):
            inside(axes, square, wind(copy, dynamics.move, scene.task[2], dynamics.cone))
    agent(axes, square, dynamics, scene)
    compass(axes, dynamics, scene)
    note(axes, -0.3, "own move", INK)
    note(axes, -0.6, f"hidden wind, $\\alpha_3$ = {scene.task[2] / math.pi:.2f} π", HIDDEN)
    note(axes, -1.2, f"{dynamics.target_reward:+g} in the target", GOOD)
    note(axes, -1.5, f"{dynamics.step_reward:+g} elsewhere", BAD)
    return pixels(figure)


@frame.register
def two_targets(dynamics: TwoTargets, scene: Scene) -> NDArray[np.uint8]:
    """Draw benchmark 3; the bad target is hatched, and both say what they give."""
    figure, axes, square = plane("two targets", scene)
    first, second = dynamics.targets(scene.task)
    good, bad = (first, second) if scene.task[4] > 0 else (second, first)
    target(axes, bad, dynamics.target_radius, dynamics.bad_reward)
    target(axes, good, dynamics.target_radius, dynamics.good_reward)
    trace(axes, square, dynamics, scene)
    agent(axes, square, dynamics, scene)
    for height, reward, name in ((1.1, dynamics.good_reward, "good target"), (0.0, dynamics.bad_reward, "bad target")):
        target(axes, np.array([PANEL - 0.4, height]), dynamics.target_radius, reward)
        axes.text(PANEL + 0.1, height, name, color=GOOD if reward > 0 else BAD, fontsize=11, va="center")
    note(axes, -0.9, f"hidden sign, $\\alpha_5$ = {scene.task[4]:+.0f}:", HIDDEN)
    note(axes, -1.2, "the first is good" if scene.task[4] > 0 else "the second is good", HIDDEN)
    return pixels(figure)


def plane(title: str, scene: Scene) -> tuple[Figure, Axes, Patch]:
    """Return a figure with the square, whose dashed edges lead to the opposite ones, and the square itself."""
    figure, axes = canvas(title, scene.step, scene.reward, HEIGHT)
    low = -REACH - 0.12
    height = 2.0 * (REACH + 0.12)
    box = axes.get_window_extent()
    axes.set(xlim=(low, low + height * box.width / box.height), ylim=(low, low + height))
    square = Rectangle((-REACH, -REACH), 2 * REACH, 2 * REACH, facecolor=FIELD, linewidth=0)
    axes.add_patch(square)
    corner, side = (-SPAWN_REACH, -SPAWN_REACH), 2 * SPAWN_REACH
    axes.add_patch(Rectangle(corner, side, side, fill=False, edgecolor=SPAWN, linewidth=1.2))
    label: dict[str, Any] = {"color": FAINT, "fontsize": 8, "va": "bottom"}
    axes.text(-SPAWN_REACH + 0.06, -SPAWN_REACH + 0.04, "appears in here", **label)
    edge = Rectangle((-REACH, -REACH), 2 * REACH, 2 * REACH, fill=False, edgecolor=FAINT, linestyle=(0, (6, 4)))
    axes.add_patch(edge)
    return figure, axes, square


def target(axes: Axes, centre: Array, radius: float, reward: float) -> None:
    """Draw a target with its reward; a bad one is hatched."""
    colour = GOOD if reward > 0 else BAD
    hatch = None if reward > 0 else "////"
    axes.add_patch(Circle(centre, radius, facecolor=colour, alpha=0.16, linewidth=0))
    axes.add_patch(Circle(centre, radius, fill=False, edgecolor=colour, alpha=0.45, hatch=hatch, linewidth=0))
    axes.add_patch(Circle(centre, radius, fill=False, edgecolor=colour, linewidth=2))
    backing = {"facecolor": PAPER, "edgecolor": "none", "pad": 1.2, "alpha": 0.75}
    label: dict[str, Any] = {"color": colour, "ha": "center", "va": "center", "weight": "bold", "bbox": backing}
    axes.text(centre[0], centre[1], f"{reward:+g}", fontsize=10, **label)


def trace(axes: Axes, square: Patch, dynamics: WindyNavigation | TwoTargets, scene: Scene) -> None:
    """Draw the last moves, fading with age; there is no line from a target to where the agent appeared."""
    points = np.concatenate([scene.trace, scene.position[np.newaxis]])
    for age, (start, end) in enumerate(reversed(list(pairwise(points)))):
        if np.isnan(start).any() or dynamics.in_target(start, scene.task)[0]:
            continue
        strength = 0.8 * (1.0 - age / len(points)) ** 1.5
        step = wrap(end - start)
        for first in dict.fromkeys((tuple(start), tuple(end - step))):
            xs, ys = zip(first, first + step, strict=True)
            line = axes.plot(xs, ys, color=SEEN, alpha=strength, linewidth=2, solid_capstyle="round")[0]
            line.set_clip_path(square)
        dot = axes.plot(*start, "o", color=SEEN, alpha=strength, markersize=3.5, markeredgewidth=0)[0]
        dot.set_clip_path(square)


def agent(axes: Axes, square: Patch, dynamics: WindyNavigation | TwoTargets, scene: Scene) -> None:
    """Draw the agent and its own move, also where they show at an opposite edge; in a target it does not move."""
    for copy in around(scene.position):
        if moving(dynamics, scene):
            inside(axes, square, arrow(copy, copy + dynamics.move * direction(scene.action), INK))
        inside(axes, square, Circle(copy, 0.075, facecolor=SEEN, edgecolor=PAPER, linewidth=1.5, zorder=4))
        if dynamics.in_target(scene.position, scene.task)[0]:
            inside(axes, square, Circle(copy, 0.13, fill=False, edgecolor=SEEN, linewidth=1.5, zorder=4))


def compass(axes: Axes, dynamics: WindyNavigation, scene: Scene) -> None:
    """Draw the wind's directions and the agent's around one middle."""
    radius = 0.8
    middle: Array = np.array([PANEL, 0.95])
    axes.add_patch(Circle(middle, radius, facecolor=FIELD, edgecolor=FAINT, linewidth=1.2))
    axes.add_patch(wind(middle, radius, scene.task[2], dynamics.cone))
    axes.add_patch(arrow(middle, middle + radius * direction(scene.task[2:] / math.pi), HIDDEN))
    if moving(dynamics, scene):
        axes.add_patch(arrow(middle, middle + radius * direction(scene.action), INK))
    axes.plot(*middle, "o", color=SEEN, markersize=9, markeredgecolor=PAPER, zorder=5)


def wind(tip: Array, length: float, main: float, cone: float) -> Wedge:
    """Return the wedge of the wind's directions; matplotlib's angles turn the other way and begin elsewhere."""
    middle, half = 90.0 - math.degrees(main), math.degrees(cone)
    return Wedge(tip, length, middle - half, middle + half, facecolor=HIDDEN, alpha=0.3, linewidth=0)


def arrow(start: Array, end: Array, colour: str) -> FancyArrowPatch:
    """Return an arrow that spans exactly from `start` to `end`."""
    style: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 11, "shrinkA": 0, "shrinkB": 0, "linewidth": 2}
    return FancyArrowPatch(tuple(start), tuple(end), color=colour, zorder=3, **style)


def moving(dynamics: WindyNavigation | TwoTargets, scene: Scene) -> bool:
    """Return whether an action was played and moved the agent, who was in no target."""
    return not math.isnan(scene.action[0]) and not dynamics.in_target(scene.position, scene.task)[0]


def around(point: Array) -> list[Array]:
    """Return the point and its eight copies, one side of the square away."""
    return [point + 2.0 * REACH * np.array(offset) for offset in product((0, -1, 1), repeat=2)]


def inside(axes: Axes, square: Patch, patch: Patch) -> None:
    """Add a patch of which only what is inside the square shows."""
    axes.add_patch(patch)
    patch.set_clip_path(square)


def note(axes: Axes, height: float, text: str, colour: str) -> None:
    """Write a line in the panel beside the square."""
    axes.text(PANEL, height, text, color=colour, ha="center", va="center", fontsize=11)
