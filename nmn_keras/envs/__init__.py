"""The benchmarks: registration with Gymnasium, short names, and one way to make any environment.

Importing this module registers `nmn_keras/MovingTarget-v0` (b1), `nmn_keras/WindyNavigation-v0` (b2) and
`nmn_keras/TwoTargets-v0` (b3), besides `nmn_keras/Trial-v0` (several episodes of one task as one),
`nmn_keras/HiddenParameters-v0` (any environment with drawn physics), `nmn_keras/HalfCheetahDirection-v0`,
`nmn_keras/HalfCheetahVelocity-v0` (MuJoCo, which is loaded when one is made) and `nmn_keras/Bandit-v0`, and loads
neither Keras nor TensorFlow.
"""

import contextlib
import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from nmn_keras import optima
from nmn_keras.baselines import bayes_optimal_return
from nmn_keras.envs.checks import check_num_envs
from nmn_keras.envs.guard import EnvironmentFailed as EnvironmentFailed
from nmn_keras.envs.guard import guard
from nmn_keras.envs.hidden_parameters import HiddenParameters as HiddenParameters
from nmn_keras.envs.trial import Trial as Trial

Factory = Callable[[], gymnasium.Env | VectorEnv]
EnvLike = str | EnvSpec | gymnasium.Env | VectorEnv | Factory
"""A short name ("b1"), a Gymnasium id, a spec, an environment that has one, a vector environment, or a factory of an
environment or of a vector environment."""


@dataclass(frozen=True)
class Benchmark:
    """One of the paper's benchmarks and how its returns are measured."""

    name: str
    """Short name, accepted wherever an environment is."""
    env_id: str
    """Gymnasium id."""
    discount: float
    """Discount factor of the reported return."""
    episode_steps: int
    """Steps of an episode."""
    optimal_return: Callable[[int, float], float | None]
    """What no agent beats on average, of (steps, discount), or None where it is not known: the return of the
    Bayes-optimal policy (b1), or that of optimal control that knows the task (b2, b3), which no learner quite reaches.
    """
    spawn_exclusion: float | None = None
    """The environment's argument of this name, None where it has none."""

    @property
    def known_task(self) -> optima.KnownTaskOptima | None:
        """The returns of optimal control task by task, where they are known."""
        return None if self.spawn_exclusion is None else optima.load(self.name, self.spawn_exclusion)

    def with_arguments(self, arguments: Mapping[str, Any]) -> "Benchmark | None":
        """Return the benchmark that the environment is with these arguments, or None where it is another problem.

        Args:
            arguments: of the environment. Lengths and pictures change no problem, and neither does a
                `spawn_exclusion` for which there are optima.
        """
        changing = set(arguments) - {"max_episode_steps", "render_mode"}
        if not changing:
            return self
        exclusion: Any = arguments.get("spawn_exclusion")
        if self.spawn_exclusion is None or changing != {"spawn_exclusion"} or not isinstance(exclusion, int | float):
            return None
        other = self.with_spawn_exclusion(exclusion)
        return other if other.known_task else None

    def with_spawn_exclusion(self, spawn_exclusion: float) -> "Benchmark":
        """Return benchmark 2 or 3 with another exclusion."""
        optimal_return = partial(optima.known_task_return, self.name, spawn_exclusion)
        return replace(self, spawn_exclusion=spawn_exclusion, optimal_return=optimal_return)


def _navigation(name: str, env_id: str, episode_steps: int) -> Benchmark:
    """Return benchmark 2 or 3 as in the paper."""
    return Benchmark(name, env_id, 0.998, episode_steps, partial(optima.known_task_return, name, 0.0), 0.0)


_LISTED = (
    Benchmark("b1", "nmn_keras/MovingTarget-v0", 0.998, 1400, bayes_optimal_return),
    _navigation("b2", "nmn_keras/WindyNavigation-v0", 4000),
    _navigation("b3", "nmn_keras/TwoTargets-v0", 5000),
)
BENCHMARKS = {benchmark.name: benchmark for benchmark in _LISTED}

for _benchmark in _LISTED:
    _class = _benchmark.env_id.removeprefix("nmn_keras/").removesuffix("-v0")
    gymnasium.register(
        id=_benchmark.env_id,
        entry_point=f"nmn_keras.envs.gym:{_class}Env",
        vector_entry_point=f"nmn_keras.envs.gym:{_class}VectorEnv",
        max_episode_steps=_benchmark.episode_steps,
    )
