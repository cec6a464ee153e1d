"""One step of a trained actor written for inference: few, larger operations over constant weights.

The same function as `RecurrentNetwork.step` and the action head, rearranged. A cell's two products are one, over inputs
and state together: of a GRU to four blocks of columns, because the candidate needs its two parts apart, of an nBRC to
three. What a signal does to all layers is one product of it, but for generated kernels. Constant factors and offsets
are folded into weights.
"""

import numpy as np
from keras import ops

from nmn_keras.architecture import WITH_SIGNAL
from nmn_keras.normalisation import BOUND


class StepGraph:
    """A step of an actor as the ONNX contract wants it.

    Call arguments:
        observation, prev_action, prev_reward, state_in: `(N, O)`, `(N, A)`, `(N, 1)`, `(N, S)`.

    Returns:
        The contract's outputs by name.

    Args:
        actor: a built actor; its present weights become constants.
    """

    def __init__(self, actor):
        self.architecture = actor.architecture
        a = self.architecture
        self._advance, fuse = {"gru": (_gru, _fuse_gru), "nbrc": (_nbrc, _fuse_nbrc)}[a.cell]
        self._cells = [fuse(cell, inputs) for cell, inputs in zip(actor.cells, _cell_inputs(actor), strict=True)]
        self._moments = None
        if actor.standardise is not None:
            self._moments = [np.asarray(w) for w in (actor.standardise.mean, actor.standardise.factor)]
        self._signal = None
        if a.kind in WITH_SIGNAL:
            self._signal = [np.asarray(w) for w in actor.signal.weights], actor.signal.activation
        fuse_main, self._act = {
            "nmn": (_fuse_modulated, _modulated),
            "film": (_fuse_modulated, _modulated),
            "hyper": (_fuse_generated, _generated),
            "rnn": (_fuse_dense, _dense),
        }[a.kind]
        self._main = fuse_main(actor.main, a.head.folding())

    def __call__(self, observation, prev_action, prev_reward, state_in):
        """Compute the step."""
        a = self.architecture
        seen = self._see(observation)
        context, state_out = self._recur(seen, prev_action, prev_reward, state_in)
        signal = context
        if self._signal is not None:
            (kernel, bias), activation = self._signal
            signal = activation(ops.matmul(context, kernel) + bias)
        outputs = a.head.folded_outputs(self._act(self._main, seen, signal))
        outputs |= {"z": signal} if a.kind == "nmn" else {}
        return {**outputs, "state_out": state_out}

    def _see(self, observation):
        """What the network sees, in its frozen statistics' units if it has any."""
        if self._moments is None:
            return self.architecture.see(observation)
        mean, factor = self._moments
        return ops.clip((observation - mean) * factor, -BOUND, BOUND)

    def _recur(self, seen, prev_action, prev_reward, state_in):
        """The last cell's state and the packed state."""
        a = self.architecture
        played = [a.head.feedback(prev_action), prev_reward]
        offset = a.seen_size if a.delays_observation else 0
        states, y = [], None
        for (kernel, bias), units in zip(self._cells, a.gru_units, strict=True):
            h = state_in[..., offset : offset + units]
            if y is not None:
                joined = [y, h]
            elif a.delays_observation:  # the packed state begins with the previous observation and the first state
                joined = [state_in[..., : offset + units] if len(a.gru_units) > 1 else state_in, *played]
            else:
                joined = [h, seen, *played]
            y = self._advance(ops.matmul(ops.concatenate(joined, axis=-1), kernel) + bias, h, units)
            states.append(y)
            offset += units
        packed = [seen, *states] if a.delays_observation else states
        return y, packed[0] if len(packed) == 1 else ops.concatenate(packed, axis=-1)


def _gru(projected, state, units):
    """New state from the four blocks [update, reset, candidate of inputs, candidate of state]."""
    gates, from_inputs, from_state = ops.split(projected, [2 * units, 3 * units], axis=-1)
    update, reset = ops.split(ops.sigmoid(gates), 2, axis=-1)
    candidate = ops.tanh(from_inputs + reset * from_state)
    return candidate + update * (state - candidate)


def _nbrc(projected, state, units):
    """New state from the three blocks [update, feedback, candidate]."""
    update, feedback, from_inputs = ops.split(projected, 3, axis=-1)
    candidate = ops.tanh(from_inputs + (1.0 + ops.tanh(feedback)) * state)
    return candidate + ops.sigmoid(update) * (state - candidate)


def _dense(main, seen, context):
    """The MLP of an RNN, which does not see the observation again."""
    y = context
    for kernel, bias, activation in main:
        y = activation(ops.matmul(y, kernel) + bias)
    return y


def _modulated(main, seen, signal):
    """The main network under a signal that sets gains and shifts."""
    (kernel, bias, sizes), layers = main
    parts = ops.split(ops.matmul(signal, kernel) + bias, np.cumsum(sizes)[:-1].tolist(), axis=-1)
    y = seen
    for (weights, activation), gain, shift in zip(layers, parts[::2], parts[1::2], strict=True):
        y = activation(ops.matmul(y, weights) * gain + shift)
    return y


