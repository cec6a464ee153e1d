"""Architecture and recipe for a task that nobody has tuned: what its spaces and the length of its episodes say.

One set of numbers for all tasks. `derive` gives them with a reason each; docs/training.md has the table.
"""

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import VectorEnv

from nmn_keras import envs, spaces
from nmn_keras.architecture import Architecture
from nmn_keras.recipes import FastRecipe

STEPS = 1_000_000
"""Environment steps of a training, of all environments together."""
STEPS_PER_UPDATE = 8192
"""Environment steps aimed at in one update."""
LONGEST_ROLLOUT = 1000
"""Steps of an episode that are played at most."""
SEGMENT = 50
"""Steps over which gradients flow back."""


class Derived(NamedTuple):
    """What `derive` chose, and why."""

    architecture: Architecture
    """Sizes and bounds of the environment, and the defaults of a network for any task."""
    recipe: FastRecipe
    """Numbers of the training."""
    reasons: tuple[str, ...]
    """One line for each choice."""


class _Choice(NamedTuple):
    fields: dict[str, Any]
    reason: str


def derive(
    env,
    kind: str = "nmn",
    env_kwargs: dict[str, Any] | None = None,
    architecture: dict[str, Any] | None = None,
    recipe: dict[str, Any] | None = None,
) -> Derived:
    """Choose an architecture and a recipe for an environment.

    Args:
        env: short name, Gymnasium id, spec, environment with a spec, vector environment, or factory.
        kind: of the network, see `Architecture.kind`.
        env_kwargs: arguments of the environment.
        architecture: fields of `Architecture` to use instead of what would be chosen.
        recipe: fields of `FastRecipe` to use instead of what would be chosen.

    Raises:
        ValueError: if a space is not supported, or a field does not fit.
        TypeError: for a field that `Architecture` or `FastRecipe` does not have.
    """
    env_kwargs, given, numbers = dict(env_kwargs or {}), dict(architecture or {}), dict(recipe or {})
    _check_fields("architecture", given, Architecture)
    _check_fields("recipe", numbers, FastRecipe)
    with envs.open_any(env, **env_kwargs) as made:
        found, limit = spaces.describe(made), _episode_steps(made)
        count = made.num_envs if isinstance(made, VectorEnv) else None
    of_network = _network(found, kind, given)
    of_training = _training(limit, count, found.action_sizes is None and given.get("action_head") != "categorical")
    of_training = _consistent(of_training, numbers)
    network = Architecture.for_env(env, kind, env_kwargs, **{**_fields(of_network), **given})
    reasons = [
        f"{', '.join(f'{name}={value}' for name, value in choice.fields.items() if name not in taken)}: {choice.reason}"
        for choices, taken in ((of_network, given), (of_training, numbers))
        for choice in choices
        if not set(choice.fields) <= set(taken)
    ]
    return Derived(network, FastRecipe(**{**_fields(of_training), **numbers}), tuple(reasons))


def _network(found: spaces.Spaces, kind: str, given: dict[str, Any]) -> list[_Choice]:
    """What the spaces say of the network."""
    size = len(found.observation_low)
    width = 64 if size <= 32 else 128
    layers: dict[str, Any] = {"gru_units": (width,), "hidden_units": (64, 64)}
    layers |= {"signal_units": 20} if kind in ("nmn", "hyper") else {}
    choices = [
        _Choice(layers, f"the observation has {size} numbers"),
        _Choice(
            {"initializer": "orthogonal", "output_gain": 0.01},
            "a start that neither blows up nor fades, and prefers no action",
        ),
        _Choice({"normalise_rewards": True}, "rewards come in any unit"),
    ]
    if given.get("observation_period") is None:
        choices.append(_Choice({"normalise_observations": True}, "observations come in any unit"))
    if found.action_sizes is None:
        choices.append(_Choice(_variance(), "deviations from 0.08 to 1.6 network units, 1 at the start"))
        half = (found.action_high - found.action_low) / 2
        if np.isfinite(half).all():
            feedback = float(np.float32(1.0 / half.max()))
            choices.append(_Choice({"feedback_scale": feedback}, "actions are fed back in units of half their range"))
    return choices


def _variance() -> dict[str, float]:
    return {"log_var_offset": 0.0, "log_var_min": -5.0, "log_var_max": 1.0}


def _training(limit: int | None, count: int | None, real: bool) -> list[_Choice]:
    """What the length of an episode and the number of environments say of the training."""
    segment = min(SEGMENT, limit or SEGMENT)
    played = min(limit or LONGEST_ROLLOUT, LONGEST_ROLLOUT)
    steps = -(-played // segment) * segment
    if limit is None:
        why = f"episodes have no time limit; {steps} steps are played of each"
    elif limit > LONGEST_ROLLOUT:
        why = f"an episode has {limit} steps; what comes after {steps} is not met in training"
    else:
        why = f"an episode of {limit} steps, in whole segments"
    # A power of two, so that minibatches come out even.
    batch = count or int(np.clip(2 ** round(np.log2(STEPS_PER_UPDATE / steps)), 8, 128))
    horizon = float(np.clip((limit or LONGEST_ROLLOUT) / 5, 50, 100))
    choices = [
        _Choice({"rollout_steps": steps, "segment_steps": segment}, why),
        _Choice(
            {"episodes_per_update": batch},
            "the vector environment's number" if count else f"{batch * steps:,} steps in an update",
        ),
        _Choice({"episodes": max(batch, round(STEPS / steps))}, f"about {STEPS:,} environment steps"),
        _Choice({"discount": round(1.0 - 1.0 / horizon, 4)}, f"looks {horizon:.0f} steps ahead, a fifth of an episode"),
        _Choice(
            {"deterministic_share": 0.0, "epochs": 4, "minibatches_per_epoch": 8},
            "every step explores and is learnt from in each epoch",
        ),
    ]
    if real:
        choices.append(_Choice({"noise_color": 0.5}, "exploration that goes somewhere, between white and pink noise"))
    else:
        choices.append(_Choice({"entropy_weight": 0.01}, "choices stay open for a while"))
    return choices


def _consistent(choices, given):
    """With the numbers that follow from what was given."""
    fields = _fields(choices) | given
    steps, batch = fields["rollout_steps"] or LONGEST_ROLLOUT, fields["episodes_per_update"]
    changed = {"episodes": max(batch, round(STEPS / steps)), "segment_steps": min(fields["segment_steps"], steps)}
    return [
        _Choice({name: changed.get(name, value) for name, value in choice.fields.items()}, choice.reason)
        for choice in choices
    ]


def _fields(choices):
    return {name: value for choice in choices for name, value in choice.fields.items()}


def _episode_steps(made) -> int | None:
    spec = made.spec
    return (spec.kwargs.get("max_episode_steps") or spec.max_episode_steps) if spec else None


def _check_fields(what, given, owner):
    known = {field.name for field in dataclasses.fields(owner)}
    if unknown := sorted(set(given) - known):
        raise TypeError(f"Unknown fields of the {what}: {unknown}. Known: {sorted(known)}. Received: {given!r}")
