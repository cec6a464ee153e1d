"""The equations of a GRU: one step, and its gradient written out.

With `p` the inputs' part and `q = state @ recurrent_kernel`, each split in three,
`update = sigmoid(p_u + q_u)`, `reset = sigmoid(p_r + q_r)`, `candidate = tanh(p_c + reset * q_c)`,
`state' = update * state + (1 - update) * candidate`.
"""

from keras import ops


def advance(projected, recurrent, state):
    """The state after one step.

    Args:
        projected: p, `(N, 3 units)`.
        recurrent: q, `(N, 3 units)`.
        state: `(N, units)`.

    Returns:
        state `(N, units)`, and what `retreat` needs.
    """
    units = state.shape[-1]
    gates = ops.sigmoid(projected[..., : 2 * units] + recurrent[..., : 2 * units])
    update, reset, inner = gates[..., :units], gates[..., units:], recurrent[..., 2 * units :]
    candidate = ops.tanh(projected[..., 2 * units :] + reset * inner)
    return candidate + update * (state - candidate), (gates, inner, candidate)


def retreat(total, before, saved):
    """The gradient of one step.

    Args:
        total: of a loss with respect to the new state, `(N, units)`.
        before: the state before the step, `(N, units)`.
        saved: of `advance`.

    Returns:
        Gradients with respect to the state before, but for its way through q, `(N, units)`; to q and to p,
        `(N, 3 units)` each.
    """
    gates, inner, candidate = saved
    units = before.shape[-1]
    update, reset = gates[..., :units], gates[..., units:]
    to_candidate = total * (1.0 - update) * (1.0 - candidate**2)
    to_update = total * (before - candidate) * update * (1.0 - update)
    to_reset = to_candidate * inner * reset * (1.0 - reset)
    recurrent = ops.concatenate([to_update, to_reset, to_candidate * reset], axis=-1)
    return total * update, recurrent, ops.concatenate([to_update, to_reset, to_candidate], axis=-1)
