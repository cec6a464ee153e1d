"""Networks: an `Architecture` becomes a one-step model and a sequence call over the same weights.

Both kinds of network read the observation `x_t` and what came back from the last step. In an NMN a GRU modulator fed
`[x_{t-1}, a_{t-1}, r_{t-1}]` gives a signal z that modulates every layer of a main network fed `x_t` alone; the RNN
baseline feeds `[x_t, a_{t-1}, r_{t-1}]` to the GRUs and then a plain MLP. Vecoven et al. 2020, figures 2 and 3.

Everything an agent remembers is one packed vector `state (N, S)`, zeros before the first step.
"""

import dataclasses
import math
from typing import Any

import keras
import numpy as np
from keras import ops

from nmn_keras import envs, spaces
from nmn_keras.layers import ModulatorGRUCell, NMNDense, srelu

KINDS = ("nmn", "rnn")


@dataclasses.dataclass(frozen=True)
class Architecture:
    """What a network is made of and how its numbers map to the environment's."""

    kind: str
    """"nmn" (neuromodulated) or "rnn" (the baseline)."""
    observation_size: int
    """O, length of the observation vector."""
    action_size: int
    """A, length of the action vector."""
    gru_units: tuple[int, ...] = (50,)
    """Units of each GRU, first to last; at least one."""
    signal_units: int = 20
    """k, size of the neuromodulatory signal z; 0 for an RNN, which has none."""
    signal_activation: str = "relu"
    """Activation of the layer that gives z."""
    hidden_units: tuple[int, ...] = (10,)
    """Units of the main network's hidden layers (NMN) or of the MLP after the GRUs (RNN); may be empty."""
    activation: str = "srelu"
    """Activation of the hidden layers: "srelu" or any Keras name."""
    action_low: tuple[float | None, ...] | None = None
    """Lower bounds of the action space, environment units; None = unbounded."""
    action_high: tuple[float | None, ...] | None = None
    """Upper bounds of the action space, environment units; None = unbounded."""
    action_scale: tuple[float, ...] | None = None
    """Environment units per network unit; None = 1."""
    action_offset: tuple[float, ...] | None = None
    """Environment action at network output 0; None = 0."""
    action_period: float | None = None
    """Period of a periodic action, environment units: the fed-back action is taken modulo it."""
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

    def __post_init__(self):
        _check_architecture(self)

    @property
    def state_layout(self) -> tuple[tuple[str, int], ...]:
        """`(part, size)` of the packed state, in order."""
        previous = (("prev_observation", self.observation_size),) if self.kind == "nmn" else ()
        return previous + tuple((f"gru_{i}", units) for i, units in enumerate(self.gru_units))

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
        """Network action `(..., A)` to environment units, clipped to the action space.

        `xp` is the array module: numpy, or `keras.ops` inside a graph.
        """
        scale, offset = self.scaling()
        # Functions, not operators: torch tensors and numpy arrays do not mix in an expression.
        return xp.clip(xp.add(xp.multiply(action, scale), offset), *self.bounds())

    @classmethod
    def for_env(cls, env, kind: str = "nmn", env_kwargs: dict | None = None, **fields) -> "Architecture":
        """An architecture with an environment's sizes and bounds, and the paper's first network's layers.

        Where an action is bounded on both sides, network outputs -1 to 1 span its range; elsewhere the scale is 1.

        Args:
            env: short name, Gymnasium id, spec, environment with a spec, or factory.
            kind: "nmn" or "rnn".
            env_kwargs: arguments of the environment.
            **fields: any field of the class, instead of what is derived.

        Raises:
            ValueError: if the spaces are not one-dimensional Boxes.
        """
        made = envs.make(env, **(env_kwargs or {}))
        try:
            found = spaces.describe(made)
        finally:
            made.close()
        layers = _B1_NMN if kind == "nmn" else _B1_RNN
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


def _from_spaces(found: spaces.Spaces) -> dict[str, Any]:
    low, high = found.action_low, found.action_high
    bounded = np.isfinite(low) & np.isfinite(high)
    with np.errstate(invalid="ignore"):  # inf - inf where the range is not used
        scale, offset = np.where(bounded, (high - low) / 2, 1.0), np.where(bounded, (high + low) / 2, 0.0)
    return {
        "observation_size": len(found.observation_low),
        "action_size": len(low),
        "action_low": tuple(float(x) if np.isfinite(x) else None for x in low),
        "action_high": tuple(float(x) if np.isfinite(x) else None for x in high),
        "action_scale": tuple(scale.tolist()),
        "action_offset": tuple(offset.tolist()),
    }


