"""The compiled update, one small file per Keras backend over the shared pieces of `batch.py`."""

import importlib

import keras

TRAINING_BACKENDS = ("tensorflow", "jax")


def backend_module():
    """The module that compiles for the present Keras backend.

    Raises:
        RuntimeError: if agents cannot be trained or stepped on this backend.
    """
    name = keras.backend.backend()
    if name not in TRAINING_BACKENDS:
        raise RuntimeError(
            f"Agents train and act on the Keras backends {TRAINING_BACKENDS}; layers and losses work on torch too. "
            f"Set KERAS_BACKEND before Keras is imported. Received: {name!r}"
        )
    return importlib.import_module(f"nmn_keras.updates.{name}")
