"""What all kinds of network share: recurrent cells, their inputs, the packed state, one step and a sequence."""

import keras
import numpy as np
from keras import ops

from nmn_keras.architecture import Architecture
from nmn_keras.cells import CELLS
from nmn_keras.layers import NMNDense, get_activation
from nmn_keras.normalisation import Scale, Standardise


class RecurrentNetwork(keras.Model):
    """One-step model and sequence call over the same weights; base of every kind of network.

    `call` is one step, `(observation (N, O), prev_action (N, A), prev_reward (N, 1), state (N, S))` to
    `(output (N, output_units), state (N, S))`. `sequence` is the same over a time-major sequence.

    A kind is what it makes of the observation and the last cell's state: `_create_readout` creates its layers,
    `_readout(seen, context)` gives output and signal (None if it has none).

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
        self.standardise = (
            Standardise(name="standardise", dtype="float32") if architecture.normalise_observations else None
        )
        self.scale = Scale(name="scale_reward", dtype="float32") if architecture.normalise_rewards else None
        cell = CELLS[architecture.cell]
        self.cells = [
            # A memory carries its rounding over hundreds of steps: float32 under a mixed precision too.
            cell(
                units,
                self._initializer(units=units),
                self._initializer(units=units),
                name=f"modulator_{architecture.cell}_{i}",
                dtype="float32",
            )
            for i, units in enumerate(architecture.gru_units)
        ]
        self._create_readout()
        self._build_weights()

    def see(self, observation):
        """What the network sees of observations `(..., O)`: normalised if it does that, on circles if periodic."""
        return self.architecture.see(observation) if self.standardise is None else self.standardise(observation)

    def scaled(self, reward):
        """Rewards in the unit in which the network gets and values them: themselves if none is normalised."""
        return reward if self.scale is None else self.scale(reward)

    def assume(self, statistics) -> None:
        """Freeze a run's statistics into the weights."""
        if self.standardise is not None:
            self.standardise.mean.assign(np.asarray(statistics.observation.mean, "float32"))
            self.standardise.factor.assign(np.asarray(statistics.observation.factor(), "float32"))
        if self.scale is not None:
            self.scale.factor.assign(np.asarray(statistics.discounted_return.factor(), "float32"))

    def _initializer(self, gain=1.0, units=None):
        """What the architecture says, drawn by numpy: Keras's own draw other numbers on each backend from one seed.

        "normal" is the authors', truncated with deviation 0.1; "orthogonal" has singular values `gain` in each block of
        `units` columns (None: in the whole).
        """
        if self.architecture.initializer == "orthogonal":
            return lambda shape, dtype=None: ops.convert_to_tensor(gain * self._orthogonal(shape, units), dtype=dtype)

        def draw(shape, dtype=None):
            normal = self._generator.normal(size=shape)
            while (outside := np.abs(normal) > 2.0).any():
                normal[outside] = self._generator.normal(size=int(outside.sum()))
            return ops.convert_to_tensor(0.1 * normal, dtype=dtype)

        return draw

    def _orthogonal(self, shape, units):
        """Matrices side by side, `units` columns each, whose rows or columns are orthonormal (Saxe et al. 2014)."""
        rows, columns = shape
        width, drawn = units or columns, []
        for _ in range(columns // width):
            q, r = np.linalg.qr(self._generator.normal(size=(max(rows, width), min(rows, width))))
            q = q * np.sign(np.diagonal(r))
            drawn.append(q if rows >= width else q.T)
        return np.concatenate(drawn, axis=1)

    def _main_layers(self, layer, initializers, **of_hidden):
        """Hidden layers and the linear output.

        Args:
            layer: class of the layers.
            initializers: names of arguments that get an initialiser.
            **of_hidden: further arguments of the hidden layers.
        """
        a = self.architecture
        layers, hidden = [], {"activation": get_activation(a.activation), **of_hidden}
        for i, units in enumerate((*a.hidden_units, self.output_units)):
            last = i == len(a.hidden_units)
            drawn = {name: self._initializer(a.output_gain if last else 2.0**0.5) for name in initializers}
            further = hidden if i < len(a.hidden_units) else {}
            layers.append(layer(units, name=f"main_{i}", **drawn, **further))
        return layers

    def _modulated_layers(self):
        """Main layers whose gain and bias a signal sets; where neurons share them, those of the output do not."""
        # Mean and log-variance are layers of their own in the paper, of one neuron each: there is nothing to share.
        initializers = ("kernel_initializer", "scale_initializer", "shift_initializer")
        return self._main_layers(NMNDense, initializers, shared=self.architecture.shared_modulation)

    def _signal_layer(self):
        """The dense layer that gives the signal."""
        a = self.architecture
        activation = get_activation(a.signal_activation)
        return keras.layers.Dense(a.signal_units, activation, kernel_initializer=self._initializer(), name="signal")

    def _run_main(self, seen, signal):
        """The main network's output for an observation under a signal."""
        y = seen
        for layer in self.main:
            y = layer(y, signal)
        return y

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
        seen = self.see(observation)
        y = self._feedback(seen, previous, prev_action, prev_reward)
        advanced = []
        for cell, h in zip(self.cells, hidden, strict=True):
            y, (h,) = cell(y, [h])
            advanced.append(h)
        output, signal = self._readout(seen, y)
        return _float32(output), signal if signal is None else _float32(signal), self._pack(seen, advanced)

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
        seen = self.see(observation)
        previous = None
        if first is not None:
            previous = ops.multiply(ops.concatenate([ops.expand_dims(first, 0), seen[:-1]], 0), keep)
        y = self._feedback(seen, previous, prev_action, prev_reward)
        states = []
        for cell, h in zip(self.cells, hidden, strict=True):
            y = cell.sequence(y, h, keep)
            states.append(y)
        output, _ = self._readout(seen, y)
        return _float32(output), self._pack(seen, states)

    def _unpack(self, state):
        """Packed state to (previous observation or None, list of the cells' states)."""
        parts, offset = [], 0
        for _, size in self.architecture.state_layout:
            parts.append(state[..., offset : offset + size])
            offset += size
        return (parts[0], parts[1:]) if self.architecture.delays_observation else (None, parts)

    def _pack(self, seen, states):
        """The inverse: what is seen now and the cells' states to a packed state."""
        parts = [seen, *states] if self.architecture.delays_observation else states
        return _float32(parts[0] if len(parts) == 1 else ops.concatenate(parts, axis=-1))

    def _feedback(self, seen, previous, prev_action, prev_reward):
        """The cells' input: observation of the network's kind, last action and reward, scaled."""
        a = self.architecture
        seen = seen if previous is None else previous
        played = a.head.feedback(prev_action)
        scaled = [_scale(played, a.feedback_scale), _scale(self.scaled(prev_reward), a.reward_scale)]
        return ops.concatenate([seen, *scaled], axis=-1)


def _float32(x):
    """What leaves a network, whatever its layers compute in: probabilities and returns need the precision."""
    return ops.cast(x, "float32")


def _scale(x, factor):
    """`x * factor`, without a node in the exported graph where there is nothing to do."""
    return x if factor == 1.0 else x * factor
