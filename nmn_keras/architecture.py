"""What a network is made of: the `Architecture` dataclass, checked and ready for JSON."""

import dataclasses
import functools
import math
from typing import Any

import numpy as np

from nmn_keras import envs, spaces
from nmn_keras.action_heads import HEADS, Head
from nmn_keras.cells import CELLS
from nmn_keras.layers import get_activation
from nmn_keras.periodic import circle

KINDS = ("nmn", "rnn", "film", "hyper")
INITIALIZERS = ("normal", "orthogonal")
WITH_SIGNAL = ("nmn", "hyper")
"""Kinds with a dense layer between recurrent cells and main network."""


@dataclasses.dataclass(frozen=True)
class Architecture:
    """What a network is made of and how its numbers map to the environment's."""

    kind: str
    """"nmn" (neuromodulated), "rnn" (the baseline), "film" (modulated by the recurrent state itself) or "hyper" (a
    recurrent hypernetwork); see `nmn_keras.networks`."""
    observation_size: int
    """O, length of the observation vector."""
    action_size: int
    """A, length of the action vector."""
    gru_units: tuple[int, ...] = (50,)
    """Units of each recurrent cell, first to last; at least one."""
    signal_units: int = 20
    """k, size of the neuromodulatory signal z (NMN) or of the embedding (hypernetwork); 0 for the others."""
    signal_activation: str = "relu"
    """Activation of the layer that gives z or the embedding."""
    hidden_units: tuple[int, ...] = (10,)
    """Units of the main network's hidden layers, or of the MLP after the cells (RNN); may be empty."""
    activation: str = "srelu"
    """Activation of the hidden layers: "srelu" or any Keras name."""
    observation_period: float | None = None
    """Period of every observation, environment units: the network sees cosine and sine of each; None = not periodic."""
    action_low: tuple[float | None, ...] | None = None
    """Lower bounds of the action space, environment units; None = unbounded."""
    action_high: tuple[float | None, ...] | None = None
    """Upper bounds of the action space, environment units; None = unbounded."""
    action_scale: tuple[float, ...] | None = None
    """Environment units per network unit; None = 1."""
    action_offset: tuple[float, ...] | None = None
    """Environment action at network output 0; None = 0."""
    action_head: str = "gaussian"
    """"gaussian" (the paper's), "direction" (a periodic action as the angle of a vector) or "categorical" (choices)."""
    action_period: float | None = None
    """Period of a periodic action, environment units: actions are wrapped, not clipped; None = not periodic."""
    feedback_scale: float = 1.0
    """Factor on the action fed back to the network."""
    reward_scale: float = 1.0
    """Factor on the reward fed back to the network."""
    log_var_offset: float = -1.0
    """Constant added to the log-variance output (the authors' code)."""
    log_var_min: float | None = None
    """Lower bound of the log-variance, network units squared; None = unbounded."""
    log_var_max: float | None = None
    """Upper bound of the log-variance, network units squared; None = unbounded."""
    cell: str = "gru"
    """Recurrent cell: "gru" or "nbrc" (bistable)."""
    shared_modulation: bool = False
    """Whether the neurons of a hidden layer share one gain and one shift (NMN, FiLM), the paper's own suggestion."""
    action_sizes: tuple[int, ...] | None = None
    """Number of choices of each action dimension under the categorical head; None = real numbers."""

    normalise_observations: bool = False
    """Whether the network sees observations less their mean over their deviation in training, clipped at 10."""
    normalise_rewards: bool = False
    """Whether rewards, fed back and learnt from, are divided by the deviation of the discounted return in training."""
    initializer: str = "normal"
    """First weights: "normal" (the authors': deviation 0.1) or "orthogonal"."""
    output_gain: float = 1.0
    """Factor on the last layer's first weights under "orthogonal"; small, a fresh policy prefers no action."""

    def __post_init__(self):
        _check_architecture(self)

    @functools.cached_property
    def head(self) -> Head:
        """The action head."""
        return HEADS[self.action_head](self)

    @property
    def policy_units(self) -> int:
        """Length of the actor's output."""
        return self.head.outputs

    @property
    def seen_size(self) -> int:
        """Length of what the network sees of an observation."""
        return self.observation_size if self.observation_period is None else 2 * self.observation_size

    def see(self, observation):
        """What the network sees of observations `(..., O)`: themselves, or points on circles if they are periodic."""
        return observation if self.observation_period is None else circle(observation, self.observation_period)

    @property
    def delays_observation(self) -> bool:
        """Whether the cells see the previous observation (NMN) instead of the present one."""
        return self.kind == "nmn"

    @property
    def state_layout(self) -> tuple[tuple[str, int], ...]:
        """`(part, size)` of the packed state, in order."""
        previous = (("prev_observation", self.seen_size),) if self.delays_observation else ()
        return previous + tuple((f"{self.cell}_{i}", units) for i, units in enumerate(self.gru_units))

    @property
    def state_size(self) -> int:
        """S, length of the packed state."""
        return sum(size for _, size in self.state_layout)

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of the action, environment units, infinite where there is none: `(A,), (A,)`."""
        low = self.action_low or (None,) * self.action_size
        high = self.action_high or (None,) * self.action_size
        return (
            np.asarray([-math.inf if bound is None else bound for bound in low], "float32"),
            np.asarray([math.inf if bound is None else bound for bound in high], "float32"),
        )

    def scaling(self) -> tuple[np.ndarray, np.ndarray]:
        """Scale and offset from network to environment units: `(A,), (A,)`."""
        scale = self.action_scale or (1.0,) * self.action_size
        offset = self.action_offset or (0.0,) * self.action_size
        return np.asarray(scale, "float32"), np.asarray(offset, "float32")

    def to_environment(self, action, xp=np):
        """Network action `(..., A)` to environment units, inside the action space: wrapped if periodic, else clipped.

        `xp` is the array module: numpy, or `keras.ops` inside a graph.
        """
        scale, offset = self.scaling()
        # Functions, not operators: torch tensors and numpy arrays do not mix in an expression.
        action = xp.add(xp.multiply(action, scale), offset)
        if self.action_period is not None:
            low = self.bounds()[0]
            low = np.where(np.isfinite(low), low, offset - scale)
            action = xp.add(xp.mod(xp.subtract(action, low), np.float32(self.action_period)), low)
        return xp.clip(action, *self.bounds())

    @classmethod
    def for_env(cls, env, kind: str = "nmn", env_kwargs: dict | None = None, **fields) -> "Architecture":
        """An architecture with an environment's sizes and bounds, and the paper's first network's layers.

        Where a real action is bounded on both sides, network outputs -1 to 1 span its range; elsewhere the scale is 1.
        That an action is periodic no space says: give `action_period`, and "direction" as `action_head`. Discrete
        actions get the categorical head.

        Args:
            env: short name, Gymnasium id, spec, environment with a spec, vector environment, or factory.
            kind: see the field.
            env_kwargs: arguments of the environment.
            **fields: any field of the class, instead of what is derived.

        Raises:
            ValueError: if a space is not supported, see `nmn_keras.spaces.describe`.
        """
        with envs.open_any(env, **(env_kwargs or {})) as made:
            found = spaces.describe(made)
        layers = FIRST_LAYERS.get(kind, {})
        chosen: dict[str, Any] = {**layers, "kind": kind, **_from_spaces(found), **fields}
        return cls(**chosen)

    def get_config(self) -> dict:
        """The fields, ready for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_config(cls, config: dict) -> "Architecture":
        """The inverse of `get_config`; lists become tuples.

        Raises:
            ValueError: for fields that an architecture does not have.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        if unknown := set(config) - known:
            raise ValueError(
                f"Unknown fields of an Architecture: {sorted(unknown)}. Known: {sorted(known)}. Received: {config!r}"
            )
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in config.items()}
        return cls(**fields)


FIRST_LAYERS: dict[str, dict[str, Any]] = {
    "nmn": {"gru_units": (50,), "signal_units": 20, "hidden_units": (10,)},
    "rnn": {"gru_units": (50,), "signal_units": 0, "hidden_units": (20, 10), "activation": "relu"},
    "film": {"gru_units": (50,), "signal_units": 0, "hidden_units": (13,)},
    "hyper": {"gru_units": (50,), "signal_units": 17, "hidden_units": (10,)},
}
"""Layers of the paper's networks for its first benchmark, by kind, and of the others at as many parameters."""


