"""The recurrence of a GRU in `keras.ops`, differentiated by the backend.

One step: with `p` the inputs' part and `q = state @ kernel`, each split in three,
`update = sigmoid(p_u + q_u)`, `reset = sigmoid(p_r + q_r)`, `candidate = tanh(p_c + reset * q_c)`,
`state' = update * state + (1 - update) * candidate`.
"""

from keras import ops


def step(projected, kernel, state):
    """The state after one step: `(N, 3 units), (units, 3 units), (N, units) -> (N, units)`."""
    p_update, p_reset, p_candidate = ops.split(projected, 3, axis=-1)
    q_update, q_reset, q_candidate = ops.split(ops.matmul(state, kernel), 3, axis=-1)
    update = ops.sigmoid(p_update + q_update)
    candidate = ops.tanh(p_candidate + ops.sigmoid(p_reset + q_reset) * q_candidate)
    return candidate + update * (state - candidate)


def sequence(projected, kernel, initial_state, keep):
    """States after each step of a time-major sequence.

    Args:
        projected: `(T, N, 3 units)`, the inputs' part.
        kernel: `(units, 3 units)`.
        initial_state: `(N, units)`, before the first step.
        keep: `(T, N, 1)`, 0 where the state is zeroed before the step, else 1.

    Returns:
        `(T, N, units)`.
    """

    def advance(state, now):
        projected_now, keep_now = now
        state = step(projected_now, kernel, state * keep_now)
        return state, state

    return ops.scan(advance, initial_state, (projected, keep))[1]