gymnasium.register(id="nmn_keras/Trial-v0", entry_point="nmn_keras.envs.trial:make_trial")
gymnasium.register(
    id="nmn_keras/HiddenParameters-v0", entry_point="nmn_keras.envs.hidden_parameters:make_hidden_parameters"
)
for _goal in ("Direction", "Velocity"):
    gymnasium.register(
        id=f"nmn_keras/HalfCheetah{_goal}-v0",
        entry_point=f"nmn_keras.envs.half_cheetah:make_{_goal.lower()}",
        max_episode_steps=200,
    )
gymnasium.register(id="nmn_keras/Bandit-v0", entry_point="nmn_keras.envs.bandit:Bandit")


def resolve(name: str) -> str:
    """Return the Gymnasium id of a short name or of an id; a module named with an id stays with it.

    Args:
        name: "b1", or a registered id, or "module:id" to import the module that registers it.

    Raises:
        ValueError: if Gymnasium does not know it.
    """
    module, _, name_in_module = name.rpartition(":")
    try:
        if module:
            importlib.import_module(module)
        if name_in_module in BENCHMARKS:
            return BENCHMARKS[name_in_module].env_id
        env_id = gymnasium.spec(name_in_module).id
        ours = any(env_id == benchmark.env_id for benchmark in _LISTED)
        return f"{module}:{env_id}" if module and not ours else env_id
    except (ImportError, gymnasium.error.Error) as error:
        known = [part for entry in BENCHMARKS.values() for part in (entry.name, entry.env_id)]
        raise ValueError(
            f"Unknown environment. Known: {', '.join(known)}, and any id registered with Gymnasium. "
            f"Received: {name!r} ({error})"
        ) from error


def make(env: EnvLike, /, **kwargs: Any) -> gymnasium.Env:
    """Make one environment.

    Args:
        env: what to make; from an environment a fresh one is made by its spec.
        **kwargs: for `gymnasium.make`; none are accepted with a factory.

    Raises:
        TypeError: if `env` is none of `EnvLike`, or a factory returns no environment.
        ValueError: if the name is unknown, or an environment has no spec.
    """
    source = _source(env)
    if isinstance(source, EnvSpec):
        return gymnasium.make(source, **kwargs)
    made = _call(source, kwargs)
    if isinstance(made, VectorEnv):
        made.close()
        raise TypeError(
            f"The factory makes a vector environment. One that makes a single one is accepted. Received: {made}"
        )
    return made


def make_vec(env: EnvLike, num_envs: int, /, **kwargs: Any) -> VectorEnv:
    """Make N environments that reset themselves on the step an episode ends (SAME_STEP).

    The benchmarks step all N at once in numpy; other environments, and benchmarks inside
    wrappers, are stepped one by one by `SyncVectorEnv`. A vector environment that is given, or that a factory makes,
    stays as it is, its autoreset mode too.

    Args:
        env: what to make, see `make`.
        num_envs: N.
        **kwargs: for `gymnasium.make_vec`; none are accepted with a factory or a vector environment.

    Raises:
        TypeError: if `env` is none of `EnvLike`, or a factory returns no environment.
        ValueError: if the name is unknown, an environment has no spec, N is not from 1, or a vector environment has
            another number of environments.
    """
    made = _make_vec(env, num_envs, kwargs)
    if made.num_envs != num_envs:
        if made is not env:
            made.close()
        raise ValueError(
            f"The vector environment has another number of environments. {num_envs} are needed. "
            f"Received: {made.num_envs}, {made}"
        )
    return made


@contextlib.contextmanager
def open_vec(env: EnvLike, num_envs: int, /, **kwargs: Any) -> Iterator[VectorEnv]:
    """Make N environments and close them in the end.

    A vector environment that is given, or that a factory makes, keeps its own N; one that is given stays open.

    Args:
        env: what to make, see `make_vec`.
        num_envs: N of what is made here.
        **kwargs: see `make_vec`.
    """
    made = _make_vec(env, num_envs, kwargs)
    try:
        yield made
    finally:
        if made is not env:
            made.close()


@contextlib.contextmanager
def open_any(env: EnvLike, /, **kwargs: Any) -> Iterator[gymnasium.Env | VectorEnv]:
    """Make one environment, to look at, and close it in the end; a vector environment stands for itself.

    Args:
        env: what to make, see `make_vec`.
        **kwargs: see `make_vec`.
    """
    if isinstance(env, VectorEnv):
        _refuse_arguments(kwargs)
        yield env
        return
    source = _source(env)
    made = gymnasium.make(source, **kwargs) if isinstance(source, EnvSpec) else _call(source, kwargs)
    try:
        yield made
    finally:
        made.close()


