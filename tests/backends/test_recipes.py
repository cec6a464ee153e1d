import dataclasses
import json

import numpy as np
import pytest
import references
from numpy.testing import assert_allclose, assert_array_equal
from on_backend import on_tensors

from nmn_keras import recipes
from nmn_keras.recipes import FastRecipe, PaperRecipe

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
TARGET = PaperRecipe().kl_target
STEPS, ROWS = 9, 3


def draw_episodes(seed=0):
    """Rewards, values, successors' values, terminations and endings `(L, N)`: one terminated in the middle, one
    truncated there, all cut at the end.
    """
    rng = np.random.default_rng(seed)
    reward, value, successor = (rng.normal(size=(STEPS, ROWS)) for _ in range(3))
    terminated, ended = np.zeros((2, STEPS, ROWS))
    terminated[3, 0] = ended[3, 0] = ended[5, 1] = 1.0
    ended[-1] = 1.0
    successor[:-1] = np.where(ended[:-1] == 1.0, successor[:-1], value[1:])
    return reward, value, successor, terminated, ended


# Adaptation


@pytest.mark.parametrize(
    ("penalty", "rate", "kl", "expected"),
    [
        # KL > 2 d_targ: beta * 1.5, at most 30; beyond 0.85 * 30 the rate falls too.
        (1.0, 2e-4, 2.1 * TARGET, (1.5, 2e-4)),
        (25.4, 2e-4, 2.1 * TARGET, (30.0, 2e-4)),
        (25.6, 2e-4, 2.1 * TARGET, (30.0, 2e-4 / 1.5)),
        (30.0, 2e-4, 9.9, (30.0, 2e-4 / 1.5)),
        # KL < d_targ / 2: beta / 1.5, at least 1 / 30; below 1.15 / 30 the rate rises too.
        (1.0, 2e-4, 0.4 * TARGET, (1.0 / 1.5, 2e-4)),
        (0.04, 2e-4, 0.4 * TARGET, (1.0 / 30.0, 2e-4)),
        (0.038, 2e-4, 0.4 * TARGET, (1.0 / 30.0, 3e-4)),
        (1.0 / 30.0, 2e-4, 0.0, (1.0 / 30.0, 3e-4)),
        # In between nothing moves, at the edges neither.
        (30.0, 2e-4, 1.9 * TARGET, (30.0, 2e-4)),
        (1.0 / 30.0, 2e-4, 0.6 * TARGET, (1.0 / 30.0, 2e-4)),
        (7.0, 3e-5, 2.0 * TARGET, (7.0, 3e-5)),
        (7.0, 3e-5, 0.5 * TARGET, (7.0, 3e-5)),
        # The rate is capped on both sides (ours).
        (1.0 / 30.0, 1.9e-3, 0.0, (1.0 / 30.0, 2e-3)),
        (30.0, 1.1e-6, 9.9, (30.0, 1e-6)),
    ],
)
def test_paper_adapts_beta_and_at_its_bounds_the_rate(penalty, rate, kl, expected):
    found = PaperRecipe().adapt({"kl_penalty": penalty, "actor_learning_rate": rate}, kl)
    assert_allclose((found["kl_penalty"], found["actor_learning_rate"]), expected, rtol=1e-12)


def test_paper_stays_in_bounds_whatever_comes():
    recipe, rng = PaperRecipe(), np.random.default_rng(0)
    coefficients, seen = recipe.coefficients(), []
    assert coefficients == {"actor_learning_rate": 2e-4, "kl_penalty": 1.0}
    for scale in np.repeat([3.0, 0.3, 1.0, 5.0, 0.1], 60):
        coefficients = recipe.adapt(coefficients, scale * TARGET * rng.uniform(0.5, 1.5))
        seen.append((coefficients["kl_penalty"], coefficients["actor_learning_rate"]))
    assert_allclose(np.min(seen, axis=0), [1.0 / 30.0, 1e-6], rtol=1e-12)
    assert_allclose(np.max(seen, axis=0), [30.0, 2e-3], rtol=1e-12)


