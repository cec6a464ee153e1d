"""Where a training run stands, and by what its environment can be made again."""

import dataclasses
import json

import gymnasium
import numpy as np

from nmn_keras import envs
from nmn_keras.normalisation import Statistics


@dataclasses.dataclass
class Run:
    """Where a training run stands: all of it that is neither weights nor optimiser slots."""

    env_id: str | None = None
    """Gymnasium id of the training environment; None for one without a spec."""
    env_kwargs: dict = dataclasses.field(default_factory=dict)
    """Arguments of the training environment."""
    seed: int = 0
    """Seed of everything drawn in the run."""
    updates: int = 0
    """Updates planned."""
    update: int = 0
    """Updates done."""
    coefficients: dict = dataclasses.field(default_factory=dict)
    """The recipe's adapted numbers."""
    buffer: list = dataclasses.field(default_factory=list)
    """Critic batches of earlier updates, oldest first."""
    statistics: Statistics = dataclasses.field(default_factory=Statistics)
    """Of what was played, where the architecture normalises."""

    def state(self) -> dict:
        """All but buffer and statistics, ready for JSON."""
        state = dataclasses.asdict(dataclasses.replace(self, buffer=[], statistics=Statistics()))
        del state["statistics"]
        return state

    def arrays(self) -> dict[str, np.ndarray]:
        """Buffer and statistics as a flat dict."""
        buffer = {f"buffer/{i}/{k}": np.asarray(v) for i, batch in enumerate(self.buffer) for k, v in batch.items()}
        return buffer | self.statistics.arrays()

    @classmethod
    def restore(cls, state: dict, arrays: dict) -> "Run":
        """The inverse of `state` and `arrays`; other arrays may be among them."""
        buffer: list[dict] = []
        for key in (key for key in arrays if key.startswith("buffer/")):
            _, i, name = key.split("/")
            buffer.extend({} for _ in range(int(i) + 1 - len(buffer)))
            buffer[int(i)][name] = arrays[key]
        return cls(**{**state, "buffer": buffer, "statistics": Statistics.restore(arrays)})


def environment_identity(env, env_kwargs):
    """Gymnasium id and arguments by which an environment can be made again; no id where there is no such way.

    Raises:
        ValueError: if the arguments cannot be written down as JSON. Numbers and arrays of numpy can.
    """
    env_id, kwargs = _identity(env, env_kwargs)
    return env_id, _written(kwargs)


def _written(kwargs):
    try:
        json.dumps(kwargs)
        return kwargs
    except TypeError:
        pass
    try:
        return json.loads(json.dumps(kwargs, default=lambda value: value.tolist()))
    except (TypeError, AttributeError, ValueError) as error:
        raise ValueError(
            "The arguments of an environment are kept with the run, as JSON. Accepted are numbers, words, lists, dicts "
            f"and numpy arrays; a factory takes any. Received: {kwargs!r}"
        ) from error


def _identity(env, env_kwargs):
    if isinstance(env, str):
        return envs.resolve(env), env_kwargs
    env_id, kwargs = envs.identity(env)
    registered = gymnasium.registry.get(env_id or "")
    if registered is None:
        return None, env_kwargs
    kwargs = {**kwargs, **env_kwargs}
    kwargs.pop("render_mode", None)
    limit = getattr(env, "spec", env).max_episode_steps
    if limit != registered.max_episode_steps:
        kwargs.setdefault("max_episode_steps", limit)
    return env_id, kwargs