def _check_architecture(arch: Architecture) -> None:
    if arch.kind not in KINDS:
        raise ValueError(f"`kind` must be one of {KINDS}. Received: kind={arch.kind!r}")
    if not arch.gru_units:
        raise ValueError("`gru_units` needs at least one GRU. Received: gru_units=()")
    sizes = (arch.observation_size, arch.action_size, *arch.gru_units, *arch.hidden_units)
    if any(isinstance(s, bool) or not isinstance(s, int) or s < 1 for s in sizes):
        raise ValueError(
            "`observation_size`, `action_size`, `gru_units` and `hidden_units` must be positive "
            f"integers. Received: {sizes}"
        )
    if (arch.signal_units > 0) != (arch.kind == "nmn"):
        raise ValueError(
            "`signal_units` must be positive for an NMN and 0 for an RNN. "
            f"Received: kind={arch.kind!r}, signal_units={arch.signal_units!r}"
        )
    for name in ("action_low", "action_high", "action_scale", "action_offset"):
        value = getattr(arch, name)
        if value is not None and len(value) != arch.action_size:
            raise ValueError(
                f"`{name}` needs one number per action dimension ({arch.action_size}). Received: {name}={value!r}"
            )
    _activation(arch.activation)
    _activation(arch.signal_activation)


def _activation(name):
    return srelu if name == "srelu" else keras.activations.get(name)


class RecurrentNetwork(keras.Model):
    """One-step model and sequence call over the same weights; base of `NMN` and `RNN`.

    `call` is one step, `(observation (N, O), prev_action (N, A), prev_reward (N, 1), state (N, S))` to
    `(output (N, output_units), state (N, S))`. `sequence` is the same over a time-major sequence.

    Args:
        architecture: the `Architecture`.
        output_units: length of the linear output.
        seed: integer from which all initial weights follow, the same on every backend.
    """

    def __init__(self, architecture: Architecture, output_units: int, seed: int = 0, **kwargs):
        super().__init__(**kwargs)
        self.architecture = architecture
        self.output_units = output_units
        self._generator = np.random.default_rng(seed)
        self.cells = [
            ModulatorGRUCell(units, self._initializer(), self._initializer(), name=f"modulator_gru_{i}")
            for i, units in enumerate(architecture.gru_units)
        ]
        self._create_readout()
        self._build_weights()

    def _initializer(self):
        """Truncated normal with deviation 0.1 (the authors' code), drawn by numpy.

        Keras's own initialisers draw other numbers on each backend from one seed.
        """

        def draw(shape, dtype=None):
            normal = self._generator.normal(size=shape)
            while (outside := np.abs(normal) > 2.0).any():
                normal[outside] = self._generator.normal(size=int(outside.sum()))
            return ops.convert_to_tensor(0.1 * normal, dtype=dtype)

        return draw

    def _build_weights(self):
        a = self.architecture
        sizes = (a.observation_size, a.action_size, 1, a.state_size)
        self(*(np.zeros((1, size), "float32") for size in sizes))

    def call(self, observation, prev_action, prev_reward, state):
        """One step; see the class docstring."""
        output, _, state = self.step(observation, prev_action, prev_reward, state)
        return output, state

    def step(self, observation, prev_action, prev_reward, state):
        """One step that also gives the signal: `(output, z (N, k) or None, state)`."""
        previous, hidden = self._unpack(state)
        y = self._feedback(observation, previous, prev_action, prev_reward)
        advanced = []
        for cell, h in zip(self.cells, hidden, strict=True):
            y, (h,) = cell(y, [h])
            advanced.append(h)
        output, signal = self._readout(observation, y)
        return output, signal, self._pack(observation, advanced)

    def sequence(self, observation, prev_action, prev_reward, state, keep):
        """Run over a time-major sequence; equals iterating `step`.

        Args:
            observation: `(T, N, O)`.
            prev_action: `(T, N, A)`, environment units, zero where an episode begins.
            prev_reward: `(T, N, 1)`, zero where an episode begins.
            state: `(N, S)`, the packed state before the first step.
            keep: `(T, N, 1)`, 0 where a new episode begins (memory is zeroed before that step), else 1.

        Returns:
            output `(T, N, output_units)` and the packed states after each step `(T, N, S)`.
        """
        first, hidden = self._unpack(state)
        previous = None
        if first is not None:
            previous = ops.concatenate([ops.expand_dims(first, 0), observation[:-1]], 0) * keep
        y = self._feedback(observation, previous, prev_action, prev_reward)
        states = []
        for cell, h in zip(self.cells, hidden, strict=True):
            y = cell.sequence(y, h, keep)
            states.append(y)
        output, _ = self._readout(observation, y)
        return output, self._pack(observation, states)

    def _unpack(self, state):
        """Packed state to (previous observation or None, list of GRU states)."""
        parts, offset = [], 0
        for _, size in self.architecture.state_layout:
            parts.append(state[..., offset : offset + size])
            offset += size
        return (parts[0], parts[1:]) if self.architecture.kind == "nmn" else (None, parts)

    def _feedback(self, observation, previous, prev_action, prev_reward):
        """The GRUs' input: observation of the network's kind, last action and reward, scaled."""
        a = self.architecture
        if a.action_period is not None:
            prev_action = ops.mod(prev_action, a.action_period)
        seen = observation if previous is None else previous
        scaled = [_scale(prev_action, a.feedback_scale), _scale(prev_reward, a.reward_scale)]
        return ops.concatenate([seen, *scaled], axis=-1)


