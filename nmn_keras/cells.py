"""Cells of the modulator: a GRU and a bistable cell, one step or a whole sequence over the same weights.

Everything here is `keras.ops` only, but for a cell over a sequence on JAX (`nmn_keras.recurrence`).
"""

from typing import Any, ClassVar

import keras
from keras import ops

from nmn_keras import gru, nbrc, recurrence
from nmn_keras.layers import positive_units


class ModulatorCell(keras.layers.Layer):
    """What the cells share: weights, one step, and a time-major sequence.

    A cell has the interface of a Keras cell (so `keras.layers.RNN(ModulatorGRUCell(50))` works) and adds `sequence`.

    Call arguments:
        inputs: `(N, I)`.
        states: `(N, units)`, or a list holding it.

    Returns:
        `(output (N, units), [state (N, units)])`.

    Args:
        units: number of units, a positive integer.
        kernel_initializer: for `kernel (I, 3 * units)`.
        recurrent_initializer: for `recurrent_kernel`.
        bias_initializer: for `bias`.
    """

    equations: ClassVar[Any]
    """Module of `advance` and `retreat`."""
    recurrent_blocks: ClassVar[int]
    """Blocks of `units` columns in the recurrent kernel."""
    bias_blocks: ClassVar[int]
    """Blocks of `units` numbers in the bias: for the first columns of the projected inputs."""

    def __init__(
        self,
        units,
        kernel_initializer="glorot_uniform",
        recurrent_initializer="orthogonal",
        bias_initializer="zeros",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.units = positive_units(units, type(self).__name__)
        self.state_size = self.output_size = self.units
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.recurrent_initializer = keras.initializers.get(recurrent_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)

    def build(self, input_shape):
        """Create `kernel`, `recurrent_kernel` and `bias`."""
        units = self.units
        recurrent = (units, self.recurrent_blocks * units)
        self.kernel = self.add_weight((input_shape[-1], 3 * units), self.kernel_initializer, name="kernel")
        self.recurrent_kernel = self.add_weight(recurrent, self.recurrent_initializer, name="recurrent_kernel")
        self.bias = self.add_weight((self.bias_blocks * units,), self.bias_initializer, name="bias")

    def call(self, inputs, states):
        """One step: Keras's cell interface."""
        state = states[0] if isinstance(states, list | tuple) else states
        kernel, recurrent_kernel, bias = self._recurrence_weights()
        projected = ops.matmul(inputs, kernel) + bias
        state, _ = self.equations.advance(projected, ops.matmul(state, recurrent_kernel), state)
        return state, [state]

    def sequence(self, inputs, initial_state, keep):
        """Run the cell over a time-major sequence.

        Args:
            inputs: `(T, N, I)`.
            initial_state: `(N, units)`, the state before the first step.
            keep: `(T, N, 1)`, 0 where a new episode begins (the state is zeroed before that step), else 1.

        Returns:
            `(T, N, units)`, the state after each step.
        """
        return recurrence.sequence(self.equations, inputs, self._recurrence_weights(), initial_state, keep)

    def get_initial_state(self, batch_size=None):
        """Zeros `(batch_size, units)`, as `keras.layers.RNN` asks for."""
        return [ops.zeros((batch_size, self.units), dtype=self.compute_dtype)]

    def _recurrence_weights(self):
        """Kernel, recurrent kernel and a bias for every column of the projected inputs."""
        bias, without = self.bias, (3 - self.bias_blocks) * self.units
        return self.kernel, self.recurrent_kernel, ops.pad(bias, (0, without)) if without else bias

    def get_config(self):
        """Constructor arguments, serialised."""
        return {
            **super().get_config(),
            "units": self.units,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "recurrent_initializer": keras.initializers.serialize(self.recurrent_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }


@keras.saving.register_keras_serializable("nmn_keras")
class ModulatorGRUCell(ModulatorCell):
    """GRU cell; arguments as for `ModulatorCell`, `recurrent_kernel (units, 3 * units)`, `bias (3 * units,)`.

    With `p = inputs @ kernel + bias` and `q = state @ recurrent_kernel`, each split in three:
    `update = sigmoid(p_u + q_u)`, `reset = sigmoid(p_r + q_r)`, `candidate = tanh(p_c + reset * q_c)`,
    `state' = update * state + (1 - update) * candidate`.

    It equals `keras.layers.GRUCell(reset_after=True)` with a zero recurrent bias.
    """

    equations: ClassVar[Any] = gru
    recurrent_blocks: ClassVar[int] = 3
    bias_blocks: ClassVar[int] = 3


@keras.saving.register_keras_serializable("nmn_keras")
class ModulatorNBRCCell(ModulatorCell):
    """Neuromodulated bistable recurrent cell, which can hold a number without end; arguments as for `ModulatorCell`.

    With `p = inputs @ kernel`, split in three, a bias on the first two, and `q = state @ recurrent_kernel`, split in
    two: `update = sigmoid(p_u + q_u)`, `feedback = 1 + tanh(p_f + q_f)`, `candidate = tanh(p_c + feedback * state)`,
    `state' = update * state + (1 - update) * candidate`. `recurrent_kernel (units, 2 * units)`, `bias (2 * units,)`.

    A unit whose feedback exceeds 1 has two stable states. The other units modulate feedback and update; in the
    candidate each unit sees itself alone.

    Reference: Vecoven, Ernst and Drion, "A bio-inspired bistable recurrent cell allows for long-lasting memory", PLoS
    ONE 2021 (nBRC; the biases are those of the authors' code).
    """

    equations: ClassVar[Any] = nbrc
    recurrent_blocks: ClassVar[int] = 2
    bias_blocks: ClassVar[int] = 2


CELLS: dict[str, type[ModulatorCell]] = {"gru": ModulatorGRUCell, "nbrc": ModulatorNBRCCell}
"""Cells by the name that an architecture calls them."""
