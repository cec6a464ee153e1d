"""The step of a bistable recurrent cell, and its recurrence in the fastest form that the Keras backend has."""

import keras

from nmn_keras.nbrc.plain import step

if keras.backend.backend() == "jax":
    from nmn_keras.nbrc.jax import sequence
else:
    from nmn_keras.nbrc.plain import sequence

__all__ = ["sequence", "step"]