@pytest.mark.parametrize(
    ("rate", "kl", "expected"),
    [
        (1e-3, 0.041, 1e-3 / 1.5),
        (1e-3, 0.009, 1.2e-3),
        (1e-3, 0.039, 1e-3),
        (1e-3, 0.011, 1e-3),
        (1.9e-3, 0.0, 2e-3),
        (1.1e-5, 9.9, 1e-5),
    ],
)
def test_fast_adapts_the_rate(rate, kl, expected):
    found = FastRecipe(actor_learning_rate=2e-3, kl_target=0.02).adapt({"actor_learning_rate": rate}, kl)
    assert found == {"actor_learning_rate": pytest.approx(expected, rel=1e-12)}


def test_rates_decay_in_the_fast_recipe_alone():
    fast = FastRecipe(critic_learning_rate=4e-3)
    now = {"actor_learning_rate": 1e-3}
    assert fast.learning_rates(now, 0.0) == (1e-3, 4e-3)
    assert_allclose(fast.learning_rates(now, 0.75), (2.5e-4, 1e-3))
    now = {"actor_learning_rate": 3e-4, "kl_penalty": 2.0}
    assert PaperRecipe().learning_rates(now, 0.75) == (3e-4, 6e-3)


# Targets


def test_paper_targets_are_returns_and_advantages_to_the_episode_s_end():
    recipe = PaperRecipe(discount=0.9, trace=0.8)
    reward, value, successor, _, ended = arrays = draw_episodes()
    advantage, target = on_tensors(recipe.targets, *arrays)
    returns = references.episode_returns(0.1 * reward, ended, 0.9)
    assert_allclose(target, returns, **CLOSE)
    nothing_after_ends = successor * (1.0 - ended)
    expected = references.episode_advantages(0.1 * reward, value, nothing_after_ends, ended, 0.9, 0.8)
    assert_allclose(advantage, expected, **CLOSE)


def test_paper_target_does_not_depend_on_the_critic():
    reward, value, successor, terminated, ended = draw_episodes()
    one = on_tensors(PaperRecipe().targets, reward, value, successor, terminated, ended)[1]
    two = on_tensors(PaperRecipe().targets, reward, value + 5.0, -successor, terminated, ended)[1]
    assert_array_equal(one, two)
    assert np.abs(one).min() > 0.0


def test_paper_counts_nothing_after_the_last_step_played():
    *arrays, ended = draw_episodes()
    one = on_tensors(PaperRecipe().targets, *arrays, ended)
    ended[-1] = 0.0
    two = on_tensors(PaperRecipe().targets, *arrays, ended)
    assert_array_equal(one, two)
    assert np.abs(one).min() > 0.0


def test_fast_targets_bootstrap_where_an_episode_was_only_cut():
    recipe = FastRecipe(discount=0.9, trace=0.8)
    reward, value, successor, terminated, ended = arrays = draw_episodes()
    advantage, target = on_tensors(recipe.targets, *arrays)
    next_value = successor * (1.0 - terminated)
    expected = references.episode_advantages(0.1 * reward, value, next_value, ended, 0.9, 0.8)
    assert_allclose(advantage, expected, **CLOSE)
    assert_allclose(target, expected + value, **CLOSE)
    blind = on_tensors(recipe.targets, reward, value, 0.0 * successor, terminated, ended)[0]
    assert np.abs(blind - advantage)[5, 1] > 0.01
    assert_allclose(blind[3, 0], advantage[3, 0], **CLOSE)


