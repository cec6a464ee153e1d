"""Layers of a neuromodulated network: sReLU, the modulated dense layer and the modulator's GRU cell.

Everything here is `keras.ops` only: it runs on TensorFlow, JAX and torch and serves in any Keras model.
Equations: Vecoven et al., PLoS ONE 2020, "NMN architecture".
"""

import keras
from keras import ops

from nmn_keras import gru


@keras.saving.register_keras_serializable("nmn_keras")
def srelu(x):
    """Saturated rectifier `min(1, max(-1, x))`, the main network's activation in the paper."""
    return ops.clip(x, -1.0, 1.0)


def get_activation(name):
    """The activation of that name: "srelu", or any that Keras knows."""
    return srelu if name == "srelu" else keras.activations.get(name)


def _positive_units(units, owner):
    if isinstance(units, bool) or not isinstance(units, int) or units < 1:
        raise ValueError(f"`units` of {owner} must be a positive integer. Received: units={units!r}")
    return units


def _align_ranks(inputs, signal):
    """Give both tensors one rank by inserting axes of length 1 before the feature axis."""
    while len(inputs.shape) < len(signal.shape):
        inputs = ops.expand_dims(inputs, -2)
    while len(signal.shape) < len(inputs.shape):
        signal = ops.expand_dims(signal, -2)
    return inputs, signal


