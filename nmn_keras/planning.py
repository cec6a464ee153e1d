"""What `nmn train NAME` trains: a preset, or any environment with the defaults that follow from it."""

import dataclasses
import json
import re
import shlex
from typing import Any

from nmn_keras import checkpoint, defaults, envs, field_options, presets, recipes
from nmn_keras.actor_critic import ActorCritic
from nmn_keras.architecture import Architecture
from nmn_keras.evaluation import benchmark_of


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is trained, whatever the seed."""

    name: str
    """As it was typed: a preset, or an environment."""
    kind: str | None
    """Of the network, where the name does not say it."""
    env: str
    """Short name or id of the environment."""
    env_kwargs: dict[str, Any]
    """Its arguments."""
    architecture: Architecture
    recipe: recipes.Recipe
    changed: dict[str, Any]
    """Fields that are not as the name says, which have to be typed."""
    reasons: tuple[str, ...] = ()
    """Lines that say what was chosen, and why."""

    @property
    def stem(self) -> str:
        """What its run directories are called, but for the seed; every character is safe in a path."""
        if self.kind is None:
            return f"{self.name}-{self.recipe.name}"
        recipe = "" if self.recipe.name == "fast" else f"-{self.recipe.name}"
        return f"{re.sub(r'[^A-Za-z0-9._-]+', '-', self.name).strip('-.')}-{self.kind}{recipe}"

    def agent(self, seed: int) -> ActorCritic:
        """An agent with fresh weights."""
        name = {"name": self.name.replace("-", "_")} if self.kind is None else {}
        return ActorCritic(self.architecture, self.recipe, seed, **name)

    def words(self, seed: int) -> list[str]:
        """The words after `nmn train` by which the same is trained again."""
        kind = [] if self.kind is None else [f"--kind {self.kind}"]
        env_kwargs = [f"--env-kwargs {shlex.quote(json.dumps(self.env_kwargs))}"] if self.env_kwargs else []
        head = [shlex.quote(self.name), *kind, f"--recipe {self.recipe.name}", f"--seed {seed}"]
        return [*head, *env_kwargs, *field_options.words(self.changed)]


def plan(arguments) -> Plan:
    """What the arguments of `nmn train` ask for.

    Raises:
        ValueError: if there is no such preset or environment, or an option does not fit.
    """
    if arguments.name is None:
        raise ValueError(
            "NAME is missing: a preset such as b1-nmn, or a Gymnasium id such as Pendulum-v1. Accepted without it is "
            "`--resume --run-dir DIR`, one run. Received: no name"
        )
    return _of_preset(arguments) if arguments.name in presets.ARCHITECTURES else _of_env(arguments)


def _of_preset(arguments):
    """A preset, changed by the options given."""
    name, (structure, recipe) = arguments.name, presets.get(arguments.name, arguments.recipe or "fast")
    if arguments.kind is not None:
        raise ValueError(
            "A preset has its kind of network; --kind is accepted with an environment, such as "
            f"{name.partition('-')[0]}. Received: {name}, --kind {arguments.kind}"
        )
    shape, numbers = _shape(arguments), _numbers(arguments, recipe)
    chosen = {**shape, **numbers}
    own = {**dataclasses.asdict(structure), **dataclasses.asdict(recipe)}
    return Plan(
        name,
        None,
        name.partition("-")[0],
        arguments.env_kwargs or {},
        dataclasses.replace(structure, **shape),
        dataclasses.replace(recipe, **numbers),
        {field: chosen[field] for field in own if field in chosen and chosen[field] != own[field]},
    )


def _of_env(arguments):
    """Any environment, with the defaults that follow from it."""
    name, env_kwargs, kind = arguments.name, arguments.env_kwargs or {}, arguments.kind or "nmn"
    time_limit(_known(name), env_kwargs)  # an argument that the environment does not take is told first
    recipe: type[recipes.Recipe] = recipes.RECIPES[arguments.recipe or "fast"]
    shape, numbers = _shape(arguments), _numbers(arguments, recipe)
    if recipe is recipes.FastRecipe:
        derived = defaults.derive(name, kind, env_kwargs, shape, numbers)
        structure, reasons = derived.architecture, derived.reasons
        chosen: recipes.Recipe = derived.recipe
    else:
        structure, chosen = Architecture.for_env(name, kind, env_kwargs, **shape), recipe(**numbers)
        reasons = (f"recipe = {recipe.name}: its numbers are the paper's, none follows from the environment",)
    if tuned := [preset for preset in presets.ARCHITECTURES if preset == f"{name}-{kind}"]:
        reasons = (*reasons, f"{name} has numbers of its own, which the preset {tuned[0]} uses")
    return Plan(name, kind, name, env_kwargs, structure, chosen, {**shape, **numbers}, reasons)


def _known(name):
    """The name of an environment, if there is one."""
    try:
        envs.resolve(name)
    except ValueError as error:
        raise ValueError(f"{error} Presets: {', '.join(sorted(presets.ARCHITECTURES))}.") from error
    return name


def _shape(arguments):
    """The architecture's fields that were given, but for the kind, which has a default of its own."""
    return {name: value for name, value in field_options.given(arguments, Architecture).items() if name != "kind"}


