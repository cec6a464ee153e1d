"""The recurrence of a neuromodulated bistable recurrent cell on JAX, with its gradient written out.

As for the GRU, the backward scan holds one product a step, and the kernel's gradient is one large product after it.
"""

import jax
import jax.numpy as jnp


def sequence(projected, kernel, initial_state, keep):
    """States after each step; see `nmn_keras.nbrc.plain.sequence`."""
    return _sequence(projected, jnp.asarray(kernel), initial_state, keep)


@jax.custom_vjp
def _sequence(projected, kernel, initial_state, keep):
    return _forward(projected, kernel, initial_state, keep)[0]


def _forward(projected, kernel, initial_state, keep):
    units = kernel.shape[0]

    def advance(state, now):
        p, keep_now = now
        state = state * keep_now
        gates = p[:, : 2 * units] + state @ kernel
        update, bend = jax.nn.sigmoid(gates[:, :units]), jnp.tanh(gates[:, units:])
        candidate = jnp.tanh(p[:, 2 * units :] + (1.0 + bend) * state)
        state = candidate + update * (state - candidate)
        return state, (state, update, bend, candidate)

    _, (states, *saved) = jax.lax.scan(advance, initial_state, (projected, keep))
    return states, (states, *saved, kernel, initial_state, keep)


def _backward(residuals, upstream):
    states, update, bend, candidate, kernel, initial_state, keep = residuals
    units = kernel.shape[0]
    before = jnp.concatenate([initial_state[None], states[:-1]], axis=0) * keep
    # How the three pre-activations move with the new state, and how the new state moves with the old one where no
    # kernel is in between: no recursion, so outside of the scan.
    to_candidate = (1.0 - update) * (1.0 - candidate**2)
    to_update = (before - candidate) * update * (1.0 - update)
    to_feedback = to_candidate * before * (1.0 - bend**2)
    slopes = jnp.concatenate([to_update, to_feedback], axis=-1)
    direct = update + to_candidate * (1.0 + bend)

    def retreat(later, now):
        upstream_now, slopes_now, direct_now, keep_now = now
        total = later + upstream_now
        recurrent = jnp.concatenate([total, total], axis=-1) * slopes_now
        return (total * direct_now + recurrent @ kernel.T) * keep_now, (recurrent, total)

    first, (recurrent, total) = jax.lax.scan(
        retreat, jnp.zeros_like(initial_state), (upstream, slopes, direct, keep), reverse=True
    )
    kernel_gradient = before.reshape(-1, units).T @ recurrent.reshape(-1, 2 * units)
    projected = jnp.concatenate([recurrent, total * to_candidate], axis=-1)
    return projected, kernel_gradient, first, jnp.zeros_like(keep)


_sequence.defvjp(_forward, _backward)
