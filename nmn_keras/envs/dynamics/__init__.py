"""The benchmarks' Markov decision processes as pure array functions.

Nothing here draws a random number, keeps a state or knows Gymnasium. Random numbers come in as
`draws`, independent and uniform on [0, 1); arrays may have any leading axes `...`; the keyword `xp`
names the array module (`numpy`, `jax.numpy`, `keras.ops`), so that one definition serves the
numpy environments and players compiled into a graph.
"""

from nmn_keras.envs.dynamics.base import Array, Bounds, Dynamics, Scene
from nmn_keras.envs.dynamics.moving_target import MovingTarget
from nmn_keras.envs.dynamics.two_targets import TwoTargets
from nmn_keras.envs.dynamics.windy_navigation import WindyNavigation

__all__ = ["Array", "Bounds", "Dynamics", "MovingTarget", "Scene", "TwoTargets", "WindyNavigation"]
