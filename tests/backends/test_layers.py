import json

import keras
import numpy as np
import pytest
import references
from keras.ops import convert_to_numpy, convert_to_tensor
from numpy.testing import assert_allclose, assert_array_equal
from on_backend import on_tensors, value_and_gradients

from nmn_keras.cells import ModulatorGRUCell, ModulatorNBRCCell
from nmn_keras.layers import HyperDense, NMNDense, srelu

CLOSE = {"rtol": 1e-5, "atol": 1e-6}  # float32 sums of a few dozen terms against float64
BY_NAME = {**{name: name for name in references.ACTIVATIONS}, "srelu": srelu}
SHAPES = {  # inputs, signal, output
    "one row each": ((5, 3), (5, 2), (5, 4)),
    "signal per sample": ((5, 6, 3), (5, 2), (5, 6, 4)),
    "signal per step": ((5, 6, 3), (5, 6, 2), (5, 6, 4)),
    "inputs per sample": ((5, 3), (5, 6, 2), (5, 6, 4)),
    "axes apart": ((5, 1, 7, 3), (5, 6, 1, 2), (5, 6, 7, 4)),
    "images and a code": ((5, 6, 7, 3), (5, 2), (5, 6, 7, 4)),
}


def draw(*shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape).astype("float32") for shape in shapes]


def modulated(inputs, signal, **kwargs):
    """A `NMNDense(4)` with drawn weights, biases included, for arrays like these."""
    layer = NMNDense(4, **kwargs)
    layer.build(inputs.shape, signal.shape)
    layer.set_weights(references.random_weights(layer, seed=1))
    return layer


def generated(inputs, signal, **kwargs):
    """A `HyperDense(4)` with drawn weights for arrays like these."""
    layer = HyperDense(4, **kwargs)
    layer.build(inputs.shape, signal.shape)
    layer.set_weights(references.random_weights(layer, seed=1))
    return layer


TWO = [(modulated, references.nmn_dense), (generated, references.hyper_dense)]


def cell(kind=ModulatorGRUCell, units=5, inputs=3):
    layer = kind(units)
    layer.build((None, inputs))
    layer.set_weights(references.random_weights(layer, seed=2))
    return layer


# sReLU and the modulated layer


@pytest.mark.parametrize("layer", [NMNDense, HyperDense])
def test_a_mask_of_the_inputs_is_kept(layer):
    inputs, signal = keras.Input((5, 3)), keras.Input((2,))
    assert getattr(layer(4)(keras.layers.Masking()(inputs), signal), "_keras_mask", None) is not None
    assert getattr(layer(4)(inputs, signal), "_keras_mask", None) is None


def test_srelu_saturates_at_one_on_both_sides():
    x = np.array([-9.0, -1.5, -1.0, -0.25, 0.0, 0.5, 1.0, 1.25], "float32")
    assert_array_equal(on_tensors(srelu, x), [-1.0, -1.0, -1.0, -0.25, 0.0, 0.5, 1.0, 1.0])


@pytest.mark.parametrize("activation", BY_NAME)
def test_zero_signal_is_a_dense_layer(activation):
    inputs, signal = draw((6, 3), (6, 2))
    layer = modulated(inputs, signal, activation=BY_NAME[activation])
    plain = keras.layers.Dense(4, BY_NAME[activation])
    plain.build(inputs.shape)
    plain.set_weights([layer.kernel, layer.bias])
    expected = on_tensors(plain, inputs)
    assert_allclose(on_tensors(layer, inputs, 0.0 * signal), expected, **CLOSE)
    assert np.abs(on_tensors(layer, inputs, signal) - expected).max() > 0.1


@pytest.mark.parametrize("activation", BY_NAME)
def test_modulated_layer_is_its_equation(activation):
    inputs, signal = draw((6, 3), (6, 2))
    layer = modulated(inputs, signal, activation=BY_NAME[activation])
    expected = references.nmn_dense(inputs, signal, *layer.get_weights(), activation)
    assert_allclose(on_tensors(layer, inputs, signal), expected, **CLOSE)


@pytest.mark.parametrize("activation", ["srelu", "sigmoid"])
def test_literal_formula_of_the_paper(activation):
    inputs, signal = draw((6, 3), (6, 2))
    layer = modulated(inputs, signal, activation=BY_NAME[activation], scale_offset=0, use_bias=False)
    kernel, scale, shift = layer.get_weights()
    expected = [
        [references.paper_neuron(x, z, kernel[:, u], scale[:, u], shift[:, u], activation) for u in range(4)]
        for x, z in zip(inputs, signal, strict=True)
    ]
    assert_allclose(on_tensors(layer, inputs, signal), expected, **CLOSE)


