"""The recurrence of a GRU on JAX, with its gradient written out.

Differentiating the scan adds up the kernel's gradient step by step. Here the backward scan holds one product a step,
and the kernel's gradient is one large product after it.
"""

import jax
import jax.numpy as jnp


def sequence(projected, kernel, initial_state, keep):
    """States after each step; see `nmn_keras.gru.plain.sequence`."""
    return _sequence(projected, jnp.asarray(kernel), initial_state, keep)


@jax.custom_vjp
def _sequence(projected, kernel, initial_state, keep):
    return _forward(projected, kernel, initial_state, keep)[0]


def _forward(projected, kernel, initial_state, keep):
    units = kernel.shape[0]

    def advance(state, now):
        p, keep_now = now
        state = state * keep_now
        q = state @ kernel
        gates = jax.nn.sigmoid(p[:, : 2 * units] + q[:, : 2 * units])
        inner = q[:, 2 * units :]
        candidate = jnp.tanh(p[:, 2 * units :] + gates[:, units:] * inner)
        state = candidate + gates[:, :units] * (state - candidate)
        return state, (state, gates, inner, candidate)

    _, (states, *saved) = jax.lax.scan(advance, initial_state, (projected, keep))
    return states, (states, *saved, kernel, initial_state, keep)


def _backward(residuals, upstream):
    states, gates, inner, candidate, kernel, initial_state, keep = residuals
    units = kernel.shape[0]
    update, reset = gates[..., :units], gates[..., units:]
    before = jnp.concatenate([initial_state[None], states[:-1]], axis=0) * keep
    # How the three pre-activations move with the new state: no recursion, so outside of the scan.
    to_candidate = (1.0 - update) * (1.0 - candidate**2)
    to_update = (before - candidate) * update * (1.0 - update)
    to_reset = to_candidate * inner * reset * (1.0 - reset)
    slopes = jnp.concatenate([to_update, to_reset, to_candidate * reset], axis=-1)

    def retreat(later, now):
        upstream_now, slopes_now, update_now, keep_now = now
        total = later + upstream_now
        recurrent = jnp.concatenate([total, total, total], axis=-1) * slopes_now
        return (total * update_now + recurrent @ kernel.T) * keep_now, (recurrent, total)

    first, (recurrent, total) = jax.lax.scan(
        retreat, jnp.zeros_like(initial_state), (upstream, slopes, update, keep), reverse=True
    )
    kernel_gradient = before.reshape(-1, units).T @ recurrent.reshape(-1, 3 * units)
    projected = jnp.concatenate([recurrent[..., : 2 * units], total * to_candidate], axis=-1)
    return projected, kernel_gradient, first, jnp.zeros_like(keep)


_sequence.defvjp(_forward, _backward)
