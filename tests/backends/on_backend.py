"""What the tests need from whatever backend Keras runs on."""

import keras
import numpy as np
from keras import ops

from nmn_keras.updates import backend_module


def as_numpy(tensors):
    """A tensor, or tensors nested in tuples and dicts, as numpy arrays."""
    return keras.tree.map_structure(ops.convert_to_numpy, tensors)


def on_tensors(function, *arrays):
    """A function of float32 tensors, called with and giving numpy arrays.

    Tensors, because `tensor * array` is an error on torch; compiled on JAX, where calling it eagerly would compile
    every operation by itself. It is compiled anew in each call, with the present weights for constants.
    """
    if keras.backend.backend() == "jax":
        function = _jitted(function)
    return as_numpy(function(*(ops.convert_to_tensor(np.asarray(x, "float32")) for x in arrays)))


def _jitted(function):
    import jax

    return jax.jit(lambda *tensors: function(*tensors))


def compiled(network, method):
    """A network's method to be called often, and with other weights: compiled once on JAX, eager elsewhere."""
    return backend_module().compile_method(network, method) if keras.backend.backend() == "jax" else method


def value_and_gradients(loss, variables):
    """The scalar `loss()` and its slopes with respect to Keras variables, as numpy arrays."""
    run = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}[keras.backend.backend()]
    return as_numpy(run(loss, variables))


def _tensorflow(loss, variables):
    import tensorflow as tf

    with tf.GradientTape() as tape:
        value = loss()
    return value, tape.gradient(value, [v.value for v in variables])


def _jax(loss, variables):
    import jax

    def pure(values):
        with keras.StatelessScope(list(zip(variables, values, strict=True))):
            return loss()

    return jax.jit(jax.value_and_grad(pure))([v.value for v in variables])


def _torch(loss, variables):
    import torch

    value = loss()
    return value, torch.autograd.grad(value, [v.value for v in variables])
