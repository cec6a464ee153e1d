"""Gradients on whatever backend Keras runs on, as numpy arrays."""

import keras
from keras import ops


def gradients(loss, variables):
    """Slopes of the scalar `loss()` with respect to Keras variables."""
    return {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}[keras.backend.backend()](loss, variables)


def _tensorflow(loss, variables):
    import tensorflow as tf

    with tf.GradientTape() as tape:
        value = loss()
    return [g.numpy() for g in tape.gradient(value, [v.value for v in variables])]


def _jax(loss, variables):
    import jax

    @jax.jit
    def slopes(values):
        with keras.StatelessScope(list(zip(variables, values, strict=True))):
            return loss()

    return [ops.convert_to_numpy(g) for g in jax.grad(slopes)([v.value for v in variables])]


def _torch(loss, variables):
    import torch

    return [g.numpy() for g in torch.autograd.grad(loss(), [v.value for v in variables])]