def _from_spaces(found: spaces.Spaces) -> dict[str, Any]:
    low, high = found.action_low, found.action_high
    bounded = np.isfinite(low) & np.isfinite(high)
    with np.errstate(invalid="ignore"):  # inf - inf where the range is not used
        scale, offset = np.where(bounded, (high - low) / 2, 1.0), np.where(bounded, (high + low) / 2, 0.0)
    discrete = found.action_sizes is not None
    if discrete:  # in network units choices are counted from 0
        scale, offset = np.ones_like(low), low
    return {
        "observation_size": len(found.observation_low),
        "action_size": len(low),
        "action_head": "categorical" if discrete else "gaussian",
        "action_sizes": found.action_sizes,
        "action_low": tuple(float(x) if np.isfinite(x) else None for x in low),
        "action_high": tuple(float(x) if np.isfinite(x) else None for x in high),
        "action_scale": tuple(scale.tolist()),
        "action_offset": tuple(offset.tolist()),
    }


def _check_architecture(arch: Architecture) -> None:
    for name, accepted in (
        ("kind", KINDS),
        ("action_head", tuple(HEADS)),
        ("cell", tuple(CELLS)),
        ("initializer", INITIALIZERS),
    ):
        if getattr(arch, name) not in accepted:
            raise ValueError(f"`{name}` must be one of {accepted}. Received: {name}={getattr(arch, name)!r}")
    _check_sizes(arch)
    _check_action(arch)
    _check_numbers(arch)
    get_activation(arch.activation)
    get_activation(arch.signal_activation)