@pytest.mark.parametrize("recipe", [PaperRecipe, FastRecipe])
def test_full_trace_makes_advantage_and_value_the_return(recipe):
    """To the end for the paper; the fast recipe counts the critic's value of what was cut off as a last reward."""
    reward, value, successor, terminated, ended = arrays = draw_episodes()
    advantage, target = on_tensors(recipe(discount=0.9, trace=1.0).targets, *arrays)
    rest = 0.0 if recipe is PaperRecipe else 0.9 * successor * (ended - terminated)
    returns = references.episode_returns(0.1 * reward + rest, ended, 0.9)
    assert_allclose(advantage + value, returns, **CLOSE)
    assert_allclose(target, returns, **CLOSE)


def test_short_trace_makes_the_advantage_a_one_step_difference():
    reward, value, successor, terminated, _ = arrays = draw_episodes()
    advantage, _ = on_tensors(FastRecipe(discount=0.9, trace=1e-9).targets, *arrays)
    expected = 0.1 * reward + 0.9 * (1.0 - terminated) * successor - value
    assert_allclose(advantage, expected, **CLOSE)


# Policy loss


def test_policy_losses_use_the_recipes_numbers():
    rng = np.random.default_rng(0)
    ratio, advantage = np.exp(0.5 * rng.normal(size=(4, 3))), rng.normal(size=(4, 3))
    paper = PaperRecipe(kl_target=0.01, excess_weight=7.0)
    found = on_tensors(lambda *x: paper.policy_loss(*x, {"kl_penalty": 3.0}), ratio, advantage, 0.5)
    expected = references.penalised_policy_loss(ratio, advantage, 0.5, 3.0, 0.01, 7.0)
    assert_allclose(found, expected, **CLOSE)
    fast = FastRecipe(clip=0.1)
    found = on_tensors(lambda *x: fast.policy_loss(*x, {}), ratio, advantage, 0.5)
    assert_allclose(found, references.clipped_policy_loss(ratio, advantage, 0.1), **CLOSE)


# Minibatches


def test_paper_s_actor_sees_everything_and_its_critic_each_segment_once_an_epoch():
    recipe = PaperRecipe(actor_epochs=3, critic_epochs=4, critic_minibatch=5)
    actor, critic = recipe.minibatches(np.random.default_rng(0), 10, 30)
    assert_array_equal(actor, np.tile(np.arange(10), (3, 1)))
    assert critic.shape == (4 * 6, 5)
    assert actor.dtype == critic.dtype == np.int32
    epochs = critic.reshape(4, 30)
    assert_array_equal(np.sort(epochs, axis=1), np.tile(np.arange(30), (4, 1)))
    assert len(np.unique(epochs, axis=0)) == 4


def test_paper_s_critic_leaves_the_remainder_of_an_epoch_out():
    recipe = PaperRecipe(critic_epochs=6, critic_minibatch=4)
    _, critic = recipe.minibatches(np.random.default_rng(0), 11, 11)
    epochs = critic.reshape(6, 8)
    assert all(len(np.unique(epoch)) == 8 for epoch in epochs)
    assert_array_equal(np.unique(epochs), np.arange(11))
    _, small = recipe.minibatches(np.random.default_rng(0), 3, 3)
    assert_array_equal(np.sort(small, axis=1), np.tile(np.arange(3), (6, 1)))


@pytest.mark.parametrize(("segments", "in_one", "size"), [(256, 4, 64), (12, 3, 4), (7, 7, 1), (5, 1, 5), (2, 4, 1)])
def test_fast_sees_each_segment_once_an_epoch(segments, in_one, size):
    recipe = FastRecipe(epochs=3, minibatches_per_epoch=in_one)
    actor, critic = recipe.minibatches(np.random.default_rng(0), segments, segments)
    assert_array_equal(actor, critic)
    assert actor.dtype == np.int32
    assert actor.shape[1] == size
    epochs = actor.reshape(3, segments)
    assert_array_equal(np.sort(epochs, axis=1), np.tile(np.arange(segments), (3, 1)))
    assert segments < 5 or len(np.unique(epochs, axis=0)) == 3


