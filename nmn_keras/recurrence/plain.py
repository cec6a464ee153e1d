"""A cell over a sequence in `keras.ops`, differentiated by the backend."""

from keras import ops


def sequence(cell, inputs, weights, initial_state, keep):
    """States after each step of a time-major sequence.

    Args:
        cell: equations: `advance(projected, recurrent, state)` gives the new state and what `retreat` needs,
            `retreat(total, before, saved)` its gradient; see `nmn_keras.gru`.
        inputs: `(T, N, I)`.
        weights: kernel `(I, P)`, recurrent kernel `(units, Q)`, bias `(P,)`.
        initial_state: `(N, units)`, before the first step.
        keep: `(T, N, 1)`, 0 where the state is zeroed before the step, else 1.

    Returns:
        `(T, N, units)`.
    """
    kernel, recurrent_kernel, bias = weights
    projected = ops.matmul(inputs, kernel) + bias

    def advance(state, now):
        projected_now, keep_now = now
        state = state * keep_now
        state, _ = cell.advance(projected_now, ops.matmul(state, recurrent_kernel), state)
        return state, state

    return ops.scan(advance, initial_state, (projected, keep))[1]