def identity(env: EnvLike | None) -> tuple[str | None, dict[str, Any]]:
    """Return the id and the arguments by which an environment is made; no id where it is more than these say.

    Args:
        env: what `make_vec` takes, or None. A string is given back as it is.
    """
    if env is None or isinstance(env, str):
        return env, {}
    spec = getattr(env, "spec", env)
    if not isinstance(spec, EnvSpec) or spec.additional_wrappers:
        return None, {}
    kwargs = dict(spec.kwargs)
    if isinstance(env, VectorEnv):
        added = {
            name: kwargs.pop(name, None) for name in ("num_envs", "vectorization_mode", "vector_kwargs", "wrappers")
        }
        plain = set(added["vector_kwargs"] or {}) <= {"autoreset_mode", "copy"}
        # Wrappers around it are not in its spec; those within, and further settings, cannot be written down.
        if env.unwrapped is not env or added["wrappers"] or not plain:
            return None, {}
    return spec.id, kwargs


def _make_vec(env: EnvLike, num_envs: int, kwargs: dict[str, Any]) -> VectorEnv:
    check_num_envs(num_envs)
    if isinstance(env, VectorEnv):
        _refuse_arguments(kwargs)
        return env
    source, mode = _source(env), AutoresetMode.SAME_STEP
    if not isinstance(source, EnvSpec):
        first = _call(source, kwargs)
        if isinstance(first, VectorEnv):
            return first
        factories: list[Any] = [lambda: first, *[source] * (num_envs - 1)]
        several = SyncVectorEnv(factories, autoreset_mode=mode)
        if len({id(env.unwrapped) for env in several.envs}) < num_envs:
            raise ValueError(
                "The factory returns the same environment every time, which cannot play several episodes at once. One "
                f"that makes a new environment at each call is accepted. Received: {first}"
            )
        return guard(several)
    native = source.id in {entry.env_id for entry in BENCHMARKS.values()}
    if native and not source.additional_wrappers:
        return gymnasium.make_vec(source, num_envs, vectorization_mode="vector_entry_point", **kwargs)
    settings = {"autoreset_mode": mode}
    return guard(gymnasium.make_vec(source, num_envs, vectorization_mode="sync", vector_kwargs=settings, **kwargs))


def _source(env: EnvLike) -> EnvSpec | Factory:
    """Return the spec or the factory that makes such environments."""
    if isinstance(env, str):
        return gymnasium.spec(resolve(env).rpartition(":")[2])
    if isinstance(env, EnvSpec):
        if "vectorization_mode" in env.kwargs:
            raise ValueError(
                f"This is the spec of a vector environment. That of a single one is accepted. Received: {env}"
            )
        _check_wrappers(env)
        return env
    if isinstance(env, gymnasium.Env):
        if env.spec is None:
            raise ValueError(
                "The environment has no spec to make others by. An id, a spec, an environment made "
                f"by gymnasium.make or a factory are accepted. Received: {env}"
            )
        _check_wrappers(env.spec)
        return env.spec
    if isinstance(env, VectorEnv) or not callable(env):
        raise TypeError(
            "Not an environment. A short name, a Gymnasium id, an EnvSpec, a gymnasium.Env with a "
            "spec or a zero-argument factory are accepted, and to train and evaluate a VectorEnv. "
            f"Received: {env!r}"
        )
    return env


def _check_wrappers(spec: EnvSpec) -> None:
    """Refuse a spec with a wrapper that Gymnasium cannot make again."""
    unknown = [wrapper.name for wrapper in spec.additional_wrappers if wrapper.kwargs is None]
    if unknown:
        raise ValueError(
            "The environment has a wrapper that does not tell its arguments, so that no other like it can be made. "
            "Accepted are wrappers that inherit from gymnasium.utils.RecordConstructorArgs, or a factory, such as "
            f"`lambda: {unknown[0]}(gymnasium.make({spec.id!r}), ...)`. Received: {', '.join(unknown)}"
        )


def _call(factory: Factory, kwargs: dict[str, Any]) -> gymnasium.Env | VectorEnv:
    """Return what a factory makes."""
    _refuse_arguments(kwargs)
    env = factory()
    if not isinstance(env, gymnasium.Env | VectorEnv):
        raise TypeError(
            "The factory does not make an environment. A function that returns a gymnasium.Env or a "
            f"gymnasium.vector.VectorEnv is accepted. Received: {type(env).__name__}"
        )
    return env


def _refuse_arguments(kwargs: dict[str, Any]) -> None:
    if kwargs:
        raise TypeError(
            "A factory and a vector environment take no arguments. Arguments are accepted with an id, a spec or an "
            f"environment. Received: {', '.join(kwargs)}"
        )