@pytest.mark.parametrize(("make", "reference"), TWO, ids=["modulated", "generated"])
@pytest.mark.parametrize(("inputs", "signal", "expected"), SHAPES.values(), ids=SHAPES)
def test_leading_axes_broadcast_and_shapes_are_foretold(inputs, signal, expected, make, reference):
    inputs, signal = draw(inputs, signal)
    layer = make(inputs, signal, activation="tanh")
    output, weights = on_tensors(layer, inputs, signal), layer.get_weights()
    assert output.shape == expected == layer.compute_output_shape(inputs.shape, signal.shape)
    for index in np.ndindex(expected[:-1]):
        x, z = (
            a[tuple(np.minimum(index, np.array(a.shape[:-1]) - 1))] if a.ndim == len(expected) else a[index[0]]
            for a in (inputs, signal)
        )
        row = reference(x[None], z[None], *weights, "tanh")[0]
        assert_allclose(output[index], row, **CLOSE)


@pytest.mark.parametrize(
    ("inputs", "signal", "expected"),
    [
        ((None, 3), (None, 2), (None, 4)),
        ((None, None, 3), (None, 2), (None, None, 4)),
        ((None, 3), (None, 6, 2), (None, 6, 4)),
        ((1, 6, 3), (None, 2), (None, 6, 4)),
    ],
)
def test_unknown_axes_stay_unknown(inputs, signal, expected):
    symbols = keras.KerasTensor(inputs), keras.KerasTensor(signal)
    for layer in (NMNDense(4), HyperDense(4)):
        assert layer(*symbols).shape == expected


@pytest.mark.parametrize(("make", "equation"), TWO, ids=["modulated", "generated"])
def test_gradient_of_a_layer_is_the_slope_of_its_equation(make, equation):
    inputs, signal, weigh = draw((4, 3), (4, 2), (4, 4))
    layer = make(inputs, signal, activation=srelu)

    def loss():
        return keras.ops.sum(layer(inputs, signal) * convert_to_tensor(weigh))

    def reference(weights):
        return (equation(inputs, signal, *weights, "srelu") * weigh).sum()

    weights = layer.get_weights()
    slopes = references.finite_differences(reference, weights)
    assert all(np.abs(slope).max() > 0.1 for slope in slopes)
    value, found = value_and_gradients(loss, layer.trainable_variables)
    assert_allclose(value, reference(weights), **CLOSE)
    for gradient, slope in zip(found, slopes, strict=True):
        assert_allclose(gradient, slope, rtol=1e-4, atol=1e-5)


def test_shared_modulation_is_that_of_equal_neurons():
    inputs, signal = draw((5, 6, 3), (5, 2))
    shared = modulated(inputs, signal, activation="tanh", shared=True)
    kernel, scale, shift, bias = shared.get_weights()
    assert scale.shape == shift.shape == (2, 1)
    apart = modulated(inputs, signal, activation="tanh")
    apart.set_weights([kernel, np.repeat(scale, 4, axis=1), np.repeat(shift, 4, axis=1), bias])
    assert_allclose(on_tensors(shared, inputs, signal), on_tensors(apart, inputs, signal), **CLOSE)


# The generated layer


def test_generated_layer_is_a_dense_layer_of_each_sample():
    inputs, signal = draw((6, 3), (6, 2))
    layer = generated(inputs, signal, activation=srelu)
    expected = references.hyper_dense(inputs, signal, *layer.get_weights(), "srelu")
    assert_allclose(on_tensors(layer, inputs, signal), expected, **CLOSE)
    kernel, bias, *_ = layer.get_weights()
    plain = references.dense(inputs, kernel, bias, "srelu")
    assert_allclose(on_tensors(layer, inputs, 0.0 * signal), plain, **CLOSE)
    assert np.abs(plain - expected).max() > 0.1
    fresh = HyperDense(4)
    fresh.build(inputs.shape, signal.shape)
    assert [w.any() for w in fresh.get_weights()] == [True, False, False, False]


def tolerance(dtype):
    """Some ten roundings of a number of size 3: 2^-8 each in bfloat16, 2^-11 in float16."""
    return 0.1 if "bfloat16" in dtype else 0.015


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16", "bfloat16"])
def test_modulated_layer_in_low_precision(policy):
    inputs, signal = draw((5, 6, 3), (5, 2))
    layer = modulated(inputs, signal, activation=srelu, dtype=policy)
    assert layer.kernel.dtype == ("float32" if policy.startswith("mixed") else policy)

    def run(*tensors):
        output = layer(*tensors)
        assert keras.backend.standardize_dtype(output.dtype) == policy.removeprefix("mixed_")
        return keras.ops.cast(output, "float32")

    found = on_tensors(run, inputs, signal)
    full = on_tensors(modulated(inputs, signal, activation=srelu), inputs, signal)
    assert_allclose(found, full, atol=tolerance(policy))
    assert np.abs(full).max() == 1.0


