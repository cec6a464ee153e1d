"""Hidden physics: attributes of any environment, drawn anew in each episode and not told."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box, flatten, flatten_space
from numpy.typing import ArrayLike, NDArray

from nmn_keras.envs.attributes import Attribute, Follower, followers
from nmn_keras.envs.checks import finite_array
from nmn_keras.envs.laws import Draw, Law, read_draw, read_law


class _Parameter:
    """An attribute, how it is drawn, and where its numbers stand in the task."""

    def __init__(self, env: gymnasium.Env, path: str, entry: Any, first: int):
        self.attribute, self.draw = Attribute(env, path), read_draw(entry, path)
        self.original = self.attribute.get()
        each, size = self.draw.each, int(np.prod(self.attribute.shape))
        if each and not self.attribute.shape:
            raise ValueError(
                f"`each` is for arrays. A single number is drawn without it. Received: {path!r}, {entry!r}"
            )
        self.span = slice(first, first + (size if each else 1))

    def apply(self, task: NDArray[np.float64]) -> None:
        drawn: Any = task[self.span]
        drawn = drawn.reshape(self.attribute.shape) if self.draw.each else drawn[0]
        self.attribute.set(self.original * drawn if self.draw.scale else drawn)


@dataclass(frozen=True)
class _Change:
    """New numbers for some elements of the task at a step."""

    first: int
    last: int
    elements: tuple[int, ...]
    laws: tuple[Law, ...]


class HiddenParameters(gymnasium.Env[Any, Any]):
    """Another environment whose physics are drawn anew in each episode: the agent has to find them out.

    - Observation, action, reward, end: the inner environment's.
    - Task: the drawn numbers, in the order of `parameters` and, of one with "each", in the array's order (C). For a
      "scale" it is the factor. `reset` and `step` tell it as `info["task"]` (K,), never in the observation;
      `reset(options={"task": ...})` sets it, with numbers outside the laws too; `set_task` changes it within an
      episode. Other options go to the inner environment.
    - What the inner environment's constructor computes from a drawn attribute (CartPole's `polemass_length` from
      `length`) is computed anew, by the constructor's own formula. Where that is no arithmetic, the constructor of this
      one raises, and `derived` says what to do. A MuJoCo model's constants are computed anew by MuJoCo
      (`mj_setConst`). A mass changes no inertia: name both. What follows in other ways, nobody knows: name it in
      `derived`.
    - Numbers are set before the inner environment is reset. Each episode begins from what the inner environment had
      when it was made, so that factors do not pile up.

    No `gymnasium.Wrapper`: what Gymnasium makes by the id `nmn_keras/HiddenParameters-v0` can be made again by its
    spec. The spec knows no time limit unless `max_episode_steps` is given to `gymnasium.make`.

    Args:
        env: the inner environment, its time limit included.
        parameters: paths of attributes with the law of each: `{"unwrapped.length": [0.25, 1.5],
            "unwrapped.model.actuator_gear[:, 0]": {"scale": [0.3, 1.5], "each": true}}`. Laws: a number, `[low, high]`
            (uniform), `{"uniform": [low, high]}`, `{"log_uniform": [low, high]}`, `{"choice": [...]}`,
            `{"scale": law}`.
        derived: paths of attributes with a formula each, arithmetic of paths: `{"unwrapped.total_mass":
            "unwrapped.masspole + unwrapped.masscart"}`; null leaves one as it is.
        changes: what happens within an episode: `[{"at": 500, "parameters": {"unwrapped.length": 1.0}}]`. "at" is the
            number of steps played before the change, or the first and the last one it may be. The paths are of
            `parameters`, their laws replace those, factors stay factors. Of one with "each",
            `{"elements": [0, 2], "law": 0.3}` changes some.
        tell: whether the task is appended to the observation, flattened: each number from -1 to 1 over its
            law's range. For an agent that knows, as a ceiling.

    Raises:
        ValueError: if an argument is not accepted.
    """

    def __init__(
        self,
        env: gymnasium.Env,
        parameters: Mapping[str, Any],
        derived: Mapping[str, str | None] | None = None,
        changes: Sequence[Mapping[str, Any]] = (),
        tell: bool = False,
    ):
        if not isinstance(parameters, Mapping) or not parameters:
            raise ValueError(f"`parameters` is a mapping from paths to laws, not empty. Received: {parameters!r}")
        self.env, self.tell = env, bool(tell)
        self.metadata, self.render_mode = env.metadata, env.render_mode
        self.action_space = env.action_space
        self._parameters: list[_Parameter] = []
        for path, entry in parameters.items():
            first = self._parameters[-1].span.stop if self._parameters else 0
            self._parameters.append(_Parameter(env, path, entry, first))
        _check_once([parameter.attribute for parameter in self._parameters])
        self._laws = [p.draw.law for p in self._parameters for _ in range(p.span.start, p.span.stop)]
        self._followers = _all_followers(env, [p.attribute for p in self._parameters], dict(derived or {}))
        self._changes = [change for entry in changes for change in self._read_change(entry)]
        self.observation_space: Any = _told(env.observation_space, len(self._laws)) if tell else env.observation_space
        self._task: NDArray[np.float64] | None = None
        self._due: list[tuple[int, tuple[int, ...], NDArray[np.float64]]] = []
        self._steps = 0

    @property
    def task(self) -> NDArray[np.float64]:
        """The present numbers (K,).

        Raises:
            ResetNeeded: before the first reset.
        """
        if self._task is None:
            raise ResetNeeded("There is no task yet: call reset first.")
        return self._task.copy()

    def set_task(self, task: ArrayLike) -> None:
        """Change the physics, within an episode too. What was seen last was of the physics before.

        Args:
            task: numbers (K,).

        Raises:
            TypeError: if they are no numbers.
            ValueError: if there are others than K, or one is not finite.
            ResetNeeded: before the first reset.
        """
        if self._task is None:
            raise ResetNeeded("There is no episode yet whose task could be set: call reset first.")
        self._apply(self._checked(task))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode with other physics.

        Args:
            seed: of the physics and of the inner environment.
            options: "task" sets the physics; the rest is the inner environment's.
        """
        super().reset(seed=seed)
        others = dict(options or {})
        asked = others.pop("task", None)
        task = _drawn(self._laws, self.np_random)  # drawn all the same: later numbers do not depend on the options
        self._due = [self._draw_change(change) for change in self._changes]
        self._steps = 0
        self._apply(task if asked is None else self._checked(asked))
        self._make_changes()
        observation, info = self.env.reset(seed=seed, options=others or None)
        return self._observe(observation), {**info, "task": self.task}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Play one step of the inner environment, under the present physics.

        A change is made after the last step before it, so that `info["task"]` and what is told are of the next one.
        """
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._steps += 1
        self._make_changes()
        return self._observe(observation), reward, terminated, truncated, {**info, "task": self.task}

    def render(self) -> Any:
        """Return the inner environment's picture."""
        return self.env.render()

    def close(self) -> None:
        """Close the inner environment."""
        self.env.close()

    def _checked(self, task: ArrayLike) -> NDArray[np.float64]:
        return finite_array(task, (len(self._laws),), "task")

    def _apply(self, task: NDArray[np.float64]) -> None:
        for parameter in self._parameters:
            parameter.apply(task)
        for follower in self._followers:
            follower.apply()
        for parameter in self._parameters:
            _set_constants(parameter.attribute.owner)
        self._task = task

    def _make_changes(self) -> None:
        for at, elements, values in self._due:
            if at == self._steps:
                task = self.task
                task[list(elements)] = values
                self._apply(task)

    def _draw_change(self, change: _Change) -> tuple[int, tuple[int, ...], NDArray[np.float64]]:
        at = int(self.np_random.integers(change.first, change.last + 1))
        return at, change.elements, _drawn(change.laws, self.np_random)

    def _observe(self, observation: Any) -> Any:
        if not self.tell:
            return observation
        flat: Any = flatten(self.env.observation_space, observation)
        told = [law.normalise(np.asarray(value)) for law, value in zip(self._laws, self.task, strict=True)]
        return np.append(np.ravel(flat), told).astype(np.float32)

    def _read_change(self, entry: Any) -> list[_Change]:
        """One for each parameter of an entry of `changes`."""
        if not isinstance(entry, Mapping) or set(entry) != {"at", "parameters"}:
            raise ValueError(f"A change is {{'at': step, 'parameters': {{path: law}}}}. Received: {entry!r}")
        times = entry["at"] if isinstance(entry["at"], list | tuple) else [entry["at"]] * 2
        whole = all(isinstance(at, int | np.integer) and not isinstance(at, bool) for at in times)
        if len(times) != 2 or not whole or not 0 <= times[0] <= times[1]:
            raise ValueError(f"`at` is a step from 0, or the first and the last of them. Received: {entry['at']!r}")
        known = {parameter.attribute.path: parameter for parameter in self._parameters}
        if not isinstance(entry["parameters"], Mapping) or not set(entry["parameters"]) <= set(known):
            raise ValueError(f"A change is of `parameters`: {', '.join(known)}. Received: {entry['parameters']!r}")
        return [
            _Change(int(times[0]), int(times[1]), *_of_change(known[path], law))
            for path, law in entry["parameters"].items()
        ]


