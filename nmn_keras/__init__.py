"""Neuromodulated recurrent agents in Keras 3 that adapt while they act.

Names are imported when first used: `nmn_keras.envs`, `.baselines`, `.hub`, `.runtime` and `.zoo` need neither Keras nor
TensorFlow.
"""

import importlib

__version__ = "0.1.0"

_HOMES = {
    "ActorCritic": "nmn_keras.actor_critic",
    "Architecture": "nmn_keras.architecture",
    "HyperDense": "nmn_keras.layers",
    "ModulatorGRUCell": "nmn_keras.cells",
    "ModulatorNBRCCell": "nmn_keras.cells",
    "NMNDense": "nmn_keras.layers",
    "OnnxAgent": "nmn_keras.runtime",
    "evaluate": "nmn_keras.evaluation",
    "srelu": "nmn_keras.layers",
}
_MODULES = (
    "actor_critic",
    "architecture",
    "baselines",
    "cells",
    "defaults",
    "envs",
    "evaluation",
    "export",
    "hub",
    "layers",
    "losses",
    "networks",
    "presets",
    "recipes",
    "returns",
    "rollout",
    "runtime",
    "spaces",
    "zoo",
)

__all__ = [*_HOMES, *_MODULES, "__version__"]


def __getattr__(name):
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"nmn_keras.{name}")
    raise AttributeError(f"module 'nmn_keras' has no attribute {name!r}; it has {__all__}")


def __dir__():
    return __all__
