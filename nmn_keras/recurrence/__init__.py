"""A cell over a sequence, in the fastest form that the Keras backend has.

`sequence(cell, inputs, weights, initial_state, keep)`; `cell` is a module of equations, such as `nmn_keras.gru`.
"""

import keras

if keras.backend.backend() == "jax":
    from nmn_keras.recurrence.jax import sequence
else:
    from nmn_keras.recurrence.plain import sequence

__all__ = ["sequence"]
