"""Pictures of one step, drawn off screen with matplotlib; no display and no global state.

`frame` is the only entry: it picks the drawing for the type of the dynamics. A new benchmark
registers one function, which places its own marks on the shared canvas.
"""

from nmn_keras.envs.render import moving_target, plane  # they register their drawings
from nmn_keras.envs.render.canvas import frame

__all__ = ["frame", "moving_target", "plane"]