def test_gru_in_mixed_precision():
    (inputs,) = draw((4, 7, 3))
    mixed = ModulatorGRUCell(5, dtype="mixed_bfloat16")
    mixed.build((None, 3))
    mixed.set_weights(cell().get_weights())
    rnn = keras.layers.RNN(mixed, return_sequences=True, dtype="mixed_bfloat16")
    assert mixed.kernel.dtype == "float32"

    def run(tensor):
        output = rnn(tensor)
        assert keras.backend.standardize_dtype(output.dtype) == "bfloat16"
        return keras.ops.cast(output, "float32")

    found, state = on_tensors(run, inputs), np.zeros((4, 5))
    for t in range(7):
        state = references.gru_step(inputs[:, t], state, *mixed.get_weights())
        assert_allclose(found[:, t], state, atol=tolerance("bfloat16"))
    assert np.abs(state).max() > 0.3


# The modulator's cells

CELLS = pytest.mark.parametrize(
    ("kind", "reference"),
    [(ModulatorGRUCell, references.gru_step), (ModulatorNBRCCell, references.nbrc_step)],
    ids=["gru", "nbrc"],
)


@CELLS
def test_cell_is_its_equation(kind, reference):
    inputs, state = draw((6, 3), (6, 5))
    one = cell(kind)
    expected = reference(inputs, state, *one.get_weights())
    output, (after,) = on_tensors(lambda x, h: one(x, [h]), inputs, state)
    assert_allclose(output, expected, **CLOSE)
    assert_array_equal(after, output)
    assert_array_equal(on_tensors(one, inputs, state)[0], output)


def test_a_bistable_unit_holds_what_a_pulse_put_in_it():
    """Feedback above 1 keeps the sign of a pulse for good, at the height where `h = tanh(a h)`; below 1 it fades."""
    (pulse,) = draw((3, 1))
    one = ModulatorNBRCCell(1, "zeros", "zeros")
    one.build((None, 1))
    for gain, held in ((1.8, 0.9327), (0.8, 0.0)):
        one.set_weights([np.float32([[0.0, 0.0, 1.0]]), np.zeros((1, 2)), np.float32([0.0, np.arctanh(gain - 1.0)])])
        inputs = np.concatenate([pulse[None], np.zeros((150, 3, 1))])
        last = on_tensors(one.sequence, inputs, np.zeros((3, 1)), np.ones((151, 3, 1)))[-1]
        assert_allclose(last, held * np.sign(pulse), atol=0.01)
        assert_allclose(last, np.tanh(gain * last), atol=1e-4)


def test_gru_cell_is_keras_gru_cell_with_zero_recurrent_bias():
    inputs, state = draw((6, 3), (6, 5))
    gru, twin = cell(), keras.layers.GRUCell(5, reset_after=True)
    twin.build((None, 3))
    kernel, recurrent_kernel, bias = gru.get_weights()
    twin.set_weights([kernel, recurrent_kernel, np.stack([bias, 0.0 * bias])])
    found, expected = (on_tensors(lambda x, h, one=one: one(x, [h])[0], inputs, state) for one in (gru, twin))
    assert_allclose(found, expected, **CLOSE)
    assert np.abs(expected - state).min() > 0.0


@CELLS
def test_sequence_is_keras_rnn_over_the_cell(kind, reference):
    inputs, start = draw((4, 7, 3), (4, 5))
    gru = cell(kind)
    rnn = keras.layers.RNN(gru, return_sequences=True, return_state=True)
    expected, last = on_tensors(lambda x, h: rnn(x, initial_state=[h]), inputs, start)
    found = on_tensors(gru.sequence, inputs.swapaxes(0, 1), start, np.ones((7, 4, 1)))
    assert_allclose(found.swapaxes(0, 1), expected, **CLOSE)
    assert_allclose(found[-1], last, **CLOSE)
    assert np.abs(expected).min(axis=(0, 1)).all()


def test_keep_zero_begins_anew():
    """Columns: the whole run, one cut before step 5, one cut before its start, and the two that these equal."""
    run, start = draw((8, 1, 3), (1, 5))
    late = np.concatenate([run[5:], run[:5]])
    inputs = np.concatenate([run, run, run, late, run], axis=1)
    states = np.concatenate([start, start, start, 0.0 * start, 0.0 * start])
    keep = np.ones((8, 5, 1), "float32")
    keep[5, 1] = keep[0, 2] = 0.0
    found = on_tensors(cell().sequence, inputs, states, keep)
    whole, cut, anew, late, fresh = found.swapaxes(0, 1)
    assert_allclose(cut[:5], whole[:5], **CLOSE)
    assert_allclose(cut[5:], late[:3], **CLOSE)
    assert_allclose(anew, fresh, **CLOSE)
    assert np.abs(cut[5] - whole[5]).max() > 0.01
    assert np.abs(anew[0] - whole[0]).max() > 0.01


