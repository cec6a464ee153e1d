import dataclasses

import gymnasium
import numpy as np
import pytest
from tiny_envs import Menu, Patchwork

from nmn_keras import ActorCritic, defaults, rollout
from nmn_keras.architecture import Architecture
from nmn_keras.recipes import FastRecipe

TINY = {"gru_units": (4,), "hidden_units": (3,), "signal_units": 2}


def test_the_length_of_an_episode_decides():
    short, long = (defaults.derive(env).recipe for env in ("Pendulum-v1", "MountainCarContinuous-v0"))
    assert (short.rollout_steps, long.rollout_steps) == (200, 1000)  # 999 steps, in whole segments
    assert short.discount < long.discount < 1.0
    assert short.episodes_per_update > long.episodes_per_update
    for recipe in (short, long):
        assert recipe.rollout_steps % recipe.segment_steps == 0
        assert recipe.rollout_steps * recipe.episodes == pytest.approx(defaults.STEPS, rel=0.01)
    limited = defaults.derive("Pendulum-v1", env_kwargs={"max_episode_steps": 30}).recipe
    assert (limited.rollout_steps, limited.segment_steps) == (30, 30)
    assert defaults.derive("Pendulum-v1", env_kwargs={"max_episode_steps": 5000}).recipe.rollout_steps == 1000
    assert defaults.derive(Patchwork).recipe.rollout_steps == 1000  # has no time limit


def test_the_spaces_decide():
    real, choices = defaults.derive("Pendulum-v1"), defaults.derive("CartPole-v1", "rnn")
    assert real.recipe.noise_color > 0.0 == choices.recipe.noise_color
    assert real.recipe.entropy_weight == 0.0 < choices.recipe.entropy_weight
    assert real.architecture.feedback_scale == 0.5 and choices.architecture.feedback_scale == 1.0
    assert (choices.architecture.kind, choices.architecture.signal_units) == ("rnn", 0)
    assert defaults.derive(Menu).architecture.action_sizes == (3, 2)
    for derived in (real, choices):
        assert derived.architecture.normalise_observations and derived.architecture.normalise_rewards


def test_what_is_given_wins_and_the_rest_follows_it():
    derived = defaults.derive(
        "Pendulum-v1", architecture={"gru_units": (7,), "observation_period": 4.0}, recipe={"rollout_steps": 40}
    )
    assert derived.architecture.gru_units == (7,) and not derived.architecture.normalise_observations
    assert (derived.recipe.rollout_steps, derived.recipe.segment_steps) == (40, 40)
    assert derived.recipe.episodes * 40 == pytest.approx(defaults.STEPS, rel=0.01)
    assert not any("rollout_steps=" in reason or "gru_units=" in reason for reason in derived.reasons)
    number = gymnasium.make_vec("CartPole-v1", 3, vectorization_mode="vector_entry_point")
    assert defaults.derive(number).recipe.episodes_per_update == 3
    everything = {field.name: getattr(derived.recipe, field.name) for field in dataclasses.fields(FastRecipe)}
    assert defaults.derive("Pendulum-v1", recipe=everything).recipe == derived.recipe


@pytest.mark.parametrize("env", ["Pendulum-v1", "CartPole-v1"])
def test_every_field_that_is_not_the_class_s_default_has_a_reason(env):
    derived = defaults.derive(env)
    plain = Architecture.for_env(env)
    changed = [
        f.name for f in dataclasses.fields(Architecture) if getattr(derived[0], f.name) != getattr(plain, f.name)
    ]
    changed += [f.name for f in dataclasses.fields(FastRecipe) if getattr(derived[1], f.name) != f.default]
    told = "\n".join(derived.reasons)
    assert [name for name in changed if f"{name}=" not in told] == []
    assert all(": " in reason for reason in derived.reasons) and "numpy" not in told


def test_unknown_fields_are_named():
    with pytest.raises(TypeError, match=r"Unknown fields of the architecture: \['units'\]. Known: .*'gru_units'"):
        defaults.derive("Pendulum-v1", architecture={"units": 3})
    with pytest.raises(TypeError, match=r"Unknown fields of the recipe: \['gamma'\]. Known: .*'discount'"):
        defaults.derive("Pendulum-v1", recipe={"gamma": 0.9})


