"""Layers whose weights a signal changes: sReLU, the modulated dense layer, the generated dense layer.

Everything here is `keras.ops` only: it runs on TensorFlow, JAX and torch and serves in any Keras model.
Equations: Vecoven et al., PLoS ONE 2020, "NMN architecture"; Ha et al., ICLR 2017.
"""

import keras
from keras import ops


@keras.saving.register_keras_serializable("nmn_keras")
def srelu(x):
    """Saturated rectifier `min(1, max(-1, x))`, the main network's activation in the paper."""
    return ops.clip(x, -1.0, 1.0)


def _gelu(x):
    return 0.5 * x * (1.0 + ops.erf(x * 0.5**0.5))


def _celu(x):
    return ops.where(x > 0.0, x, ops.exp(ops.minimum(x, 0.0)) - 1.0)


# Those of Keras whose own form has no ONNX operator on TensorFlow (erfc, expm1), in one that has.
_OURS = {"srelu": srelu, "gelu": _gelu, "celu": _celu}


def get_activation(name):
    """The activation of that name: "srelu", or any that Keras knows."""
    return _OURS[name] if name in _OURS else keras.activations.get(name)


def positive_units(units, owner):
    """`units` if it is a positive integer, else a `ValueError`."""
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


def _broadcast(inputs_shape, signal_shape):
    """The leading axes of both shapes, broadcast."""
    rank = max(len(inputs_shape), len(signal_shape))
    padded = [(*s[:-1], *(1,) * (rank - len(s)), s[-1]) for s in (inputs_shape, signal_shape)]
    return tuple(b if a == 1 else a for a, b in zip(*(s[:-1] for s in padded), strict=True))


@keras.saving.register_keras_serializable("nmn_keras")
class NMNDense(keras.layers.Layer):
    """Dense layer whose gain and bias are set by a neuromodulatory signal.

    `y = activation((inputs @ kernel) * (scale_offset + signal @ scale) + bias + signal @ shift)`

    With `scale_offset=1` (default) a zero signal gives a plain `Dense` layer; this is how the authors trained. The
    paper's literal formula `activation(signal . (x w_s + w_b))` is `scale_offset=0, use_bias=False`. With `shared=True`
    all neurons of the layer have one gain and one shift, as the paper's conclusion suggests.

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
        shared: whether `scale` and `shift` are `(Z, 1)`, shared by the layer's neurons.
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
        shared=False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.units = positive_units(units, "NMNDense")
        self.supports_masking = True  # that of the inputs, as in `Dense`
        self.activation = keras.activations.get(activation)
        self.scale_offset = float(scale_offset)
        self.use_bias = bool(use_bias)
        self.shared = bool(shared)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.scale_initializer = keras.initializers.get(scale_initializer)
        self.shift_initializer = keras.initializers.get(shift_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)

    def build(self, inputs_shape, signal_shape):
        """Create `kernel`, `scale`, `shift` and, if used, `bias`."""
        modulation_shape = (signal_shape[-1], 1 if self.shared else self.units)
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
        return (*_broadcast(inputs_shape, signal_shape), self.units)

    def get_config(self):
        """Constructor arguments, serialised."""
        return {
            **super().get_config(),
            "units": self.units,
            "activation": keras.activations.serialize(self.activation),
            "scale_offset": self.scale_offset,
            "use_bias": self.use_bias,
            "shared": self.shared,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "scale_initializer": keras.initializers.serialize(self.scale_initializer),
            "shift_initializer": keras.initializers.serialize(self.shift_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }


@keras.saving.register_keras_serializable("nmn_keras")
class HyperDense(keras.layers.Layer):
    """Dense layer whose weights are generated from a signal.

    `y = activation(inputs @ W(signal) + b(signal))`, `W(signal) = kernel + signal . kernel_generator`,
    `b(signal) = bias + signal @ bias_generator`

    The generators begin at zero, so that a fresh layer is a plain `Dense` layer for every signal ("Bias-HyperInit"). A
    `NMNDense` layer is the case in which a signal scales a column of the kernel as a whole.

    Call arguments:
        inputs: `(..., I)`.
        signal: `(..., Z)`; leading axes broadcast as in `NMNDense`.

    Returns:
        `(..., units)`.

    Args:
        units: number of neurons, a positive integer.
        activation: any Keras activation (name, function, layer) or None.
        kernel_initializer: for `kernel (I, units)`.
        generator_initializer: for `kernel_generator (I, Z, units)` and `bias_generator (Z, units)`.
        bias_initializer: for `bias (units,)`.

    References: Ha et al., "HyperNetworks", ICLR 2017; Beck et al., "Hypernetworks in Meta-Reinforcement Learning", CoRL
    2022 (the initialisation).
    """

    def __init__(
        self,
        units,
        activation=None,
        kernel_initializer="glorot_uniform",
        generator_initializer="zeros",
        bias_initializer="zeros",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.units = positive_units(units, "HyperDense")
        self.supports_masking = True  # that of the inputs, as in `Dense`
        self.activation = keras.activations.get(activation)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.generator_initializer = keras.initializers.get(generator_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)

    def build(self, inputs_shape, signal_shape):
        """Create `kernel`, `bias`, `kernel_generator` and `bias_generator`."""
        wide, signal = inputs_shape[-1], signal_shape[-1]
        self.kernel = self.add_weight((wide, self.units), self.kernel_initializer, name="kernel")
        self.bias = self.add_weight((self.units,), self.bias_initializer, name="bias")
        generators = {"kernel_generator": (wide, signal, self.units), "bias_generator": (signal, self.units)}
        for name, shape in generators.items():
            setattr(self, name, self.add_weight(shape, self.generator_initializer, name=name))

    def call(self, inputs, signal):
        """Apply the equation of the class docstring."""
        inputs, signal = _align_ranks(inputs, signal)
        # `inputs @ W(signal)` for all samples in one product, without a kernel for each of them in memory.
        pairs = ops.expand_dims(inputs, -1) * ops.expand_dims(signal, -2)
        y = ops.tensordot(pairs, self.kernel_generator, axes=2)
        y = y + ops.matmul(inputs, self.kernel) + ops.matmul(signal, self.bias_generator)
        return self.activation(y + self.bias)

    def compute_output_shape(self, inputs_shape, signal_shape):
        """Broadcast leading axes of both shapes, then `units`."""
        return (*_broadcast(inputs_shape, signal_shape), self.units)

    def get_config(self):
        """Constructor arguments, serialised."""
        return {
            **super().get_config(),
            "units": self.units,
            "activation": keras.activations.serialize(self.activation),
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "generator_initializer": keras.initializers.serialize(self.generator_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }
