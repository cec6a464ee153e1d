"""The update on TensorFlow: one graph from values to new weights."""

import tensorflow as tf

from nmn_keras.updates import batch


def compile_method(network, method):
    """A compiled call of a network's method, `*arrays -> arrays`, reading the present weights."""
    del network  # its variables are captured by the graph
    return tf.function(method, reduce_retracing=True)


def compile_update(actor, critic, actor_optimizer, critic_optimizer, recipe):
    """The compiled update.

    Args:
        actor: the actor network.
        critic: the critic network.
        actor_optimizer: built on the actor's variables.
        critic_optimizer: built on the critic's variables.
        recipe: the recipe.

    Returns:
        A function of (rollout arrays, list of earlier critic batches, (actor's, critic's) minibatch indices,
        coefficients) that changes the weights and gives the present critic batch and a dict of scalar logs.
    """

    @tf.function(reduce_retracing=True)
    def update(rollout, buffer, minibatches, coefficients):
        actor_batch, current, explained = batch.prepare(critic, recipe, rollout)
        restorable = actor.trainable_variables + actor_optimizer.variables
        start = [tf.identity(v.value) for v in restorable]

        def policy_loss(data):
            return batch.actor_loss(actor, recipe, data, coefficients)

        policy_losses = _minimise(
            lambda data: policy_loss(data)[0], actor, actor_optimizer, actor_batch, minibatches[0]
        )
        kl = policy_loss(actor_batch)[1]
        reverted = kl > recipe.revert_kl
        for variable, old in zip(restorable, start, strict=True):
            variable.assign(tf.where(reverted, old, variable.value))
        value_losses = _minimise(
            lambda data: batch.critic_loss(critic, data),
            critic,
            critic_optimizer,
            batch.concatenate([*buffer, current]),
            minibatches[1],
        )
        logs = {
            "policy_loss": tf.reduce_mean(policy_losses),
            "value_loss": tf.reduce_mean(value_losses),
            "kl": kl,
            "reverted": tf.cast(reverted, "float32"),
            "explained_variance": explained,
        }
        return current, logs

    return update


def _minimise(loss, network, optimizer, data, minibatches):
    """One optimiser step per row of `minibatches`, as one loop in the graph."""
    variables = network.trainable_variables
    steps = tf.shape(minibatches)[0]
    values = tf.TensorArray("float32", size=steps)
    for i in tf.range(steps):
        with tf.GradientTape() as tape:
            value = loss(batch.take(data, minibatches[i]))
        optimizer.apply(tape.gradient(value, variables), variables)
        values = values.write(i, value)
    return values.stack()
