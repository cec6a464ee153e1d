"""Segments of a rollout with endings in the middle of a segment, at its edge and at the last step."""

import dataclasses
import functools

import drawn_rollout
import numpy as np
import pytest
import references
from keras.ops import convert_to_tensor
from numpy.testing import assert_allclose, assert_array_equal
from on_backend import as_numpy, compiled, on_tensors, value_and_gradients

from nmn_keras.architecture import Architecture
from nmn_keras.networks import build_network
from nmn_keras.recipes import FastRecipe, PaperRecipe
from nmn_keras.updates import batch

CLOSE = {"rtol": 1e-4, "atol": 2e-5}
STEPS, ROWS, SEGMENT = 12, 3, 4
ENDS = np.full((STEPS, ROWS), "", dtype=object)
ENDS[5, 0] = ENDS[7, 1] = "terminated"
ENDS[3, 1] = ENDS[9, 1] = ENDS[11, 2] = "truncated"

ARCHITECTURES = {
    "nmn": Architecture(
        "nmn", 2, 2, (3, 2), 2, "tanh", (3,), "srelu", None, (-1.0, None), (1.5, 2.0), (0.7, 1.0),
        reward_scale=0.3, log_var_min=-1.5,
    ),
    "rnn": Architecture("rnn", 1, 1, (4,), 0, hidden_units=(3,), activation="relu"),
    "nmn of choices": Architecture(
        "nmn", 2, 2, (3,), 2, "tanh", (3,), action_low=(0.0, -1.0), action_high=(2.0, 0.0), action_offset=(0.0, -1.0),
        action_head="categorical", action_sizes=(3, 2),
    ),
}  # fmt: skip
FAST = FastRecipe(segment_steps=SEGMENT, discount=0.9, trace=0.8)
PAPER = PaperRecipe(segment_steps=SEGMENT, trained_steps=None, discount=0.9, trace=0.8)


@dataclasses.dataclass(frozen=True)
class ShownRatio(FastRecipe):
    """Gives the ratio itself for a loss."""

    def policy_loss(self, ratio, advantage, kl, coefficients):
        return ratio


@dataclasses.dataclass(frozen=True)
class ShownValues(FastRecipe):
    """Gives the critic's values of the steps' successors for targets."""

    def targets(self, reward, value, successor_value, terminated, ended):
        return value, successor_value


@functools.cache
def network(kind, role):
    architecture = ARCHITECTURES[kind]
    made = build_network(architecture, architecture.policy_units if role == "actor" else 1)
    made.set_weights(references.random_weights(made, seed=len(role)))
    return made


@functools.cache
def drifted_weights(kind):
    """The actor's weights a little later, so that neither ratio nor divergence is trivial."""
    actor = network(kind, "actor")
    drift = references.random_weights(actor, seed=8, deviation=0.03)
    return [w + d for w, d in zip(actor.get_weights(), drift, strict=True)]


@functools.cache
def drifting_actor(kind):
    """A network for an actor's weights and what they become."""
    return build_network(ARCHITECTURES[kind], ARCHITECTURES[kind].policy_units)


@functools.cache
def played(kind, all_explored=True):
    """The actor's rollout, as a dict of numpy arrays."""
    explored = np.ones((STEPS, ROWS))
    if not all_explored:
        explored[:SEGMENT, 0] = explored[SEGMENT : 2 * SEGMENT, 2] = 0.0
    weights = network(kind, "actor").get_weights()
    rollout = drawn_rollout.play(ARCHITECTURES[kind], weights, STEPS, ENDS, SEGMENT, 7, explored)
    return rollout.arrays()


def tensors(arrays):
    return {name: convert_to_tensor(x) for name, x in arrays.items()}


def prepare(kind, recipe, rollout):
    """`batch.prepare` with numpy in and out."""
    critic, names = network(kind, "critic"), list(rollout)

    def run(*arrays):
        return batch.prepare(critic, recipe, dict(zip(names, arrays, strict=True)))

    return on_tensors(run, *rollout.values())


@functools.cache
def prepared(kind):
    """Actor batch, critic batch and explained variance under the fast recipe."""
    return prepare(kind, FAST, played(kind))


def critic_reference(kind, rollout, network_weights=None):
    """The critic's values `(T, N)` and packed states `(T, N, S)` along a rollout."""
    weights = network_weights or network(kind, "critic").get_weights()
    start = np.zeros((ROWS, ARCHITECTURES[kind].state_size))
    inputs = (rollout[name] for name in ("observation", "prev_action", "prev_reward"))
    values, states = references.network_sequence(ARCHITECTURES[kind], weights, *inputs, start, rollout["keep"])
    return values[..., 0], states


def successor_reference(kind, rollout, states):
    """The critic one step on from each state, `(T, N)`, whether the episode ended there or not."""
    weights, architecture = network(kind, "critic").get_weights(), ARCHITECTURES[kind]
    values = [
        references.network_step(architecture, weights, x, action, reward[:, None], state)[0][:, 0]
        for x, action, reward, state in zip(
            rollout["successor"], rollout["played"], rollout["reward"], states, strict=True
        )
    ]
    return np.stack(values)


def segments(x):
    """`(T, N, ...)` cut by hand: `(SEGMENT, M, ...)`, all rows of the first segment, then of the second."""
    cut = [x[t : t + SEGMENT, n] for t in range(0, len(x), SEGMENT) for n in range(x.shape[1])]
    return np.stack(cut, axis=1)


# Cutting


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_segments_are_slices_of_the_rollout(kind):
    actor_batch, critic_batch, _ = prepared(kind)
    rollout = played(kind)
    shared = ("observation", "prev_action", "prev_reward", "keep")
    for name in (*shared, "action", "policy"):
        assert_array_equal(actor_batch[name], segments(rollout[name]))
    for name in shared:
        assert_array_equal(critic_batch[name], actor_batch[name])
    assert actor_batch["keep"].min() == 0.0
    assert actor_batch.keys() == {*shared, "action", "policy", "advantage", "actor_state"}
    assert critic_batch.keys() == {*shared, "target", "critic_state"}


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_segments_start_from_the_states_met_while_playing(kind):
    actor_batch, critic_batch, _ = prepared(kind)
    rollout = played(kind)
    assert_array_equal(actor_batch["actor_state"], np.concatenate(rollout["actor_state"]))
    _, states = critic_reference(kind, rollout)
    expected = np.concatenate([0.0 * states[0], states[3], states[7]])
    assert_allclose(critic_batch["critic_state"], expected, **CLOSE)
    assert np.abs(expected[ROWS:]).max(axis=1).min() > 0.1


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_running_the_segments_is_running_the_whole(kind):
    actor_batch, critic_batch, _ = prepared(kind)
    names = ("observation", "prev_action", "prev_reward")
    found = {}
    for role, data in (("actor", actor_batch), ("critic", critic_batch)):
        arrays = (*(data[name] for name in names), data[f"{role}_state"], data["keep"])
        found[role], _ = on_tensors(network(kind, role).sequence, *arrays)
    parameters = references.packed_policy(ARCHITECTURES[kind], found["actor"])
    assert_allclose(parameters, actor_batch["policy"], **CLOSE)
    values, _ = critic_reference(kind, played(kind))
    assert_allclose(found["critic"][..., 0], segments(values), **CLOSE)


@pytest.mark.parametrize(("trained", "used"), [(8, 8), (7, 4), (40, 12)])
def test_only_whole_segments_of_the_first_steps_are_trained_on(trained, used):
    recipe = dataclasses.replace(FAST, trained_steps=trained)
    assert batch.trained_steps(recipe, STEPS) == used
    actor_batch, critic_batch, _ = prepare("rnn", recipe, played("rnn"))
    assert_array_equal(actor_batch["action"], segments(played("rnn")["action"][:used]))
    whole = prepared("rnn")[1]
    count = used // SEGMENT * ROWS
    assert_allclose(critic_batch["target"], whole["target"][:, :count], **CLOSE)
    assert_allclose(critic_batch["critic_state"], whole["critic_state"][:count], **CLOSE)
    assert actor_batch["actor_state"].shape[0] == count
    assert_allclose(actor_batch["advantage"].mean(), 0.0, atol=1e-5)
    assert_allclose(actor_batch["advantage"].std(), 1.0, rtol=1e-4)


@pytest.mark.parametrize(("steps", "trained"), [(3, None), (12, 3)])
def test_less_than_a_segment_is_refused(steps, trained):
    recipe = dataclasses.replace(FAST, trained_steps=trained)
    with pytest.raises(ValueError, match=r"at least one segment.*Received: segment_steps=4"):
        batch.trained_steps(recipe, steps)


# Values, advantages, targets


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_successors_are_valued_as_if_no_episode_had_ended(kind):
    rollout, recipe = played(kind), ShownValues(segment_steps=SEGMENT)
    shown = prepare(kind, recipe, rollout)[1]["target"]
    values, states = critic_reference(kind, rollout)
    expected = successor_reference(kind, rollout, states)
    assert_allclose(shown, segments(expected), **CLOSE)
    goes_on = rollout["ended"][:-1] == 0.0
    assert_allclose(expected[:-1][goes_on], values[1:][goes_on], **CLOSE)
    assert np.abs(expected[:-1] - values[1:])[~goes_on].min() > 1e-3


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_fast_batch_holds_advantages_and_targets(kind):
    rollout = played(kind)
    actor_batch, critic_batch, explained = prepared(kind)
    values, states = critic_reference(kind, rollout)
    next_value = successor_reference(kind, rollout, states) * (1.0 - rollout["terminated"])
    reward = 0.1 * rollout["reward"]
    advantage = references.episode_advantages(reward, values, next_value, rollout["ended"], 0.9, 0.8)
    target = advantage + values
    assert_allclose(critic_batch["target"], segments(target), **CLOSE)
    normalised = (advantage - advantage.mean()) / advantage.std()
    assert_allclose(actor_batch["advantage"], segments(normalised), rtol=1e-3, atol=1e-4)
    assert_allclose(explained, 1.0 - advantage.var() / target.var(), rtol=1e-4)


def test_paper_batch_holds_returns():
    rollout = played("nmn")
    _, critic_batch, explained = prepare("nmn", PAPER, rollout)
    target = references.episode_returns(0.1 * rollout["reward"], rollout["ended"], 0.9)
    assert_allclose(critic_batch["target"], segments(target), **CLOSE)
    values, _ = critic_reference("nmn", rollout)
    assert_allclose(explained, 1.0 - (target - values).var() / target.var(), rtol=1e-4)


def test_means_that_were_played_have_no_advantage():
    rollout = played("rnn", all_explored=False)
    advantage = prepare("rnn", FAST, rollout)[0]["advantage"]
    explored = segments(rollout["explored"])
    assert (advantage[explored == 0.0] == 0.0).all()
    assert (advantage[explored == 1.0] != 0.0).all()
    assert_array_equal(rollout["action"][:SEGMENT, 0], rollout["policy"][:SEGMENT, 0, :1])


# Taking and joining


def test_taken_segments_are_those_asked_for():
    actor_batch, critic_batch, _ = prepared("rnn")
    indices = np.array([5, 0, 5], "int32")
    for data in (actor_batch, critic_batch):
        found = as_numpy(batch.take(tensors(data), convert_to_tensor(indices)))
        for name, x in data.items():
            expected = x[indices] if name.endswith("_state") else x[:, indices]
            assert_array_equal(found[name], expected)


def test_joined_batches_are_taken_from_across_the_seam():
    first = prepared("rnn")[1]
    second = {name: x + 1.0 for name, x in first.items()}
    joined = batch.concatenate([tensors(first), tensors(second)])
    found = as_numpy(batch.take(joined, convert_to_tensor([8, 9])))
    for name, x in found.items():
        axis = 0 if name.endswith("_state") else 1
        old, new = np.take(first[name], 8, axis), np.take(second[name], 0, axis)
        assert_array_equal(x, np.stack([old, new], axis))


