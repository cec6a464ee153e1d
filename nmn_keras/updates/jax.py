"""The update on JAX: everything from values to new weights is one compiled function."""

import jax
import jax.numpy as jnp
import keras

from nmn_keras.updates import batch


def compile_method(network, method):
    """A compiled call of a network's method, `*arrays -> arrays`, reading the present weights."""
    variables = network.variables

    @jax.jit
    def pure(values, *arrays):
        with keras.StatelessScope(list(zip(variables, values, strict=True))):
            return method(*arrays)

    return lambda *arrays: pure([v.value for v in variables], *arrays)


def compile_update(actor, critic, actor_optimizer, critic_optimizer, recipe):
    """The compiled update; see `nmn_keras.updates.tensorflow.compile_update` for its arguments."""
    parts = (actor, critic, actor_optimizer, critic_optimizer)
    owned = [
        actor.trainable_variables,
        critic.trainable_variables,
        actor_optimizer.variables,
        critic_optimizer.variables,
    ]

    @jax.jit
    def pure(values, rollout, buffer, minibatches, coefficients):
        return _update(parts, recipe, values, rollout, buffer, minibatches, coefficients)

    def update(rollout, buffer, minibatches, coefficients):
        values = [[v.value for v in variables] for variables in owned]
        values, current, logs = pure(values, rollout, buffer, minibatches, coefficients)
        for variables, new in zip(owned, values, strict=True):
            for variable, value in zip(variables, new, strict=True):
                variable.assign(value)
        return current, logs

    return update


def _update(parts, recipe, values, rollout, buffer, minibatches, coefficients):
    actor, critic, actor_optimizer, critic_optimizer = parts
    actor_values, critic_values, actor_slots, critic_slots = values
    with _scope(critic, critic_values):
        actor_batch, current, explained = batch.prepare(critic, recipe, rollout)

    def policy_loss(values, data):
        with _scope(actor, values):
            return batch.actor_loss(actor, recipe, data, coefficients)

    def value_loss(values, data):
        with _scope(critic, values):
            return batch.critic_loss(critic, data), 0.0

    start = (actor_values, actor_slots)
    new, policy_losses = _minimise(policy_loss, actor_optimizer, *start, actor_batch, minibatches[0])
    kl = policy_loss(new[0], actor_batch)[1]
    reverted = kl > recipe.revert_kl
    actor_values, actor_slots = jax.tree.map(lambda a, b: jnp.where(reverted, a, b), start, new)
    (critic_values, critic_slots), value_losses = _minimise(
        value_loss,
        critic_optimizer,
        critic_values,
        critic_slots,
        batch.concatenate([*buffer, current]),
        minibatches[1],
    )
    logs = {
        "policy_loss": policy_losses.mean(),
        "value_loss": value_losses.mean(),
        "kl": kl,
        "reverted": reverted.astype("float32"),
        "explained_variance": explained,
    }
    return [actor_values, critic_values, actor_slots, critic_slots], current, logs


def _minimise(loss, optimizer, values, slots, data, minibatches):
    """One optimiser step per row of `minibatches`, as one scan."""
    gradient = jax.value_and_grad(loss, has_aux=True)

    def step(carry, indices):
        values, slots = carry
        (value, _), gradients = gradient(values, batch.take(data, indices))
        values, slots = optimizer.stateless_apply(slots, gradients, values)
        return (values, slots), value

    return jax.lax.scan(step, (values, slots), minibatches)


def _scope(network, values):
    return keras.StatelessScope(list(zip(network.trainable_variables, values, strict=True)))
