"""What an update computes, without saying how it is compiled: `keras.ops` on plain dicts of arrays.

A batch holds segments: arrays `(T, M, ...)` over M segments of T steps, and under names that end in `_state` the
packed states `(M, S)` before each segment.
"""

from keras import ops

from nmn_keras import losses, returns

_INPUTS = ("observation", "prev_action", "prev_reward", "keep")


def prepare(critic, recipe, rollout):
    """Values, advantages and targets of a rollout, cut into segments.

    Args:
        critic: the critic network.
        recipe: the recipe, which defines the targets.
        rollout: dict of the arrays of a `Rollout`.

    Returns:
        actor batch, critic batch, and the share of the targets' variance that the critic explained before learning.
    """
    value, critic_state = _values(critic, rollout)
    successor_value = _successor_values(critic, rollout, critic_state)
    advantage, target = recipe.targets(
        critic.scaled(rollout["reward"]), value, successor_value, rollout["terminated"], rollout["ended"]
    )
    steps, segment = trained_steps(recipe, rollout["reward"].shape[0]), recipe.segment_steps
    starts = _segment_starts(critic_state, steps, segment)

    def cut(x):
        return _cut(x[:steps], segment)

    inputs = {name: cut(rollout[name]) for name in _INPUTS}
    actor_batch = {
        **inputs,
        **{name: cut(rollout[name]) for name in ("action", "policy")},
        # A mode that was played says nothing of its neighbours: no advantage, no policy gradient.
        "advantage": cut(returns.normalise(advantage[:steps]) * rollout["explored"][:steps]),
        "actor_state": _merge(rollout["actor_state"][: steps // segment]),
    }
    critic_batch = {**inputs, "target": cut(target), "critic_state": starts}
    explained = 1.0 - ops.var(target - value) / (ops.var(target) + 1e-12)
    return actor_batch, critic_batch, explained


def trained_steps(recipe, steps):
    """Steps of an episode that enter the losses: whole segments only.

    Raises:
        ValueError: if the episode is shorter than one segment.
    """
    steps = min(recipe.trained_steps or steps, steps) // recipe.segment_steps * recipe.segment_steps
    if steps == 0:
        raise ValueError(
            "An update must play at least one segment. Lower `segment_steps` or raise `rollout_steps`. "
            f"Received: segment_steps={recipe.segment_steps}"
        )
    return steps


def take(batch, indices):
    """The segments of a batch at the given indices."""
    return {name: ops.take(x, indices, axis=0 if name.endswith("_state") else 1) for name, x in batch.items()}


def concatenate(batches):
    """Batches joined along the segment axis."""
    return {
        name: ops.concatenate([batch[name] for batch in batches], axis=0 if name.endswith("_state") else 1)
        for name in batches[0]
    }


def actor_loss(actor, recipe, batch, coefficients):
    """Policy loss of a batch and its KL divergence from the policy that played."""
    output, _ = actor.sequence(*(batch[n] for n in _INPUTS[:3]), batch["actor_state"], batch["keep"])
    head = actor.architecture.head
    policy = head.policy(output)
    old = head.log_prob(batch["policy"], batch["action"])
    ratio = ops.exp(head.log_prob(policy, batch["action"]) - old)
    kl = ops.mean(head.kl(batch["policy"], policy))
    loss = recipe.policy_loss(ratio, batch["advantage"], kl, coefficients)
    if recipe.entropy_weight:
        loss = loss - recipe.entropy_weight * ops.mean(head.entropy(policy))
    return loss, kl


def critic_loss(critic, batch):
    """Value loss of a batch."""
    output, _ = critic.sequence(*(batch[n] for n in _INPUTS[:3]), batch["critic_state"], batch["keep"])
    return losses.value_loss(output[..., 0], batch["target"])


def _values(critic, rollout):
    n, size = rollout["reward"].shape[1], critic.architecture.state_size
    value, state = critic.sequence(*(rollout[name] for name in _INPUTS[:3]), ops.zeros((n, size)), rollout["keep"])
    return value[..., 0], state


def _successor_values(critic, rollout, state):
    """The critic one step on from each step, as if no episode had ended: `(T, N)`.

    One step from known states needs no scan, so all T * N of them are one batch.
    """
    steps, n = rollout["reward"].shape
    following = (rollout["successor"], rollout["played"], rollout["reward"][..., None], state)
    value, _, _ = critic.step(*(_merge(x) for x in following))
    return ops.reshape(value, (steps, n))


def _segment_starts(state, steps, segment):
    """States before each segment, `(M, S)`: zeros before the first, else what the step before left."""
    later = state[segment - 1 : steps - 1 : segment]
    return _merge(ops.concatenate([ops.zeros_like(state[:1]), later], axis=0))


def _merge(x):
    return ops.reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:]))


def _cut(x, segment):
    """`(L, N, ...)` to `(segment, L / segment * N, ...)`, segments of one time next to each other."""
    count, n = x.shape[0] // segment, x.shape[1]
    x = ops.reshape(x, (count, segment, n, *x.shape[2:]))
    x = ops.moveaxis(x, 1, 0)
    return ops.reshape(x, (segment, count * n, *x.shape[3:]))