# Losses


def actor_reference(kind, data, weights):
    """The ratio of probabilities and the mean KL divergence in numpy."""
    names = ("observation", "prev_action", "prev_reward", "actor_state", "keep")
    inputs = (data[name] for name in names)
    output, _ = references.network_sequence(ARCHITECTURES[kind], weights, *inputs)
    a, old = ARCHITECTURES[kind], data["policy"]
    new = references.packed_policy(a, output)
    difference = references.log_prob(a, new, data["action"]) - references.log_prob(a, old, data["action"])
    return np.exp(difference), references.kl(a, old, new).mean()


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_ratio_is_one_on_the_policy_s_own_data_and_moves_with_it(kind):
    actor, data = drifting_actor(kind), prepared(kind)[0]
    run = compiled(actor, lambda: batch.actor_loss(actor, ShownRatio(), tensors(data), {}))
    actor.set_weights(network(kind, "actor").get_weights())
    ratio, kl = as_numpy(run())
    assert_allclose(ratio, np.ones((SEGMENT, STEPS // SEGMENT * ROWS)), rtol=1e-5)
    assert_allclose(kl, 0.0, atol=1e-7)
    actor.set_weights(drifted_weights(kind))
    ratio, kl = as_numpy(run())
    expected_ratio, expected_kl = actor_reference(kind, data, drifted_weights(kind))
    assert_allclose(ratio, expected_ratio, rtol=1e-4)
    assert_allclose(kl, expected_kl, rtol=1e-3)
    assert kl > 1e-3


def loss_reference(recipe, ratio, kl, advantage, penalty):
    """Either recipe's policy loss in numpy."""
    if recipe.name == "fast":
        return references.clipped_policy_loss(ratio, advantage, recipe.clip)
    numbers = penalty, recipe.kl_target, recipe.excess_weight
    return references.penalised_policy_loss(ratio, advantage, kl, *numbers)


@pytest.mark.parametrize(("kind", "recipe"), [("nmn", PAPER), ("rnn", FAST)], ids=["paper", "fast"])
def test_actor_loss_and_gradient_are_the_reference_s(kind, recipe):
    actor, data, weights = drifting_actor(kind), prepared(kind)[0], drifted_weights(kind)
    actor.set_weights(weights)

    def loss():
        return batch.actor_loss(actor, recipe, tensors(data), {"kl_penalty": 1.3})[0]

    def reference(values):
        ratio, kl = actor_reference(kind, data, values)
        return loss_reference(recipe, ratio, kl, data["advantage"], 1.3)

    value, found = value_and_gradients(loss, actor.trainable_variables)
    assert_allclose(value, reference(weights), rtol=1e-4, atol=1e-5)
    slopes = references.finite_differences(reference, weights)
    assert all(np.abs(slope).max() > 1e-3 for slope in slopes)
    for gradient, slope in zip(found, slopes, strict=True):
        assert_allclose(gradient, slope, rtol=2e-3, atol=2e-5)


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_critic_loss_and_gradient_are_the_reference_s(kind):
    critic, data = network(kind, "critic"), prepared(kind)[1]
    weights = critic.get_weights()
    names = ("observation", "prev_action", "prev_reward", "critic_state", "keep")

    def loss():
        return batch.critic_loss(critic, tensors(data))

    def reference(values):
        inputs = (data[name] for name in names)
        output, _ = references.network_sequence(ARCHITECTURES[kind], values, *inputs)
        return ((output[..., 0] - data["target"]) ** 2).mean()

    value, found = value_and_gradients(loss, critic.trainable_variables)
    assert_allclose(value, reference(weights), rtol=1e-5)
    slopes = references.finite_differences(reference, weights)
    assert all(np.abs(slope).max() > 1e-3 for slope in slopes)
    for gradient, slope in zip(found, slopes, strict=True):
        assert_allclose(gradient, slope, rtol=2e-3, atol=2e-5)
