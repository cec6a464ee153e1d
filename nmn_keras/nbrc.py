"""The equations of a neuromodulated bistable recurrent cell: one step, and its gradient written out.

With `p` the inputs' part, split in three, and `q = state @ recurrent_kernel`, split in two,
`update = sigmoid(p_u + q_u)`, `feedback = 1 + tanh(p_f + q_f)`, `candidate = tanh(p_c + feedback * state)`,
`state' = update * state + (1 - update) * candidate`. A unit whose feedback exceeds 1 has two stable states.
"""

from keras import ops


def advance(projected, recurrent, state):
    """The state after one step; as `nmn_keras.gru.advance`, with q of shape `(N, 2 units)`."""
    units = state.shape[-1]
    gates = projected[..., : 2 * units] + recurrent
    update, bend = ops.sigmoid(gates[..., :units]), ops.tanh(gates[..., units:])
    candidate = ops.tanh(projected[..., 2 * units :] + (1.0 + bend) * state)
    return candidate + update * (state - candidate), (update, bend, candidate)


def retreat(total, before, saved):
    """The gradient of one step; as `nmn_keras.gru.retreat`, with q of shape `(N, 2 units)`."""
    update, bend, candidate = saved
    to_candidate = total * (1.0 - update) * (1.0 - candidate**2)
    to_update = total * (before - candidate) * update * (1.0 - update)
    to_feedback = to_candidate * before * (1.0 - bend**2)
    recurrent = ops.concatenate([to_update, to_feedback], axis=-1)
    direct = total * update + to_candidate * (1.0 + bend)
    return direct, recurrent, ops.concatenate([to_update, to_feedback, to_candidate], axis=-1)
