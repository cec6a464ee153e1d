"""One step of a trained actor written for inference: few, larger operations over constant weights.

The same function as `RecurrentNetwork.step` and `split_policy`, rearranged. A GRU's two products are one: over inputs
and state together, to four blocks of columns, because the candidate needs its two parts apart. The modulations of all
layers are one product of the signal. Constant factors and offsets are folded into weights.
"""

import numpy as np
from keras import ops


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
        self._cells = [_fuse_cell(cell, inputs) for cell, inputs in zip(actor.cells, _gru_inputs(actor), strict=True)]
        head = _head_columns(self.architecture)
        if self.architecture.kind == "nmn":
            self._signal = [np.asarray(w) for w in actor.signal.weights], actor.signal.activation
            self._modulation, self._main = _fuse_modulation(actor.main, head)
        else:
            self._main = _fuse_dense(actor.main, head)

    def __call__(self, observation, prev_action, prev_reward, state_in):
        """Compute the step."""
        a = self.architecture
        seen = a.see(observation)
        context, state_out = self._recur(seen, prev_action, prev_reward, state_in)
        outputs = {}
        if a.kind == "nmn":
            (kernel, bias), activation = self._signal
            outputs["z"] = activation(ops.matmul(context, kernel) + bias)
            raw = self._modulated(seen, outputs["z"])
        else:
            raw = context
            for kernel, bias, activation in self._main:
                raw = activation(ops.matmul(raw, kernel) + bias)
        mean, log_std = self._policy(raw)
        outputs |= {"action": a.to_environment(mean, ops), "action_mean": mean, "action_log_std": log_std}
        return {**outputs, "state_out": state_out}

    def _recur(self, seen, prev_action, prev_reward, state_in):
        """The last GRU's state and the packed state."""
        a = self.architecture
        played = [a.head.feedback(prev_action, a.action_period), prev_reward]
        offset = a.seen_size if a.kind == "nmn" else 0
        states, y = [], None
        for (kernel, bias), units in zip(self._cells, a.gru_units, strict=True):
            h = state_in[..., offset : offset + units]
            if y is not None:
                joined = [y, h]
            elif a.kind == "nmn":  # the packed state begins with the previous observation and the first GRU's state
                joined = [state_in[..., : offset + units] if len(a.gru_units) > 1 else state_in, *played]
            else:
                joined = [h, seen, *played]
            y = _gru(ops.matmul(ops.concatenate(joined, axis=-1), kernel) + bias, h, units)
            states.append(y)
            offset += units
        packed = [seen, *states] if a.kind == "nmn" else states
        return y, packed[0] if len(packed) == 1 else ops.concatenate(packed, axis=-1)

    def _modulated(self, seen, signal):
        """The main network under the signal."""
        kernel, bias, sizes = self._modulation
        parts = ops.split(ops.matmul(signal, kernel) + bias, np.cumsum(sizes)[:-1].tolist(), axis=-1)
        y = seen
        for (weights, activation), gain, shift in zip(self._main, parts[::2], parts[1::2], strict=True):
            y = activation(ops.matmul(y, weights) * gain + shift)
        return y

    def _policy(self, raw):
        """Mean and logarithm of the deviation; offset and factor 1/2 of the log-variance are in the weights."""
        a = self.architecture
        mean, log_std = ops.split(raw, [raw.shape[-1] - a.action_size], axis=-1)
        low, high = ((None if bound is None else 0.5 * bound) for bound in (a.log_var_min, a.log_var_max))
        log_std = log_std if low is None else ops.maximum(log_std, low)
        return a.head.mean(mean), log_std if high is None else ops.minimum(log_std, high)


def _gru(projected, state, units):
    """New state from the four blocks [update, reset, candidate of inputs, candidate of state]."""
    gates, from_inputs, from_state = ops.split(projected, [2 * units, 3 * units], axis=-1)
    update, reset = ops.split(ops.sigmoid(gates), 2, axis=-1)
    candidate = ops.tanh(from_inputs + reset * from_state)
    return candidate + update * (state - candidate)


def _gru_inputs(actor):
    """For each GRU the order of rows [inputs, state] in what is joined for it, and the inputs' factors."""
    a = actor.architecture
    seen, played = a.seen_size, a.head.feedback_inputs * a.action_size
    units, scales = a.gru_units[0], np.ones(seen + played + 1)
    scales[seen : seen + played], scales[-1] = a.feedback_scale, a.reward_scale
    inputs, state = np.arange(seen + played + 1), np.arange(units) + seen + played + 1
    # NMN: previous observation, state, action, reward; RNN: state, observation, action, reward.
    before, after = (inputs[:seen], inputs[seen:]) if a.kind == "nmn" else (inputs[:0], inputs)
    yield np.concatenate([before, state, after]), scales
    for below, units in zip(a.gru_units, a.gru_units[1:], strict=False):
        yield np.arange(below + units), np.ones(below)


def _fuse_cell(cell, inputs):
    order, scales = inputs
    kernel, recurrent, bias = (np.asarray(w) for w in (cell.kernel, cell.recurrent_kernel, cell.bias))
    units = cell.units
    top = np.concatenate([kernel * scales[:, None], np.zeros((len(kernel), units))], axis=1)
    bottom = np.concatenate([recurrent[:, : 2 * units], np.zeros((units, units)), recurrent[:, 2 * units :]], axis=1)
    fused = np.concatenate([top, bottom])[order]
    return fused.astype("float32"), np.concatenate([bias, np.zeros(units)]).astype("float32")


def _head_columns(architecture):
    """Factor and offset on each of the actor's outputs."""
    factor, offset = np.ones(architecture.policy_units), np.zeros(architecture.policy_units)
    factor[-architecture.action_size :], offset[-architecture.action_size :] = 0.5, 0.5 * architecture.log_var_offset
    return factor, offset


def _fuse_modulation(layers, head):
    """One product for the gains and shifts of all layers, and what is left of each layer."""
    kernels, biases, sizes, main = [], [], [], []
    for i, layer in enumerate(layers):
        factor, offset = head if i == len(layers) - 1 else (1.0, 0.0)
        kernels += [np.asarray(layer.scale), np.asarray(layer.shift) * factor]
        biases += [np.full(layer.units, layer.scale_offset), np.asarray(layer.bias) * factor + offset]
        sizes += [layer.units, layer.units]
        main.append(((np.asarray(layer.kernel) * factor).astype("float32"), layer.activation))
    modulation = np.concatenate(kernels, axis=1).astype("float32"), np.concatenate(biases).astype("float32"), sizes
    return modulation, main


def _fuse_dense(layers, head):
    fused = []
    for i, layer in enumerate(layers):
        factor, offset = head if i == len(layers) - 1 else (1.0, 0.0)
        kernel, bias = (np.asarray(w) for w in (layer.kernel, layer.bias))
        fused.append(
            ((kernel * factor).astype("float32"), (bias * factor + offset).astype("float32"), layer.activation)
        )
    return fused