@keras.saving.register_keras_serializable("nmn_keras")
class NMNDense(keras.layers.Layer):
    """Dense layer whose gain and bias are set by a neuromodulatory signal.

    `y = activation((inputs @ kernel) * (scale_offset + signal @ scale) + bias + signal @ shift)`

    With `scale_offset=1` (default) a zero signal gives a plain `Dense` layer; this is how the authors trained. The
    paper's literal formula `activation(signal . (x w_s + w_b))` is `scale_offset=0, use_bias=False`.

    Call arguments:
        inputs: `(..., I)`.
        signal: `(..., Z)`. If one has fewer axes than the other (a signal per sample, inputs per sample and step), axes
            of length 1 are inserted before its feature axis; leading axes then broadcast.

    Returns:
        `(..., units)`.

    Args:
        units: number of neurons, a positive integer.
        activation: any Keras activation (name, function, layer) or None; `nmn_keras.layers.srelu` is the paper's.
        scale_offset: the gain at zero signal.
        use_bias: whether a bias that the signal does not touch is added.
        kernel_initializer: for `kernel (I, units)`.
        scale_initializer: for `scale (Z, units)`.
        shift_initializer: for `shift (Z, units)`.
        bias_initializer: for `bias (units,)`.

    Reference: Vecoven et al. 2020, equation of the modulated activation.
    """

    def __init__(
        self,
        units,
        activation=None,
        scale_offset=1.0,
        use_bias=True,
        kernel_initializer="glorot_uniform",
        scale_initializer="glorot_uniform",
        shift_initializer="glorot_uniform",
        bias_initializer="zeros",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.units = _positive_units(units, "NMNDense")
        self.activation = keras.activations.get(activation)
        self.scale_offset = float(scale_offset)
        self.use_bias = bool(use_bias)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.scale_initializer = keras.initializers.get(scale_initializer)
        self.shift_initializer = keras.initializers.get(shift_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)

    def build(self, inputs_shape, signal_shape):
        """Create `kernel`, `scale`, `shift` and, if used, `bias`."""
        modulation_shape = (signal_shape[-1], self.units)
        self.kernel = self.add_weight((inputs_shape[-1], self.units), self.kernel_initializer, name="kernel")
        self.scale = self.add_weight(modulation_shape, self.scale_initializer, name="scale")
        self.shift = self.add_weight(modulation_shape, self.shift_initializer, name="shift")
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight((self.units,), self.bias_initializer, name="bias")

    def call(self, inputs, signal):
        """Apply the equation of the class docstring."""
        inputs, signal = _align_ranks(inputs, signal)
        gain = self.scale_offset + ops.matmul(signal, self.scale)
        y = ops.matmul(inputs, self.kernel) * gain + ops.matmul(signal, self.shift)
        return self.activation(y if self.bias is None else y + self.bias)

    def compute_output_shape(self, inputs_shape, signal_shape):
        """Broadcast leading axes of both shapes, then `units`."""
        rank = max(len(inputs_shape), len(signal_shape))
        padded = [(*s[:-1], *(1,) * (rank - len(s)), s[-1]) for s in (inputs_shape, signal_shape)]
        leading = (b if a == 1 else a for a, b in zip(*(s[:-1] for s in padded), strict=True))
        return (*leading, self.units)

    def get_config(self):
        """Constructor arguments, serialised."""
        return {
            **super().get_config(),
            "units": self.units,
            "activation": keras.activations.serialize(self.activation),
            "scale_offset": self.scale_offset,
            "use_bias": self.use_bias,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "scale_initializer": keras.initializers.serialize(self.scale_initializer),
            "shift_initializer": keras.initializers.serialize(self.shift_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }


@keras.saving.register_keras_serializable("nmn_keras")
class ModulatorGRUCell(keras.layers.Layer):
    """GRU cell of the modulator: one step, or a time-major sequence over the same weights.

    With `p = inputs @ kernel + bias` and `q = state @ recurrent_kernel`, each split in three:
    `update = sigmoid(p_u + q_u)`, `reset = sigmoid(p_r + q_r)`, `candidate = tanh(p_c + reset * q_c)`,
    `state' = update * state + (1 - update) * candidate`.

    It equals `keras.layers.GRUCell(reset_after=True)` with a zero recurrent bias, has that cell's interface (so
    `keras.layers.RNN(ModulatorGRUCell(50))` works) and adds `sequence`, which projects all inputs in one matrix
    product before the scan.

    Call arguments:
        inputs: `(N, I)`.
        states: `(N, units)`, or a list holding it.

    Returns:
        `(output (N, units), [state (N, units)])`.

    Args:
        units: number of units, a positive integer.
        kernel_initializer: for `kernel (I, 3 * units)`.
        recurrent_initializer: for `recurrent_kernel (units, 3 * units)`.
        bias_initializer: for `bias (3 * units,)`.
    """

    def __init__(
        self,
        units,
        kernel_initializer="glorot_uniform",
        recurrent_initializer="orthogonal",
        bias_initializer="zeros",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.units = _positive_units(units, "ModulatorGRUCell")
        self.state_size = self.output_size = self.units
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.recurrent_initializer = keras.initializers.get(recurrent_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)

    def build(self, input_shape):
        """Create `kernel`, `recurrent_kernel` and `bias`."""
        wide = 3 * self.units
        self.kernel = self.add_weight((input_shape[-1], wide), self.kernel_initializer, name="kernel")
        self.recurrent_kernel = self.add_weight((self.units, wide), self.recurrent_initializer, name="recurrent_kernel")
        self.bias = self.add_weight((wide,), self.bias_initializer, name="bias")

    def call(self, inputs, states):
        """One step: Keras's cell interface."""
        state = states[0] if isinstance(states, list | tuple) else states
        state = gru.step(self._project(inputs), self.recurrent_kernel, state)
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
        return gru.sequence(self._project(inputs), self.recurrent_kernel, initial_state, keep)

    def get_initial_state(self, batch_size=None):
        """Zeros `(batch_size, units)`, as `keras.layers.RNN` asks for."""
        return [ops.zeros((batch_size, self.units), dtype=self.compute_dtype)]

    def _project(self, inputs):
        return ops.matmul(inputs, self.kernel) + self.bias

    def get_config(self):
        """Constructor arguments, serialised."""
        return {
            **super().get_config(),
            "units": self.units,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "recurrent_initializer": keras.initializers.serialize(self.recurrent_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }
