"""Architecture and recipe for a task that nobody has tuned: what its spaces and the length of its episodes say."""

from typing import Any, NamedTuple

from nmn_keras import envs
from nmn_keras.architecture import Architecture
from nmn_keras.recipes import FastRecipe


class Derived(NamedTuple):
    """What `derive` chose, and why."""

    architecture: Architecture
    """Sizes and bounds of the environment."""
    recipe: FastRecipe
    """Numbers of the training."""
    reasons: tuple[str, ...]
    """One line for each choice."""


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
    """
    env_kwargs, architecture, recipe = dict(env_kwargs or {}), dict(architecture or {}), dict(recipe or {})
    with envs.open_any(env, **env_kwargs) as made:
        limit = getattr(made.spec, "max_episode_steps", None)
    chosen: dict[str, Any] = {"rollout_steps": limit} if limit else {}
    reasons = (f"rollout_steps {limit}: an episode's length",) if limit else ()
    return Derived(
        Architecture.for_env(env, kind, env_kwargs, **architecture), FastRecipe(**{**chosen, **recipe}), reasons
    )