def _check_sizes(arch):
    for name in ("gru_units", "hidden_units"):
        if not isinstance(getattr(arch, name), tuple):
            raise TypeError(f"`{name}` must be a tuple. Received: {name}={getattr(arch, name)!r}")
    if not arch.gru_units:
        raise ValueError("`gru_units` needs at least one cell. Received: gru_units=()")
    sizes = (arch.observation_size, arch.action_size, *arch.gru_units, *arch.hidden_units)
    if not all(_is_integer(size) and size > 0 for size in sizes):
        raise ValueError(
            "`observation_size`, `action_size`, `gru_units` and `hidden_units` must be positive "
            f"integers. Received: {sizes}"
        )
    units = arch.signal_units
    if not _is_integer(units) or units < 0 or (units > 0) != (arch.kind in WITH_SIGNAL):
        raise ValueError(
            f"`signal_units` must be a positive integer for the kinds {WITH_SIGNAL} and 0 for the others. "
            f"Received: kind={arch.kind!r}, signal_units={units!r}"
        )
    for name in ("normalise_observations", "normalise_rewards"):
        if not isinstance(getattr(arch, name), bool):
            raise ValueError(f"`{name}` must be True or False. Received: {name}={getattr(arch, name)!r}")
    if arch.normalise_observations and arch.observation_period is not None:
        raise ValueError(
            "Periodic observations are seen as points on circles, which need no normalisation: give either "
            "`observation_period` or `normalise_observations`. "
            f"Received: observation_period={arch.observation_period!r}, normalise_observations=True"
        )
    if arch.shared_modulation not in (False, True) or (arch.shared_modulation and arch.kind not in ("nmn", "film")):
        raise ValueError(
            "`shared_modulation` must be False, or True where a signal modulates, in the kinds ('nmn', 'film'). "
            f"Received: kind={arch.kind!r}, shared_modulation={arch.shared_modulation!r}"
        )


