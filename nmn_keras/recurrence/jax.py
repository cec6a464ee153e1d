"""A cell over a sequence on JAX, with its gradient written out.

On a CPU time goes into memory, not into arithmetic. So inputs are projected within the scan and gradients of the
weights are added up within it: nothing of length T is written or read but what the gradient needs.
"""

from functools import partial

import jax
import jax.numpy as jnp


def sequence(cell, inputs, weights, initial_state, keep):
    """States after each step; see `nmn_keras.recurrence.plain.sequence`."""
    return _sequence(cell, inputs, tuple(jnp.asarray(weight) for weight in weights), initial_state, keep)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _sequence(cell, inputs, weights, initial_state, keep):
    return _forward(cell, inputs, weights, initial_state, keep)[0]


def _forward(cell, inputs, weights, initial_state, keep):
    kernel, recurrent_kernel, bias = weights

    def advance(state, now):
        inputs_now, keep_now = now
        state = state * keep_now
        state, saved = cell.advance(inputs_now @ kernel + bias, state @ recurrent_kernel, state)
        return state, (state, saved)

    _, (states, saved) = jax.lax.scan(advance, initial_state, (inputs, keep))
    return states, (states, saved, inputs, weights, initial_state, keep)


def _backward(cell, residuals, upstream):
    states, saved, inputs, weights, initial_state, keep = residuals
    kernel, recurrent_kernel, _ = weights
    before = jnp.concatenate([initial_state[None], states[:-1]], axis=0) * keep

    def retreat(carry, now):
        later, gradients = carry
        upstream_now, saved_now, before_now, inputs_now, keep_now = now
        direct, recurrent, projected = cell.retreat(later + upstream_now, before_now, saved_now)
        steps = inputs_now.T @ projected, before_now.T @ recurrent, projected.sum(axis=0)
        gradients = tuple(total + step for total, step in zip(gradients, steps, strict=True))
        return ((direct + recurrent @ recurrent_kernel.T) * keep_now, gradients), projected

    nothing = jnp.zeros_like(initial_state), tuple(jnp.zeros_like(weight) for weight in weights)
    (first, gradients), projected = jax.lax.scan(
        retreat, nothing, (upstream, saved, before, inputs, keep), reverse=True
    )
    return projected @ kernel.T, gradients, first, jnp.zeros_like(keep)


_sequence.defvjp(_forward, _backward)
