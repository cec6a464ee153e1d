"""The compiled update, one small file per Keras backend over the shared pieces of `batch.py`."""

import importlib

import keras

TRAINING_BACKENDS = ("tensorflow", "jax")


class UnsupportedBackend(RuntimeError, ValueError):
    """The Keras backend cannot train agents."""


def backend_module():
    """The module that compiles for the present Keras backend.

    Raises:
        UnsupportedBackend: if agents cannot be trained or stepped on this backend.
    """
    name = keras.backend.backend()
    if name not in TRAINING_BACKENDS:
        raise UnsupportedBackend(
            f"Agents train and act on the Keras backends {TRAINING_BACKENDS}; layers and losses work on torch too. "
            f"Set KERAS_BACKEND before Keras is imported. Received: {name!r}"
        )
    return importlib.import_module(f"nmn_keras.updates.{name}")