def _check_action(arch):
    for name in ("action_low", "action_high", "action_scale", "action_offset"):
        value = getattr(arch, name)
        if value is not None and not (isinstance(value, tuple) and len(value) == arch.action_size):
            raise ValueError(
                f"`{name}` needs a tuple of one number per action dimension ({arch.action_size}). "
                f"Received: {name}={value!r}"
            )
    low, high = arch.bounds()
    scale, offset = arch.scaling()
    if arch.action_head == "categorical":
        _check_choices(arch, low, high, scale, offset)
        return
    if arch.action_sizes is not None:
        raise ValueError(
            "`action_sizes` is for the categorical head alone. "
            f"Received: action_head={arch.action_head!r}, action_sizes={arch.action_sizes!r}"
        )
    if not (low < high).all() or not (np.isfinite(scale) & (scale != 0.0) & np.isfinite(offset)).all():
        raise ValueError(
            "`action_low` must lie below `action_high`, `action_scale` must be finite and not 0, `action_offset` "
            f"finite. Received: {low}, {high}, {scale}, {offset}"
        )
    if arch.head.period is not None and not (
        arch.action_period is not None and np.allclose(arch.head.period * abs(scale), arch.action_period, rtol=1e-6)
    ):
        raise ValueError(
            f"The action head {arch.action_head!r} needs an `action_period` of {arch.head.period} times "
            f"`action_scale`. Received: action_period={arch.action_period!r}, action_scale={arch.action_scale!r}"
        )
    span = high - low
    if arch.action_period is not None and not (np.isinf(span) | np.isclose(span, arch.action_period)).all():
        raise ValueError(
            "The bounds of a periodic action must be one period apart, or infinite. "
            f"Received: action_period={arch.action_period!r}, bounds {low} to {high}"
        )


def _check_choices(arch, low, high, scale, offset):
    """Actions of the categorical head are whole numbers from `action_low` to `action_high`, an offset from 0."""
    sizes = arch.action_sizes
    if not (
        isinstance(sizes, tuple) and len(sizes) == arch.action_size and all(_is_integer(n) and n > 0 for n in sizes)
    ):
        raise ValueError(
            "The categorical head needs `action_sizes`, a tuple of one positive integer per action dimension "
            f"({arch.action_size}). Received: action_sizes={sizes!r}"
        )
    whole = (offset == np.round(offset)).all() and (scale == 1.0).all() and arch.action_period is None
    if not whole or not ((low == offset) & (high == offset + np.asarray(sizes) - 1)).all():
        raise ValueError(
            "Under the categorical head `action_offset` is the number of the first choice, `action_scale` 1, "
            "`action_low` the offset, `action_high` the last choice, and nothing is periodic (`Architecture.for_env` "
            f"sets them). Received: {low}, {high}, {scale}, {offset}, action_period={arch.action_period!r}"
        )


def _check_numbers(arch):
    for name in ("observation_period", "action_period", "feedback_scale", "output_gain"):
        value = getattr(arch, name)
        if value is not None and not (math.isfinite(value) and value > 0.0):
            raise ValueError(f"`{name}` must be positive and finite. Received: {name}={value!r}")
    least = -math.inf if arch.log_var_min is None else arch.log_var_min
    most = math.inf if arch.log_var_max is None else arch.log_var_max
    if not least < most:
        raise ValueError(
            "`log_var_min` must lie below `log_var_max`. "
            f"Received: log_var_min={arch.log_var_min!r}, log_var_max={arch.log_var_max!r}"
        )


def _is_integer(value):
    return isinstance(value, int) and not isinstance(value, bool)