@CELLS
def test_sequence_gradients_are_the_slopes_of_the_iterated_equation(kind, reference):
    inputs, start, weigh = draw((6, 2, 3), (2, 5), (6, 2, 5))
    gru, keep = cell(kind), np.ones((6, 2, 1), "float32")
    keep[3, 0] = 0.0
    given = [keras.Variable(x) for x in (inputs, start)]

    def loss():
        arrays = (convert_to_tensor(x) for x in (*given, keep))
        return keras.ops.sum(gru.sequence(*arrays) * convert_to_tensor(weigh))

    def iterated(arrays):
        inputs, state, *weights = arrays
        total = 0.0
        for t in range(6):
            state = reference(inputs[t], state * keep[t], *weights)
            total += (state * weigh[t]).sum()
        return total

    arrays = [inputs, start, *gru.get_weights()]
    slopes = references.finite_differences(iterated, arrays)
    assert all(np.abs(slope).max() > 0.1 for slope in slopes)
    value, found = value_and_gradients(loss, [*given, *gru.trainable_variables])
    assert_allclose(value, iterated(arrays), **CLOSE)
    for gradient, slope in zip(found, slopes, strict=True):
        assert_allclose(gradient, slope, rtol=1e-4, atol=2e-5)


# Both in Keras models


def functional_model():
    """Inputs per sample and step, a signal per sample from a GRU over them."""
    modulation = {"kernel_initializer": "zeros", "scale_initializer": "ones", "shift_initializer": "zeros"}
    inputs = keras.Input((None, 3))
    cell = ModulatorGRUCell(4, "zeros", "zeros")
    signal = keras.layers.RNN(cell)(inputs)
    y = NMNDense(6, srelu, **modulation)(inputs, signal)
    leaky = keras.layers.LeakyReLU(0.3)
    y = NMNDense(5, leaky, scale_offset=0.5, use_bias=False, **modulation)(y, signal)
    model = keras.Model(inputs, NMNDense(2, **modulation)(y, signal))
    model.set_weights(references.random_weights(model, seed=3))
    return model


def test_functional_model_learns_and_survives_its_file(tmp_path):
    inputs, target = draw((16, 7, 3), (16, 7, 2))
    model = functional_model()
    assert model.output_shape == (None, None, 2)
    model.compile("sgd", "mse")
    before = [convert_to_numpy(w) + 0.0 for w in model.trainable_weights]
    model.fit(inputs, target, batch_size=16, verbose=0)
    after = [convert_to_numpy(w) for w in model.trainable_weights]
    assert all((a != b).any() for a, b in zip(before, after, strict=True))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    expected = model.predict(inputs[:2, :4], verbose=0)
    assert_array_equal(loaded.predict(inputs[:2, :4], verbose=0), expected)
    assert expected.shape == (2, 4, 2)
    assert expected.std() > 0.01


@pytest.mark.parametrize(
    "layer",
    [
        NMNDense(4, srelu, 0.0, False, "ones", "zeros", "ones", name="literal"),
        NMNDense(4, "gelu", bias_initializer=keras.initializers.Constant(0.5)),
        NMNDense(4, keras.layers.LeakyReLU(0.3), dtype="mixed_float16"),
        NMNDense(4, shared=True),
        HyperDense(4, srelu, "ones", "ones", "zeros", name="hyper"),
        ModulatorGRUCell(5, "ones", "zeros", keras.initializers.Constant(2.0), name="gru"),
        ModulatorNBRCCell(5, "ones", "zeros", keras.initializers.Constant(2.0), name="nbrc"),
    ],
    ids=["literal", "gelu", "layer", "shared", "hyper", "gru", "nbrc"],
)
def test_config_gives_the_same_layer(layer):
    config = layer.get_config()
    twin = type(layer).from_config(json.loads(json.dumps(config)))
    assert twin.get_config() == config
    takes_signal = isinstance(layer, NMNDense | HyperDense)
    inputs = draw((6, 3), (6, 2 if takes_signal else 5))
    for one in (layer, twin):
        one.build(*(x.shape for x in inputs[: 1 + takes_signal]))
    first = keras.tree.flatten(on_tensors(layer, *inputs))[0]
    twin.set_weights(layer.get_weights())
    assert_array_equal(keras.tree.flatten(on_tensors(twin, *inputs))[0], first)


@pytest.mark.parametrize("units", [0, -3, 2.0, True, "5", None])
@pytest.mark.parametrize("layer", [NMNDense, HyperDense, ModulatorGRUCell, ModulatorNBRCCell])
def test_units_are_checked(layer, units):
    message = f"`units` of {layer.__name__} must be a positive integer. Received: units={units!r}"
    with pytest.raises(ValueError) as caught:
        layer(units)
    assert str(caught.value) == message
