"""A GRU's step, and its recurrence over a sequence in the fastest form that the Keras backend has."""

import keras

from nmn_keras.gru.plain import step

if keras.backend.backend() == "jax":
    from nmn_keras.gru.jax import sequence
else:
    from nmn_keras.gru.plain import sequence

__all__ = ["sequence", "step"]
