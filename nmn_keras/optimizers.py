"""The actor's and the critic's optimiser, and how a run remembers them."""

from typing import NamedTuple

import keras


class Optimizers(NamedTuple):
    """The two optimisers, out of reach of Keras's weight files, which would save them along."""

    actor: keras.optimizers.Optimizer
    critic: keras.optimizers.Optimizer


def optimizer_config(optimizer, rate):
    """Class and constructor arguments. Keras's own serialiser would import TensorFlow on every backend."""
    name = keras.saving.get_registered_name(type(optimizer))
    return {"class_name": name, "config": {**optimizer.get_config(), "learning_rate": rate}}


def optimizer_from_config(config):
    """The inverse of `optimizer_config`.

    Raises:
        ValueError: for a class that neither Keras has nor was registered with it.
    """
    name = config["class_name"]
    found = keras.saving.get_registered_object(name) or getattr(keras.optimizers, name, None)
    if found is None:
        raise ValueError(
            "The run was trained with an optimiser that is not registered here; use "
            f"keras.saving.register_keras_serializable before loading it. Received: {name!r}"
        )
    return found.from_config(config["config"])