def _generated(main, seen, signal):
    """The main network under a signal that generates its weights."""
    (kernel, bias, sizes), layers = main
    shifts = ops.matmul(signal, kernel) + bias
    shifts = ops.split(shifts, np.cumsum(sizes)[:-1].tolist(), axis=-1) if len(sizes) > 1 else [shifts]
    y, signal = seen, ops.expand_dims(signal, -2)
    for (weights, activation), shift in zip(layers, shifts, strict=True):
        pairs = ops.reshape(ops.expand_dims(y, -1) * signal, (-1, len(weights) - y.shape[-1]))
        y = activation(ops.matmul(ops.concatenate([y, pairs], axis=-1), weights) + shift)
    return y


def _cell_inputs(actor):
    """For each cell the order of rows [inputs, state] in what is joined for it, and the inputs' factors."""
    a = actor.architecture
    seen, played = a.seen_size, a.head.feedback_size
    units, scales = a.gru_units[0], np.ones(seen + played + 1)
    scales[seen : seen + played], scales[-1] = a.feedback_scale, a.reward_scale
    if actor.scale is not None:
        scales[-1] *= float(np.asarray(actor.scale.factor))
    inputs, state = np.arange(seen + played + 1), np.arange(units) + seen + played + 1
    # NMN: previous observation, state, action, reward; others: state, observation, action, reward.
    before, after = (inputs[:seen], inputs[seen:]) if a.delays_observation else (inputs[:0], inputs)
    yield np.concatenate([before, state, after]), scales
    for below, units in zip(a.gru_units, a.gru_units[1:], strict=False):
        yield np.arange(below + units), np.ones(below)


def _fuse_nbrc(cell, inputs):
    order, scales = inputs
    kernel, recurrent, bias = (np.asarray(w) for w in (cell.kernel, cell.recurrent_kernel, cell.bias))
    unseen = np.zeros((cell.units, cell.units))
    fused = np.concatenate([kernel * scales[:, None], np.concatenate([recurrent, unseen], axis=1)])[order]
    return fused.astype("float32"), np.concatenate([bias, unseen[0]]).astype("float32")


def _fuse_gru(cell, inputs):
    order, scales = inputs
    kernel, recurrent, bias = (np.asarray(w) for w in (cell.kernel, cell.recurrent_kernel, cell.bias))
    units = cell.units
    top = np.concatenate([kernel * scales[:, None], np.zeros((len(kernel), units))], axis=1)
    bottom = np.concatenate([recurrent[:, : 2 * units], np.zeros((units, units)), recurrent[:, 2 * units :]], axis=1)
    fused = np.concatenate([top, bottom])[order]
    return fused.astype("float32"), np.concatenate([bias, np.zeros(units)]).astype("float32")


def _with_head(layers, head):
    """Each layer with the factor and the offset on its outputs: the head's on the last one's."""
    return [(layer, *(head if layer is layers[-1] else (1.0, 0.0))) for layer in layers]


def _fuse_modulated(layers, head):
    """One product for the gains and shifts of all layers, and what is left of each layer."""
    kernels, biases, sizes, main = [], [], [], []
    for layer, factor, offset in _with_head(layers, head):
        scale, shift = np.asarray(layer.scale), np.asarray(layer.shift)
        gains = scale.shape[1]  # one where the layer's neurons share it
        kernels += [scale, np.broadcast_to(shift, (len(shift), layer.units)) * factor]
        biases += [np.full(gains, layer.scale_offset), np.asarray(layer.bias) * factor + offset]
        sizes += [gains, layer.units]
        main.append(((np.asarray(layer.kernel) * factor).astype("float32"), layer.activation))
    return (np.concatenate(kernels, axis=1).astype("float32"), np.concatenate(biases).astype("float32"), sizes), main


def _fuse_generated(layers, head):
    """One product for the biases of all layers, and each layer's kernel over inputs and pairs (input, signal)."""
    kernels, biases, main = [], [], []
    for layer, factor, offset in _with_head(layers, head):
        kernels.append(np.asarray(layer.bias_generator) * factor)
        biases.append(np.asarray(layer.bias) * factor + offset)
        pairs = np.asarray(layer.kernel_generator).reshape(-1, layer.units)
        weights = np.concatenate([np.asarray(layer.kernel), pairs]) * factor
        main.append((weights.astype("float32"), layer.activation))
    sizes = [layer.units for layer in layers]
    return (np.concatenate(kernels, axis=1).astype("float32"), np.concatenate(biases).astype("float32"), sizes), main


def _fuse_dense(layers, head):
    fused = []
    for layer, factor, offset in _with_head(layers, head):
        kernel, bias = (np.asarray(w) for w in (layer.kernel, layer.bias))
        fused.append(
            ((kernel * factor).astype("float32"), (bias * factor + offset).astype("float32"), layer.activation)
        )
    return fused