def make_hidden_parameters(
    env: Any,
    parameters: Mapping[str, Any],
    derived: Mapping[str, str | None] | None = None,
    changes: Sequence[Mapping[str, Any]] = (),
    tell: bool = False,
    env_kwargs: dict[str, Any] | None = None,
    **settings: Any,
) -> HiddenParameters:
    """Make one by names alone; the entry point of `nmn_keras/HiddenParameters-v0`.

    Args:
        env: what `nmn_keras.envs.make` takes, for an id a short name or a Gymnasium id.
        parameters: see `HiddenParameters`.
        derived: see `HiddenParameters`.
        changes: see `HiddenParameters`.
        tell: see `HiddenParameters`.
        env_kwargs: for the inner environment.
        **settings: further ones of the inner environment, such as `render_mode`.
    """
    from nmn_keras import envs  # which registers this function

    made = envs.make(env, **{**(env_kwargs or {}), **settings})
    try:
        return HiddenParameters(made, parameters, derived, changes, tell)
    except Exception:
        made.close()
        raise


def _check_once(attributes: list[Attribute]) -> None:
    """Refuse one attribute by two paths."""
    seen: dict[Any, str] = {}
    for attribute in attributes:
        place = (id(attribute.owner), attribute.name, str(attribute.index))
        if place in seen:
            raise ValueError(f"An attribute is drawn once. Received it twice: {seen[place]!r} and {attribute.path!r}")
        seen[place] = attribute.path