@pytest.mark.parametrize(("segments", "in_one"), [(10, 4), (7, 4), (15, 4)])
def test_fast_makes_as_many_steps_an_epoch_as_it_says(segments, in_one):
    recipe = FastRecipe(epochs=3, minibatches_per_epoch=in_one)
    actor, _ = recipe.minibatches(np.random.default_rng(0), segments, segments)
    assert len(actor) == 3 * in_one


@pytest.mark.parametrize("recipe", recipes.RECIPES.values())
def test_minibatches_follow_from_the_generator(recipe):
    one, same, other = (recipe().minibatches(np.random.default_rng(seed), 40, 40)[1] for seed in (1, 1, 2))
    assert_array_equal(one, same)
    assert (one != other).any()


# Contracts over the registry


@pytest.mark.parametrize("name", recipes.RECIPES)
def test_recipes_by_name_survive_json(name):
    recipe = dataclasses.replace(recipes.get(name), discount=0.5, trained_steps=70, episodes=999)
    assert recipes.get(recipe) is recipe
    assert recipe.name == name
    config = json.loads(json.dumps(recipes.to_config(recipe)))
    assert recipes.from_config(config) == recipe != recipes.get(name)


def test_defaults_are_the_papers():
    paper = PaperRecipe()
    assert (paper.episodes_per_update, paper.trained_steps, paper.segment_steps) == (50, 400, 200)
    assert (paper.discount, paper.trace) == (0.998, 0.98)
    assert (paper.actor_epochs, paper.critic_epochs, paper.critic_minibatch) == (20, 10, 25)
    assert (paper.critic_batches, paper.critic_learning_rate) == (3, 6e-3)
    assert (paper.kl_target, paper.revert_kl, paper.excess_weight) == (0.003, 4 * 0.003, 50.0)


def test_unknown_recipes_are_refused():
    with pytest.raises(ValueError) as caught:
        recipes.get("fats")
    assert str(caught.value) == "Unknown recipe. Known: ['fast', 'paper']. Received: 'fats'"
    with pytest.raises(ValueError, match=r"Known.*Received: 'fats'"):
        recipes.from_config({**recipes.to_config(FastRecipe()), "name": "fats"})
    with pytest.raises(ValueError, match="speed"):
        recipes.from_config({**recipes.to_config(FastRecipe()), "speed": 3})


@pytest.mark.parametrize("name", recipes.RECIPES)
def test_numbers_out_of_range_are_refused(name):
    recipe = recipes.get(name)
    for field in dataclasses.fields(recipe):
        with pytest.raises(ValueError, match=f"`{field.name}` of the '{name}' recipe.*Received: -1"):
            dataclasses.replace(recipe, **{field.name: -1})
    with pytest.raises(ValueError, match=r"`trace`.*lie in \(0, 1\]. Received: 1.01"):
        dataclasses.replace(recipe, trace=1.01)
    with pytest.raises(ValueError, match=r"`discount`.*lie in \(0, 1\): rewards are scaled .* Received: 1.0$"):
        dataclasses.replace(recipe, discount=1.0)  # nothing would be left of the rewards
    with pytest.raises(ValueError, match="must not lie below `actor_learning_rate_min`"):
        dataclasses.replace(recipe, actor_learning_rate=1e-9)
    for field, value in (("segment_steps", 4.0), ("episodes", True), ("rollout_steps", 10.0), ("trace", "1")):
        with pytest.raises(TypeError, match=f"`{field}` of the '{name}' recipe must be a"):
            dataclasses.replace(recipe, **{field: value})
    with pytest.raises(ValueError, match=r"one update. Received: episodes=3, episodes_per_update="):
        dataclasses.replace(recipe, episodes=3)


def test_share_of_deterministic_segments_is_a_share():
    assert FastRecipe(deterministic_share=0.0).deterministic_share == 0.0
    with pytest.raises(ValueError, match=r"`deterministic_share`.*Received: 1.5"):
        FastRecipe(deterministic_share=1.5)
