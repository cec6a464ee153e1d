"""Presets by zoo name: the paper's networks, variants of them, and what the fast recipe changes."""

import dataclasses
import math
from typing import Any

from nmn_keras import recipes
from nmn_keras.architecture import FIRST_LAYERS, Architecture

_B1: dict[str, Any] = {
    "observation_size": 1,
    "action_size": 1,
    "action_low": (-20.0,),
    "action_high": (20.0,),
    "action_scale": (5.0,),
}
# Actions of b2 and b3 are directions in half-turns; the authors feed back the angle in [0, 2 pi).
_TORUS: dict[str, Any] = {
    "action_size": 1,
    "gru_units": (100, 75),
    "action_low": (-1.0,),
    "action_high": (1.0,),
    "action_period": 2.0,
    "feedback_scale": math.pi,
}
_DEEP_NMN: dict[str, Any] = {"kind": "nmn", "signal_units": 45, "hidden_units": (30, 10)}
_DEEP_RNN: dict[str, Any] = {"kind": "rnn", "signal_units": 0, "hidden_units": (45, 30, 10)}

_PAPER = {
    "b1-nmn": Architecture("nmn", **FIRST_LAYERS["nmn"], **_B1),
    "b1-rnn": Architecture("rnn", **FIRST_LAYERS["rnn"], **_B1),
    "b2-nmn": Architecture(observation_size=2, **_DEEP_NMN, **_TORUS),
    "b2-rnn": Architecture(observation_size=2, **_DEEP_RNN, **_TORUS),
    "b3-nmn": Architecture(observation_size=4, **_DEEP_NMN, **_TORUS),
    "b3-rnn": Architecture(observation_size=4, **_DEEP_RNN, **_TORUS),
}


@dataclasses.dataclass(frozen=True)
class Variant:
    """A preset made of another one."""

    base: str
    """Name of the preset it is made of."""
    architecture: dict[str, Any]
    """Fields of the base's architecture that differ, under both recipes."""
    fast: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Further fields that differ under the fast recipe."""


def _robustness() -> dict[str, Variant]:
    """The paper's robustness study.

    The dense layer between GRU and main network (20) stays at every depth, for the RNN too: the paper calls its own
    GRU 50, 20, 10 "1 hidden layer".
    """
    made = {f"{base}-sigmoid": Variant(base, {"activation": "sigmoid"}) for base in _PAPER}
    for base in ("b1-nmn", "b1-rnn"):
        *first, units = _PAPER[base].hidden_units
        for depth in (0, 4):
            made[f"{base}-depth{depth}"] = Variant(base, {"hidden_units": (*first, *(units,) * depth)})
    return made


_FILM, _HYPER = {"kind": "film", "signal_units": 0}, {"kind": "hyper"}
_NBRC, _SHARED = {"cell": "nbrc"}, {"shared_modulation": True}
_BEYOND = {
    "b1-film": Variant("b1-nmn", {**_FILM, "hidden_units": (13,)}),
    "b2-film": Variant("b2-nmn", _FILM, {"hidden_units": (60, 30)}),
    "b3-film": Variant("b3-nmn", _FILM, {"hidden_units": (60, 30)}),
    "b1-hyper": Variant("b1-nmn", {**_HYPER, "signal_units": 17}),
    "b2-hyper": Variant("b2-nmn", {**_HYPER, "signal_units": 14}, {"signal_units": 17, "hidden_units": (32, 16)}),
    "b3-hyper": Variant("b3-nmn", {**_HYPER, "signal_units": 14}, {"signal_units": 15, "hidden_units": (32, 16)}),
    "b1-nbrc": Variant("b1-nmn", {**_NBRC, "gru_units": (60,)}),
    "b2-nbrc": Variant("b2-nmn", {**_NBRC, "gru_units": (113, 85)}, {"gru_units": (76,)}),
    "b3-nbrc": Variant("b3-nmn", {**_NBRC, "gru_units": (113, 85)}, {"gru_units": (76,)}),
    "b1-shared": Variant("b1-nmn", {**_SHARED, "hidden_units": (100,)}),
    "b2-shared": Variant("b2-nmn", {**_SHARED, "hidden_units": (102, 34)}, {"hidden_units": (125, 80)}),
    "b3-shared": Variant("b3-nmn", {**_SHARED, "hidden_units": (102, 34)}, {"hidden_units": (125, 80)}),
}
"""Architectures beyond the paper, at the NMN's number of parameters give or take 2 %."""