def _drawn(laws: Sequence[Law], rng: np.random.Generator) -> NDArray[np.float64]:
    return np.array([float(law.quantile(u)) for law, u in zip(laws, rng.random(len(laws)), strict=True)])


def _of_change(parameter: _Parameter, entry: Any) -> tuple[tuple[int, ...], tuple[Law, ...]]:
    """Elements of the task that a change draws anew, and by which law each."""
    path, span = parameter.attribute.path, parameter.span
    elements = list(range(span.stop - span.start))
    if isinstance(entry, dict) and "elements" in entry:
        chosen = entry["elements"]
        if (
            set(entry) != {"elements", "law"}
            or not isinstance(chosen, list | tuple)
            or not set(chosen) <= set(elements)
        ):
            raise ValueError(
                f"A change of some elements of `{path}` is {{'elements': [...], 'law': law}} with numbers of "
                f"{elements}. Received: {entry!r}"
            )
        elements, entry = list(chosen), entry["law"]
    if isinstance(entry, dict) and "scale" in entry and parameter.draw.scale:
        entry = read_draw(entry, path)
    law = entry.law if isinstance(entry, Draw) else read_law(entry, path)
    return tuple(span.start + element for element in elements), (law,) * len(elements)


def _all_followers(env: gymnasium.Env, drawn: list[Attribute], derived: dict[str, str | None]) -> list[Follower]:
    """What has to be computed after the drawn attributes."""
    known = {attribute.path for attribute in drawn} | set(derived)
    found: dict[str, str] = {}
    for attribute in drawn:
        for path, formula in followers(attribute).items():
            if path in known:
                continue
            if formula is None:
                raise ValueError(
                    f"`{path}` is computed from `{attribute.path}` when the environment is made, in a way that cannot "
                    f"be repeated. Accepted is an entry of `derived`: {path!r} with a formula, or with null, which "
                    f"leaves it as it is. Received: derived={derived}"
                )
            found[path] = formula
    given = {path: formula for path, formula in derived.items() if formula is not None}
    return [Follower(env, path, formula) for path, formula in {**found, **given}.items()]


def _set_constants(owner: Any) -> None:
    """Let MuJoCo compute what its model's constants follow from."""
    if not type(owner).__module__.startswith("mujoco"):
        return
    import mujoco

    if isinstance(owner, mujoco.MjModel):
        mujoco.mj_setConst(owner, mujoco.MjData(owner))  # data of its own: the episode's state stays


def _told(space: gymnasium.Space, size: int) -> Box:
    flat = flatten_space(space)
    if not isinstance(flat, Box):
        raise ValueError(
            "`tell` needs an observation that gymnasium.spaces.flatten_space makes a Box of (Box, Discrete, "
            f"MultiBinary, Dict, Tuple ...). Received: {space}"
        )
    with np.errstate(over="ignore"):  # bounds beyond float32 are as good as none
        low, high = (np.asarray(bound, np.float32).ravel() for bound in (flat.low, flat.high))
    unbounded = np.full(size, np.inf, np.float32)  # `set_task` and changes may leave the law's range
    return Box(np.append(low, -unbounded), np.append(high, unbounded), dtype=np.float32)
