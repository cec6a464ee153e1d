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
    owned = _owned(*parts)

    @jax.jit
    def pure(values, rollout, buffer, minibatches, coefficients):
        return _update(parts, recipe, values, rollout, buffer, minibatches, coefficients)

    def update(rollout, buffer, minibatches, coefficients):
        values, current, logs = pure(_values(owned), rollout, buffer, minibatches, coefficients)
        _assign(owned, values)
        return current, logs

    return update


def compile_together(agent, play):
    """The compiled rollout and update of several agents like this one.

    Args:
        agent: a compiled `ActorCritic`; all have its architecture, optimisers and recipe.
        play: function `(actor, recipe, draws)` that gives the arrays of a rollout.

    Returns:
        Function of lists, one element per agent: agents, draws, critic buffers, `(minibatches, coefficients)`. It
        changes the agents' weights and optimisers and gives, per agent, rewards and policies of the rollout,
        the critic's batch and the logs.
    """
    parts = (agent.actor, agent.critic, agent.optimizers.actor, agent.optimizers.critic)

    def one(values, draws, buffer, plan):
        with _scope(agent.actor, values[0], values[4]):
            played = play(agent.actor, agent.recipe, draws)
        values, current, logs = _update(parts, agent.recipe, values, played, buffer, *plan)
        return values, (played["reward"], played["policy"]), current, logs

    @jax.jit
    def pure(*each):
        stacked = [jax.tree.map(lambda *leaves: jnp.stack(leaves), *lists) for lists in each]
        results = jax.vmap(one)(*stacked)
        leaves, structure = jax.tree.flatten(results)
        return [jax.tree.unflatten(structure, [leaf[i] for leaf in leaves]) for i in range(len(each[0]))]

    def update(agents, draws, buffers, plans):
        owned = [_owned(a.actor, a.critic, a.optimizers.actor, a.optimizers.critic) for a in agents]
        results = pure([_values(variables) for variables in owned], draws, buffers, plans)
        for variables, (new, *_) in zip(owned, results, strict=True):
            _assign(variables, new)
        return [(jax.device_get(played), current, logs) for _, played, current, logs in results]

    return update


def _owned(actor, critic, actor_optimizer, critic_optimizer):
    """All variables that an update reads; it changes all but the last ones."""
    return [
        actor.trainable_variables,
        critic.trainable_variables,
        actor_optimizer.variables,
        critic_optimizer.variables,
        actor.non_trainable_variables,
        critic.non_trainable_variables,
    ]


def _values(owned):
    return [[v.value for v in variables] for variables in owned]


def _assign(owned, values):
    for variables, new in zip(owned, values, strict=True):
        for variable, value in zip(variables, new, strict=True):
            variable.assign(value)


def _update(parts, recipe, values, rollout, buffer, minibatches, coefficients):
    actor, critic, actor_optimizer, critic_optimizer = parts
    actor_values, critic_values, actor_slots, critic_slots, *fixed = values
    with _scope(critic, critic_values, fixed[1]):
        actor_batch, current, explained = batch.prepare(critic, recipe, rollout)

    def policy_loss(values, data):
        with _scope(actor, values, fixed[0]):
            return batch.actor_loss(actor, recipe, data, coefficients)

    def value_loss(values, data):
        with _scope(critic, values, fixed[1]):
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
    return [actor_values, critic_values, actor_slots, critic_slots, *fixed], current, logs


def _minimise(loss, optimizer, values, slots, data, minibatches):
    """One optimiser step per row of `minibatches`, as one scan."""
    gradient = jax.value_and_grad(loss, has_aux=True)

    def step(carry, indices):
        values, slots = carry
        (value, _), gradients = gradient(values, batch.take(data, indices))
        values, slots = optimizer.stateless_apply(slots, gradients, values)
        return (values, slots), value

    return jax.lax.scan(step, (values, slots), minibatches)


def _scope(network, values, fixed):
    variables = [*network.trainable_variables, *network.non_trainable_variables]
    return keras.StatelessScope(list(zip(variables, [*values, *fixed], strict=True)))