VARIANTS = {**_robustness(), **_BEYOND}
"""Presets made of others: the paper's robustness study, and architectures beyond the paper."""

ARCHITECTURES = {
    **_PAPER,
    **{name: dataclasses.replace(_PAPER[variant.base], **variant.architecture) for name, variant in VARIANTS.items()},
}
"""The paper's networks (Table "architectures" and the authors' code) and their variants, by preset."""


@dataclasses.dataclass(frozen=True)
class FastSettings:
    """What the fast recipe changes for one benchmark."""

    architecture: dict[str, Any]
    """Fields of the paper's architecture."""
    hidden_units: dict[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    """Hidden layers by kind of network."""
    recipe: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Fields of `FastRecipe`."""


_FAST_TORUS = FastSettings(
    {
        "gru_units": (64,),
        "observation_period": 4.0,
        "action_head": "direction",
        "feedback_scale": 1.0,
        "reward_scale": 0.01,
        "log_var_offset": -2.0,
        "log_var_min": -4.5,
        "log_var_max": -1.5,
    },
    {"nmn": (64, 32), "rnn": (96, 64, 32)},
    {
        "episodes": 32_000,
        "epochs": 8,
        "minibatches_per_epoch": 8,
        "discount": 0.95,
        "trace": 0.6,
        "kl_target": 0.06,
        "deterministic_share": 0.0,
    },
)
FAST = {
    "b1": FastSettings({"reward_scale": 0.1, "log_var_min": -5.0}),
    "b2": _FAST_TORUS,
    "b3": _FAST_TORUS,
}
"""The fast recipe's settings by benchmark: inputs of the order of 1; a floor under the log-variance, without which the
deviation collapses and the deterministic policy is never corrected. On b2 and b3 the direction head, whose log-variance
must be bounded from above too; positions on the torus as points on circles, so that its edges are none; one smaller GRU
and a wider main network than the paper's, at numbers of parameters that differ by 1 % between NMN and RNN."""


PAPER: dict[str, dict[str, Any]] = {
    "b1": {"trained_steps": 400},
    "b2": {"trained_steps": 2000},
    "b3": {"trained_steps": 2000},
}
"""Fields of `PaperRecipe` by benchmark: L', which the authors' code sets for each; the paper does not print it."""


VALIDATION = {
    "b1": {"validation_episodes": 500, "validation_freq": 10},
    "b2": {"validation_episodes": 100, "validation_freq": 20},
    "b3": {"validation_episodes": 100, "validation_freq": 20},
}
"""How a run is validated by default: full episodes, which are long on b2 and b3, and the updates between two times."""


def get(name: str, recipe: str | recipes.Recipe = "fast") -> tuple[Architecture, recipes.Recipe]:
    """Architecture and recipe of a preset.

    Args:
        name: one of `ARCHITECTURES`, such as "b1-nmn".
        recipe: "fast" or "paper" with the settings for that benchmark, or a recipe as it is to be; a fast recipe
            changes the architecture too.

    Raises:
        ValueError: if no preset or no recipe has that name.
    """
    if name not in ARCHITECTURES:
        raise ValueError(f"Unknown preset. Known: {sorted(ARCHITECTURES)}. Received: {name!r}")
    chosen = recipes.get(recipe)
    if isinstance(recipe, str):
        chosen = dataclasses.replace(chosen, **recipe_settings(recipe)[name.partition("-")[0]])
    return _fast_architecture(name) if isinstance(chosen, recipes.FastRecipe) else ARCHITECTURES[name], chosen


def recipe_settings(recipe: str) -> dict[str, dict[str, Any]]:
    """By benchmark, the fields of a recipe that are set for it; the others have the recipe's defaults."""
    return PAPER if recipe == recipes.PaperRecipe.name else {name: settings.recipe for name, settings in FAST.items()}


def _fast_architecture(name):
    if name in VARIANTS:
        variant = VARIANTS[name]
        return dataclasses.replace(_fast_architecture(variant.base), **{**variant.architecture, **variant.fast})
    settings, architecture = FAST[name.partition("-")[0]], ARCHITECTURES[name]
    changed = {**settings.architecture}
    if architecture.kind in settings.hidden_units:
        changed["hidden_units"] = settings.hidden_units[architecture.kind]
    return dataclasses.replace(architecture, **changed)
