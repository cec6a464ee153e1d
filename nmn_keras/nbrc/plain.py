"""The recurrence of a neuromodulated bistable recurrent cell in `keras.ops`, differentiated by the backend.

One step: with `p` the inputs' part, split in three, and `q = state @ kernel`, split in two,
`update = sigmoid(p_u + q_u)`, `feedback = 1 + tanh(p_f + q_f)`, `candidate = tanh(p_c + feedback * state)`,
`state' = update * state + (1 - update) * candidate`. A unit whose feedback exceeds 1 has two stable states.
"""

from keras import ops


def step(projected, kernel, state):
    """The state after one step: `(N, 3 units), (units, 2 units), (N, units) -> (N, units)`."""
    p_update, p_feedback, p_candidate = ops.split(projected, 3, axis=-1)
    q_update, q_feedback = ops.split(ops.matmul(state, kernel), 2, axis=-1)
    update = ops.sigmoid(p_update + q_update)
    candidate = ops.tanh(p_candidate + (1.0 + ops.tanh(p_feedback + q_feedback)) * state)
    return candidate + update * (state - candidate)


def sequence(projected, kernel, initial_state, keep):
    """States after each step of a time-major sequence.

    Args:
        projected: `(T, N, 3 units)`, the inputs' part.
        kernel: `(units, 2 units)`.
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