def _scale(x, factor):
    """`x * factor`, without a node in the exported graph where there is nothing to do."""
    return x if factor == 1.0 else x * factor


class NMN(RecurrentNetwork):
    """The neuromodulated network (Vecoven et al. 2020, figure 3)."""

    def _create_readout(self):
        a = self.architecture
        self.signal = keras.layers.Dense(
            a.signal_units,
            activation=_activation(a.signal_activation),
            kernel_initializer=self._initializer(),
            name="signal",
        )
        units = (*a.hidden_units, self.output_units)
        activations = (*(_activation(a.activation),) * len(a.hidden_units), None)
        self.main = [
            NMNDense(
                n,
                activation,
                kernel_initializer=self._initializer(),
                scale_initializer=self._initializer(),
                shift_initializer=self._initializer(),
                name=f"main_{i}",
            )
            for i, (n, activation) in enumerate(zip(units, activations, strict=True))
        ]

    def _readout(self, observation, context):
        z = self.signal(context)
        y = observation
        for layer in self.main:
            y = layer(y, z)
        return y, z

    def _pack(self, observation, hidden):
        return ops.concatenate([observation, *hidden], axis=-1)


class RNN(RecurrentNetwork):
    """The recurrent baseline (Vecoven et al. 2020, figure 2)."""

    def _create_readout(self):
        a = self.architecture
        units = (*a.hidden_units, self.output_units)
        activations = (*(_activation(a.activation),) * len(a.hidden_units), None)
        self.main = [
            keras.layers.Dense(n, activation, kernel_initializer=self._initializer(), name=f"main_{i}")
            for i, (n, activation) in enumerate(zip(units, activations, strict=True))
        ]

    def _readout(self, observation, context):
        y = context
        for layer in self.main:
            y = layer(y)
        return y, None

    def _pack(self, observation, hidden):
        return ops.concatenate(hidden, axis=-1) if len(hidden) > 1 else hidden[0]


def build_network(architecture: Architecture, output_units: int, seed: int = 0, **kwargs):
    """The network of the architecture's kind with fresh weights."""
    network = {"nmn": NMN, "rnn": RNN}[architecture.kind]
    return network(architecture, output_units, seed, **kwargs)


def split_policy(architecture: Architecture, output):
    """Actor output `(..., 2A)` to mean and log-variance, `(..., A)` each, network units."""
    mean = output[..., : architecture.action_size]
    log_var = output[..., architecture.action_size :] + architecture.log_var_offset
    if architecture.log_var_min is not None:
        log_var = ops.maximum(log_var, architecture.log_var_min)
    if architecture.log_var_max is not None:
        log_var = ops.minimum(log_var, architecture.log_var_max)
    return mean, log_var


def count_parameters(architecture: Architecture) -> dict[str, int]:
    """Trainable parameters of actor and critic: `{"actor": n, "critic": n}`."""
    outputs = {"actor": 2 * architecture.action_size, "critic": 1}
    return {role: build_network(architecture, n).count_params() for role, n in outputs.items()}


_B1: dict[str, Any] = {
    "observation_size": 1,
    "action_size": 1,
    "gru_units": (50,),
    "action_low": (-20.0,),
    "action_high": (20.0,),
    "action_scale": (5.0,),
}
# Actions of b2 and b3 are directions in half-turns; the authors feed back the angle in [0, 2 pi).
_DIRECTION: dict[str, Any] = {
    "action_size": 1,
    "gru_units": (100, 75),
    "action_period": 2.0,
    "feedback_scale": math.pi,
}
_B1_NMN: dict[str, Any] = {"kind": "nmn", "signal_units": 20, "hidden_units": (10,)}
_B1_RNN: dict[str, Any] = {"kind": "rnn", "signal_units": 0, "hidden_units": (20, 10), "activation": "relu"}
_DEEP_NMN: dict[str, Any] = {"kind": "nmn", "signal_units": 45, "hidden_units": (30, 10)}
_DEEP_RNN: dict[str, Any] = {"kind": "rnn", "signal_units": 0, "hidden_units": (45, 30, 10)}

ARCHITECTURES = {
    "b1-nmn": Architecture(**_B1_NMN, **_B1),
    "b1-rnn": Architecture(**_B1_RNN, **_B1),
    "b2-nmn": Architecture(observation_size=2, **_DEEP_NMN, **_DIRECTION),
    "b2-rnn": Architecture(observation_size=2, **_DEEP_RNN, **_DIRECTION),
    "b3-nmn": Architecture(observation_size=4, **_DEEP_NMN, **_DIRECTION),
    "b3-rnn": Architecture(observation_size=4, **_DEEP_RNN, **_DIRECTION),
}
"""The paper's networks (Table "architectures" and the authors' code), by zoo name."""