def _numbers(arguments, recipe):
    """The recipe's fields that were given."""
    names = {field.name for field in dataclasses.fields(recipe)}
    given = field_options.given(arguments, *recipes.RECIPES.values())
    if foreign := sorted(set(given) - names):
        raise ValueError(f"The {recipe.name!r} recipe has no {foreign}. It has {sorted(names)}.")
    return given


def resumed(arguments, run_dir) -> ActorCritic:
    """The agent of a run directory, which must not be another one than was asked for.

    Raises:
        ValueError: if there is no checkpoint, or what was given differs from what it holds.
    """
    config, state, *_ = checkpoint.read(run_dir)
    own = Architecture.from_config(config["architecture"]), recipes.from_config(config["recipe"])
    for option, asked, found in (
        ("kind", arguments.kind, own[0].kind),
        ("recipe", arguments.recipe, own[1].name),
        ("seed", arguments.seed, state["seed"]),
    ):
        if asked not in (None, found):
            raise ValueError(
                f"{str(run_dir)!r} holds another run; nothing was changed. Accepted is --{option} {found}, which "
                f"need not be given again. Received: --{option} {asked}"
            )
    structure, recipe = own
    if arguments.name in presets.ARCHITECTURES:
        structure, _ = presets.get(arguments.name, recipe)
    structure = dataclasses.replace(structure, **_shape(arguments))
    numbers = {field: value for field, value in _numbers(arguments, recipe).items() if field != "episodes"}
    agent = ActorCritic(structure, dataclasses.replace(recipe, **numbers), config["seed"], name=config["name"])
    agent.restore(run_dir)  # refuses what differs
    return agent


def validation(env, env_kwargs, recipe) -> tuple[dict[str, int], tuple[str, ...]]:
    """How a run is validated where nothing else is asked for, and lines that say why.

    A benchmark has numbers of its own. Elsewhere validation plays about a tenth of the steps that are trained on in
    between, in 10 to 100 full episodes.
    """
    if benchmark := benchmark_of(env, env_kwargs):
        return presets.VALIDATION[benchmark.name], ()
    limit = time_limit(env, env_kwargs)
    freq = max(1, min(10, recipe.episodes // recipe.episodes_per_update // 10))
    if limit is None:
        why = "validation_episodes = 0: episodes have no time limit (max_episode_steps), so one may never end"
        return {"validation_episodes": 0, "validation_freq": freq}, (why,)
    between = freq * recipe.episodes_per_update * (recipe.rollout_steps or limit)
    episodes = max(10, min(100, between // (10 * limit)))
    why = f"validation_episodes = {episodes}, validation_freq = {freq}: a tenth of the steps trained on, in 10 to 100"
    return {"validation_episodes": episodes, "validation_freq": freq}, (f"{why} episodes",)


def time_limit(env, env_kwargs) -> int | None:
    """The steps after which an episode is cut, if it is.

    Raises:
        ValueError: if the environment does not take the arguments.
    """
    try:
        with envs.open_any(env, **env_kwargs) as made:
            return getattr(made.spec, "max_episode_steps", None)
    except TypeError as error:
        raise ValueError(
            f"The environment {env!r} cannot be made so. Accepted as --env-kwargs are its own arguments and those of "
            f"gymnasium.make. Received: {env_kwargs} ({error})"
        ) from error
