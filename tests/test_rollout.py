import dataclasses

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from tiny_agents import tiny_agent
from tiny_envs import Faulty, Menu, Patchwork

from nmn_keras import envs, rollout
from nmn_keras.architecture import Architecture
from nmn_keras.recipes import FastRecipe

STEPS, N = 33, 4
RECIPE = FastRecipe(segment_steps=5, deterministic_share=0.4)
PATCHWORK = Architecture.for_env(Patchwork, hidden_units=(), gru_units=(2,), signal_units=1)


def scripted(observation, prev_action, prev_reward, state):
    """A policy whose memory counts its steps and whose mean mixes all inputs."""
    weights = np.float32([0.3, -0.2, 0.1])
    mean = observation[:, :1] * weights + np.float32(0.1) * prev_action + np.float32(0.01) * prev_reward
    return np.concatenate([mean, np.float32([[-1.0, 0.0, 1.0]]) + 0 * mean], axis=1), state + 1


def play(seed, recipe=RECIPE, policy=scripted):
    env = envs.make_vec(Patchwork, N)
    return rollout.play(env, policy, PATCHWORK, STEPS, recipe, np.random.default_rng(seed)), env


@pytest.fixture(scope="module")
def played():
    return play(7)[0]


def test_shapes_and_types(played):
    segments = -(-STEPS // RECIPE.segment_steps)
    shapes = {name: array.shape for name, array in played.arrays().items()}
    assert shapes.pop("actor_state") == (segments, N, PATCHWORK.state_size)
    sizes = {"observation": 2, "successor": 2, "prev_reward": 1, "keep": 1, "prev_action": 3, "played": 3}
    sizes |= {"action": 3, "policy": 6}
    for name, shape in shapes.items():
        assert shape == ((STEPS, N, sizes[name]) if name in sizes else (STEPS, N)), name
    assert {array.dtype.name for array in played.arrays().values()} == {"float32"}


def test_every_column_is_what_one_environment_would_have_given(played):
    seed = int(np.random.default_rng(7).integers(2**31))
    for n in range(N):
        env = Patchwork()
        observation, _ = env.reset(seed=seed + n)
        action, reward, begins = np.zeros(3), 0.0, True
        for t in range(STEPS):
            np.testing.assert_array_equal(played.observation[t, n], observation)
            np.testing.assert_array_equal(played.prev_action[t, n], action)
            assert played.prev_reward[t, n, 0] == np.float32(reward)
            assert played.keep[t, n, 0] == (not begins)
            if t % RECIPE.segment_steps == 0:
                np.testing.assert_array_equal(played.actor_state[t // RECIPE.segment_steps, n], observation[1])
            observation, reward, terminated, truncated, _ = env.step(played.played[t, n])
            np.testing.assert_array_equal(played.successor[t, n], observation)
            assert played.reward[t, n] == np.float32(reward)
            assert (played.terminated[t, n], played.ended[t, n]) == (terminated, terminated or truncated)
            action, begins = played.played[t, n], terminated or truncated
            if begins:
                observation, _ = env.reset()
                action, reward = np.zeros(3), 0.0
    assert 0 < played.terminated.sum() < played.ended.sum()  # both ways to end occurred


class TwoModes(SyncVectorEnv):
    """Steps that only reset are spoilt, so that nobody can use them unnoticed."""

    def step(self, actions):
        ignored = self._autoreset_envs & (self.autoreset_mode is AutoresetMode.NEXT_STEP)
        observations, rewards, *rest = super().step(actions)
        return observations, np.where(ignored, np.nan, rewards), *rest


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED])
def test_a_rollout_does_not_depend_on_how_episodes_are_begun_anew(played, mode):
    env = TwoModes([Patchwork] * N, autoreset_mode=mode)
    other = rollout.play(env, scripted, PATCHWORK, STEPS, RECIPE, np.random.default_rng(7))
    for name, array in played.arrays().items():
        np.testing.assert_array_equal(array, getattr(other, name), err_msg=name)
    assert (played.ended.std(axis=1) > 0).sum() > 5  # the rows did not keep step


def test_gymnasium_s_own_vector_environment_is_played_without_its_empty_steps():
    """CartPole's cannot be reset at once where a pole has fallen: it takes a step that does nothing else."""
    env = gymnasium.make_vec("CartPole-v1", 5, vectorization_mode="vector_entry_point")
    architecture = Architecture.for_env(env)

    def policy(observation, prev_action, prev_reward, state):
        assert (state[:, 0] == 0).sum() == (prev_reward == 0).sum()  # an episode begins with empty memory
        return np.zeros((5, 2), "float32"), state + 1

    played = rollout.play(env, policy, architecture, 60, RECIPE, np.random.default_rng(1))
    assert played.ended.sum() > 10 and (played.reward == 1.0).all()
    for n in range(5):
        begins = [0, *(np.flatnonzero(played.ended[:-1, n]) + 1)]
        assert (np.abs(played.observation[begins, n]) <= 0.05).all()
        np.testing.assert_array_equal(np.flatnonzero(played.keep[:, n, 0] == 0), begins)
        for t in np.setdiff1d(np.arange(59), played.ended[:, n].nonzero()[0]):
            np.testing.assert_array_equal(played.successor[t, n], played.observation[t + 1, n])
        single = gymnasium.make("CartPole-v1").unwrapped
        for t in range(60):  # every recorded step is one of the single environment
            single.reset()
            single.state = played.observation[t, n].astype(float)
            after, _, terminated, _, _ = single.step(int(played.played[t, n, 0]))
            np.testing.assert_allclose(after, played.successor[t, n], atol=1e-5)
            assert terminated == played.terminated[t, n]


def test_choices_and_nested_observations_are_played():
    architecture = Architecture.for_env(Menu, gru_units=(2,), signal_units=1)

    def policy(observation, prev_action, prev_reward, state):
        np.testing.assert_array_equal(observation[:, :5].argmax(axis=1) * (prev_reward[:, 0] > 0), prev_action[:, 0])
        return np.float32([[1.0, 0.0, -1.0, 0.3, 0.0]] * N), state

    played = rollout.play(envs.make_vec(Menu, N), policy, architecture, STEPS, RECIPE, np.random.default_rng(2))
    chosen = played.played - [0, -1]
    np.testing.assert_array_equal(chosen, played.action)
    np.testing.assert_array_equal(played.reward, chosen @ [1.0, 10.0])
    assert (played.action[played.explored == 0] == 0).all()
    sampled = played.action[played.explored == 1]
    assert {*sampled[:, 0]} == {0, 1, 2} and {*sampled[:, 1]} == {0, 1}
    assert sampled[:, 0].mean() == pytest.approx((np.exp(0) + 2 * np.exp(-1)) / np.exp([1, 0, -1]).sum(), abs=0.3)
    assert rollout.summary(played.reward, played.policy, architecture.head).keys() >= {"entropy"}


def test_actions_follow_the_policy_and_respect_every_dimension(played):
    inputs = (played.observation, played.prev_action, played.prev_reward)
    steps = [scripted(*step, np.zeros((N, 4))) for step in zip(*inputs, strict=True)]
    np.testing.assert_array_equal(played.policy, np.stack([policy for policy, _ in steps]))
    scale, offset = np.float32([2.0, 0.125, 1.0]), np.float32([1.0, 0.625, 0.0])  # half ranges and middles
    low, high = Patchwork.action_space.low, Patchwork.action_space.high
    np.testing.assert_allclose(played.played, np.clip(played.action * scale + offset, low, high), rtol=1e-6)
    bounded = played.played[..., :2]
    assert (bounded == low[:2]).any() and (bounded == high[:2]).any()
    assert np.abs(played.action).max() > 1.5  # what the losses see is not clipped


def test_noise_is_standard_where_the_segment_explores_and_absent_elsewhere():
    many = [play(seed)[0] for seed in range(30)]
    explored = np.stack([r.explored for r in many])
    noise = np.stack([(r.action - r.policy[..., :3]) / np.exp(0.5 * r.policy[..., 3:]) for r in many])
    assert not noise[explored == 0].any()
    sampled = noise[explored == 1]
    error = 1 / np.sqrt(sampled.size)
    assert abs(sampled.mean()) < 4 * error and abs(sampled.var() - 1) < 6 * error
    assert abs(explored.mean() - 0.6) < 4 * np.sqrt(0.24 / (30 * 7 * N))
    starts = np.arange(0, STEPS, RECIPE.segment_steps)
    np.testing.assert_array_equal(explored, np.repeat(explored[:, starts], 5, axis=1)[:, :STEPS])
    always = dataclasses.replace(RECIPE, deterministic_share=0.0)
    assert play(0, always)[0].explored.all()


def test_the_generator_alone_decides(played):
    again, other = play(7)[0], play(8)[0]
    for name, array in played.arrays().items():
        np.testing.assert_array_equal(array, getattr(again, name), err_msg=name)
    assert (played.observation != other.observation).any()
    assert (played.action - played.policy[..., :3] != other.action - other.policy[..., :3]).any()


def test_benchmark_rollouts_link_up_across_their_ends():
    env = envs.make_vec("b1", N, max_episode_steps=7)
    architecture = Architecture.for_env("b1")

    def policy(observation, prev_action, prev_reward, state):
        return np.concatenate([0.2 * observation, 0 * observation], axis=1), state

    played = rollout.play(env, policy, architecture, 21, RECIPE, np.random.default_rng(0))
    ends = np.zeros((21, N))
    ends[6::7] = 1
    np.testing.assert_array_equal(played.ended, ends)
    assert not played.terminated.any()
    within = ends[:-1] == 0
    np.testing.assert_array_equal(played.successor[:-1][within], played.observation[1:][within])
    assert (played.successor[:-1][~within] != played.observation[1:][~within]).all()
    np.testing.assert_array_equal(played.prev_reward[1:, :, 0], played.reward[:-1] * within)
    np.testing.assert_array_equal(played.prev_action[1:, :, 0], played.played[:-1, :, 0] * within)


def test_no_share_is_told_of_several_episodes_in_a_row():
    agent = tiny_agent()
    for steps, told in ((20, True), (7, False)):
        agent.fit("b1", episodes=4, env_kwargs={"max_episode_steps": steps}, verbose=0)
        assert ("share" in agent.history.history) == told, steps


def test_summary_against_a_loop(played):
    benchmark = envs.BENCHMARKS["b1"]
    logs = rollout.summary(played.reward, played.policy, PATCHWORK.head, benchmark)
    returns, discounted = np.zeros(N), np.zeros(N)
    for t in range(STEPS):
        returns += played.reward[t]
        discounted += 0.998**t * played.reward[t]
    assert logs["return"] == pytest.approx(returns.mean(), rel=1e-5)
    assert logs["reward"] == pytest.approx(returns.mean() / STEPS, rel=1e-5)
    assert logs["discounted_return"] == pytest.approx(discounted.mean(), rel=1e-5)
    assert logs["share"] == pytest.approx(discounted.mean() / benchmark.optimal_return(STEPS, 0.998), rel=1e-5)
    assert logs["deviation"] == pytest.approx(np.exp([-0.5, 0.0, 0.5]).mean(), rel=1e-5)
    assert "share" not in rollout.summary(played.reward, played.policy, PATCHWORK.head)


def test_whole_episodes_against_a_loop(played):
    returns, lengths = [], []
    for n in range(N):
        total, length = 0.0, 0
        for t in range(STEPS):
            total, length = total + float(played.reward[t, n]), length + 1
            if played.ended[t, n]:
                returns.append(total)
                lengths.append(length)
                total, length = 0.0, 0
    assert len({*lengths}) > 1
    assert rollout.episode_summary(played.reward, played.ended) == {
        "episode_return": pytest.approx(np.mean(returns), rel=1e-5),
        "episode_length": pytest.approx(np.mean(lengths)),
    }
    assert rollout.episode_summary(played.reward, np.zeros_like(played.ended)) == {}


@pytest.mark.parametrize(
    ("what", "bad", "message"),
    [
        ("start", np.nan, r"non-finite observation at step 0 in environments \[1\]"),
        ("reward", np.nan, r"non-finite reward at step 2 in environments \[1\].*Received: nan"),
        ("reward", 1e39, r"non-finite reward at step 2 in environments \[1\].*Received: 1e\+39"),
        ("observation", -np.inf, r"non-finite final observation at step 4 in environments \[1\]"),
    ],
)
def test_bad_numbers_are_refused_with_step_and_environment(what, bad, message):
    makers = [Faulty, lambda: Faulty(what, bad), Faulty]
    env = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
    architecture = Architecture.for_env(Faulty)

    def policy(observation, prev_action, prev_reward, state):
        return np.zeros((len(observation), 2), "float32"), state

    with pytest.raises(ValueError, match=message):
        rollout.play(env, policy, architecture, 6, RECIPE, np.random.default_rng(0))


def test_a_policy_that_overflows_is_not_blamed_on_the_environment():
    def policy(*inputs):
        policy, state = scripted(*inputs)
        return policy + np.float32([0.0] * 3 + [200.0] * 3), state

    with pytest.raises(FloatingPointError, match="non-finite action at step 0"):
        play(0, policy=policy)