@pytest.mark.parametrize("env", ["MountainCarContinuous-v0", "CartPole-v1"])
def test_an_agent_for_any_environment_trains(env):
    numbers = {"episodes_per_update": 2, "episodes": 4, "rollout_steps": 100, "epochs": 1}
    agent = ActorCritic.for_env(env, seed=4, architecture=TINY, recipe=numbers)
    assert agent.seed == 4 and agent.recipe.rollout_steps == 100
    before = agent.get_weights()
    history = agent.fit(env, verbose=0).history
    assert len(history["kl"]) == 2 and np.isfinite([*history.values()]).all()
    assert all((a != b).any() for a, b in zip(before, agent.get_weights(), strict=True))


def test_a_fresh_policy_prefers_no_action():
    agent = ActorCritic.for_env("Pendulum-v1", seed=1)
    inputs = [np.random.default_rng(0).normal(size=(50, n)).astype("float32") for n in (3, 1, 1)]
    outputs = agent.step(*inputs, agent.initial_state(50))
    assert 0.0 < np.abs(outputs["action_mean"]).max() < 0.05
    np.testing.assert_allclose(outputs["action_log_std"], 0.0, atol=0.05)


# First weights and noise


def test_orthogonal_weights_have_the_singular_values_they_should():
    network = ActorCritic.for_env("Pendulum-v1", architecture={"gru_units": (6,), "hidden_units": (5, 4)}).actor
    (cell,), (first, _, last) = network.cells, network.main
    for matrix in (cell.kernel, cell.recurrent_kernel):
        for block in np.split(np.asarray(matrix), 3, axis=1):
            np.testing.assert_allclose(np.linalg.svd(block)[1], 1.0, rtol=1e-5)
    np.testing.assert_allclose(np.linalg.svd(np.asarray(first.kernel))[1], 2.0**0.5, rtol=1e-5)
    np.testing.assert_allclose(np.linalg.svd(np.asarray(last.kernel))[1], 0.01, rtol=1e-5)


@pytest.mark.parametrize("steps", [400, 401])
@pytest.mark.parametrize("color", [0.5, 1.0])
def test_coloured_noise_is_standard_normal_at_each_step_and_has_its_spectrum(color, steps):
    white = np.random.default_rng(0).standard_normal((steps, 2000, 1), dtype="float32")
    noise = rollout.coloured(white, color)
    assert (noise.shape, noise.dtype) == (white.shape, white.dtype)
    assert noise.std(axis=1).mean() == pytest.approx(1.0, abs=0.01) and np.abs(noise.mean(axis=1)).max() < 0.15
    np.testing.assert_allclose(noise.std(axis=1), 1.0, atol=0.08)  # no step is wilder than another
    power = (np.abs(np.fft.rfft(noise[..., 0], axis=0)) ** 2).mean(axis=1)[1:-1]
    slope = np.polyfit(np.log(np.arange(1, len(power) + 1)), np.log(power), 1)[0]
    assert slope == pytest.approx(-color, abs=0.03)
    np.testing.assert_allclose(rollout.coloured(white, 0.0), white, atol=1e-5)


def test_noise_of_a_rollout_is_coloured_where_the_action_is_sampled():
    head = Architecture.for_env("Pendulum-v1").head
    white, coloured = (
        rollout.draw(FastRecipe(noise_color=color), 200, 8, head, np.random.default_rng(1)) for color in (0.0, 1.0)
    )
    assert white[0] == coloured[0]
    np.testing.assert_array_equal(white[1], coloured[1])
    assert 0.0 < coloured[1].mean() < 1.0 and (coloured[2][coloured[1] == 0.0] == 0.0).all()

    def correlation(noise):
        return np.mean(noise[1:] * noise[:-1]) / np.mean(noise**2)

    assert correlation(coloured[2]) > 0.4 > 0.2 > abs(correlation(white[2]))


def test_coloured_noise_is_refused_for_choices():
    with pytest.raises(
        ValueError, match=r"`noise_color` of a recipe for the head 'categorical' must be 0. Received: 0.5"
    ):
        ActorCritic(Architecture.for_env("CartPole-v1"), FastRecipe(noise_color=0.5))
