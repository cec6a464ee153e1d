import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import flatten
from tiny_envs import Menu, Patchwork

from nmn_keras import envs, evaluation, rollout
from nmn_keras.architecture import Architecture
from nmn_keras.envs import Trial
from nmn_keras.envs.bandit import Bandit
from nmn_keras.recipes import FastRecipe
from nmn_keras.run import environment_identity

B1 = {"env": "b1", "episodes": 3, "env_kwargs": {"max_episode_steps": 4}}
BANDIT = {"env": "nmn_keras/Bandit-v0", "episodes": 6, "env_kwargs": {"arms": 3}}


def test_a_trial_is_its_episodes_in_a_row_with_one_task():
    trial, inner = envs.make("nmn_keras/Trial-v0", **B1), envs.make("b1", max_episode_steps=4)
    tasks = set()
    for seed in (3, None):
        seen, told = trial.reset(seed=seed)
        observation, info = inner.reset(seed=seed)
        assert told["task"] == info["task"]
        tasks.add(float(info["task"][0]))
        for step in range(12):
            begins = step % 4 == 0
            np.testing.assert_array_equal(seen, [*observation, begins])
            action = np.float32([step - 5.0])
            seen, reward, terminated, truncated, told = trial.step(action)
            observation, expected, _, ended, info = inner.step(action)
            assert (reward, terminated, truncated) == (expected, False, step == 11)
            assert told["episode_ended"] == ended and (told["task"] == info["task"]).all()
            if ended and step < 11:
                assert (told["final_info"]["task"] == info["task"]).all()
                observation, _ = inner.reset(options={"task": info["task"]})
        np.testing.assert_array_equal(seen, [*observation, 0.0])
    assert len(tasks) == 2  # another trial, another task


def test_the_last_episode_ends_the_trial_as_it_ends_itself():
    trial, ends = Trial(Patchwork(), 2), set()
    for seed in range(8):
        trial.reset(seed=seed)
        terminated = truncated = False
        while not (terminated or truncated):
            _, _, terminated, truncated, _ = trial.step(np.float32([0.0, 0.6, 0.0]))
        inner = trial.env
        assert len(inner.episodes) == 2 * (seed + 1) and terminated == (inner.length % 2 == 0) != truncated
        ends.add(terminated)
    assert ends == {True, False}


def test_nested_observations_are_flattened_before_the_flag():
    trial, inner = Trial(Menu(), 2), Menu()
    seen, _ = trial.reset(seed=1)
    observation, _ = inner.reset(seed=1)
    np.testing.assert_array_equal(seen, [*flatten(inner.observation_space, observation).astype("float32"), 1.0])


def test_memory_lasts_as_long_as_the_trial():
    env = envs.make_vec("nmn_keras/Trial-v0", 3, **BANDIT)
    architecture = Architecture.for_env("nmn_keras/Trial-v0", env_kwargs=BANDIT)
    assert (architecture.observation_size, architecture.action_sizes) == (2, (3,))

    def policy(observation, prev_action, prev_reward, state):
        np.testing.assert_array_equal(observation, [[1.0, 1.0]] * 3)  # every pull begins an episode
        return np.zeros((3, 3), "float32"), state + 1

    played = rollout.play(env, policy, architecture, 15, FastRecipe(segment_steps=5), np.random.default_rng(0))
    np.testing.assert_array_equal(played.keep[:, 0, 0] == 0, np.arange(15) % 6 == 0)
    np.testing.assert_array_equal(played.terminated[:, 0] == 1, np.arange(15) % 6 == 5)
    np.testing.assert_array_equal(played.actor_state[:, 0, 0], [0.0, 5.0, 4.0])


class Repeats:
    """Pulls an arm again while it pays, else the next one."""

    def initial_state(self, batch_size):
        return np.zeros((batch_size, 1), "float32")

    def act(self, observation, prev_action, prev_reward, state, *, rng=None):
        return (prev_action + (prev_reward == 0.0)) % 3, state


def test_whoever_remembers_earns_more_and_the_trial_can_be_made_again_by_names():
    scores = evaluation.evaluate(Repeats(), "nmn_keras/Trial-v0", 400, env_kwargs=BANDIT)
    assert scores["length"] == 6.0
    assert scores["return_interval"][0] > 3.2  # 3.0 is what chance earns
    assert environment_identity("nmn_keras/Trial-v0", BANDIT) == ("nmn_keras/Trial-v0", BANDIT)
    made = gymnasium.make("nmn_keras/Trial-v0", **BANDIT)
    assert environment_identity(made, {}) == ("nmn_keras/Trial-v0", BANDIT)


def test_arms_pay_by_their_probabilities():
    env = Bandit(3)
    for arm, probability in enumerate((0.0, 0.3, 1.0)):
        total = 0.0
        for pull in range(2000):
            _, info = env.reset(seed=arm if pull == 0 else None, options={"task": [0.0, 0.3, 1.0]})
            _, reward, terminated, truncated, _ = env.step(arm)
            assert terminated and not truncated and (info["task"] == [0.0, 0.3, 1.0]).all()
            total += reward
        assert total / 2000 == pytest.approx(probability, abs=0.05)
    assert len({float(env.reset()[1]["task"][0]) for _ in range(5)}) == 5


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Trial(Menu(), 0), "must be an integer >= 1. Received: episodes=0"),
        (lambda: Trial(Menu(), 1.5), "Received: episodes=1.5"),
        (lambda: Bandit(1), "must be an integer >= 2. Received: arms=1"),
        (lambda: Bandit(2).reset(options={"task": [0.5]}), "A task is 2 probabilities, in .* Received: .0.5"),
        (lambda: Bandit(2).reset(options={"task": [0.5, 1.5]}), "A task is 2 probabilities"),
        (lambda: Bandit(2).step(2), "no such arm. Accepted: 0 to 1. Received: 2"),
    ],
)
def test_what_does_not_fit_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()
