"""The closed form against brute force and simulation; the policy against Theorem 1."""

import numpy as np
import pytest

from nmn_keras.baselines import EDGE, BayesOptimalPolicy, bayes_optimal_return
from nmn_keras.envs.gym import MovingTargetVectorEnv


def play(policy, env, steps, seed, options=None):
    """Yield the rewards (N,) of each step of an agent on a vector environment."""
    observation, _ = env.reset(seed=seed, options=options)
    state = policy.initial_state(env.num_envs)
    action, reward = np.zeros((2, env.num_envs, 1), np.float32)
    for _ in range(steps):
        action, state = policy.act(observation, action, reward, state)
        observation, rewards, *_ = env.step(action)
        reward = rewards[:, np.newaxis].astype(np.float32)
        yield rewards


def reward_at(distance):
    """Return the reward of benchmark 1 at a distance from the goal."""
    return np.where(np.abs(distance) < 1.0, 10.0, -np.abs(distance))


def brute_force_two_steps(discount, alpha_max):
    """Return the best E[r0 + discount r1], searching both guesses on grids.

    After a first guess d and a miss by s the biases d - s and d + s are left, if they are within
    alpha_max. The best second guess for two of them depends on s alone.
    """
    cells = 4000
    bias = alpha_max * (2.0 * (np.arange(cells) + 0.5) / cells - 1.0)
    spacing = np.linspace(1.0, 2.0 * alpha_max, 400)
    second = np.linspace(-2.0 * alpha_max, 2.0 * alpha_max, 8001)[:, np.newaxis]
    best_of_two = 0.5 * (reward_at(second - spacing) + reward_at(second + spacing)).max(axis=0)
    returns = []
    for guess in np.linspace(0.0, alpha_max - 1.0, 181):
        missed_by = np.abs(bias - guess)
        mirrored = np.abs(2.0 * guess - bias)
        known = (missed_by < 1.0) | (mirrored > alpha_max)
        later = np.where(known, 10.0, np.interp(missed_by, spacing, best_of_two))
        returns.append(np.mean(reward_at(missed_by) + discount * later))
    return max(returns)


def test_published_value():
    assert round(bayes_optimal_return(1400, 0.998), 2) == 4679.11
    assert round(bayes_optimal_return(), 2) == 4679.11


@pytest.mark.parametrize(("discount", "alpha_max"), [(0.998, 10.0), (0.9, 8.0), (1.0, 12.0), (0.3, 4.0)])
def test_two_steps_are_the_best_that_brute_force_finds(discount, alpha_max):
    found = brute_force_two_steps(discount, alpha_max)
    assert bayes_optimal_return(2, discount, alpha_max) == pytest.approx(found, abs=0.01)


@pytest.mark.parametrize(("discount", "alpha_max"), [(0.0, 10.0), (0.5, 10.0), (1.0, 6.5)])
def test_one_step_is_best_played_where_it_is_seen(discount, alpha_max):
    bias = alpha_max * (2.0 * (np.arange(100_000) + 0.5) / 100_000 - 1.0)
    expected = max(np.mean(reward_at(bias - guess)) for guess in np.linspace(-2, 2, 41))
    assert bayes_optimal_return(1, discount, alpha_max) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("discount", [0.0, 0.9, 0.998, 1.0])
def test_every_step_after_the_second_adds_ten(discount):
    returns = [bayes_optimal_return(steps, discount) for steps in range(1, 8)]
    gains = np.diff(returns)
    np.testing.assert_allclose(gains[1:], 10.0 * discount ** np.arange(2, 7), atol=1e-12)
    assert (gains >= 0).all() and returns[1] >= returns[0]


def test_twenty_thousand_episodes_earn_the_closed_form():
    rewards = np.stack(list(play(BayesOptimalPolicy(), MovingTargetVectorEnv(20_000), 1400, seed=20)))
    assert (rewards[2:] == 10.0).all()
    returns = 0.998 ** np.arange(1400) @ rewards
    error = returns.std(ddof=1) / np.sqrt(20_000)
    assert error < 0.1
    assert abs(returns.mean() - bayes_optimal_return(1400, 0.998)) < 3 * error


@pytest.mark.parametrize(("steps", "discount", "alpha_max"), [(1, 0.0, 10.0), (2, 0.9, 8.0), (2, 1.0, 15.0)])
def test_short_episodes_earn_the_closed_form(steps, discount, alpha_max):
    env = MovingTargetVectorEnv(100_000, alpha_max=alpha_max)
    rewards = np.stack(list(play(BayesOptimalPolicy(discount, alpha_max), env, steps, seed=4)))
    returns = discount ** np.arange(steps) @ rewards
    error = returns.std(ddof=1) / np.sqrt(100_000)
    assert abs(returns.mean() - bayes_optimal_return(steps, discount, alpha_max)) < 3 * error


@pytest.mark.parametrize(("alpha", "case"), [(-7.0, "a"), (3.0, "b"), (-5.0, "d near"), (-9.5, "d far")])
def test_theorem_1_case_by_case(alpha, case):
    discount, alpha_max, x = 0.998, 10.0, 1.5
    env = MovingTargetVectorEnv(1)
    observation, _ = env.reset(seed=0, options={"task": alpha, "position": x})
    policy = BayesOptimalPolicy(discount, alpha_max)
    nothing = np.zeros((1, 1), np.float32)
    first, state = policy.act(observation, nothing, nothing, policy.initial_state(1))
    a0 = x + discount * (alpha_max + 4.5) / (1 + discount)
    assert first[0, 0] == pytest.approx(a0, abs=1e-5)

    observation, rewards, *_ = env.step(first)
    r0 = rewards[0]
    second, state = policy.act(observation, first, np.float32([[r0]]), state)
    if case == "a":
        expected = observation[0, 0] + a0 - x
    elif case == "b":
        assert abs(r0) > alpha_max - (a0 - x)
        expected = a0 + r0
    else:
        expected = a0 + r0 + 1 - EDGE
    assert second[0, 0] == pytest.approx(expected, abs=1e-5)

    observation, rewards, *_ = env.step(second)
    assert (rewards[0] == 10.0) == (case != "d far")
    third, _ = policy.act(observation, second, rewards[:, None].astype(np.float32), state)
    if case.startswith("d"):
        pairs = [{a - x + r, a - x - r} for a, r in ((a0, r0), (second[0, 0], rewards[0]))]
        common = [i for i in pairs[0] if min(abs(i - j) for j in pairs[1]) < 1e-4]
        expected = -alpha if case == "d near" else common[0]
        assert third[0, 0] - observation[0, 0] == pytest.approx(expected, abs=1e-5)
    assert env.step(third)[1][0] == 10.0


def test_no_bias_at_an_edge_traps_it():
    policy = BayesOptimalPolicy()
    guess = 0.998 * 14.5 / 1.998
    nudges = np.concatenate([-np.geomspace(1e-9, 1e-2, 50), [0.0], np.geomspace(1e-9, 1e-2, 50)])
    edges = [guess - 1, guess + 1, guess, 2 * guess - 10]
    bias = np.concatenate([edge + nudges for edge in edges] + [[-10.0, 10.0, 0.0]])
    env = MovingTargetVectorEnv(len(bias))
    rewards = np.stack(list(play(policy, env, 300, seed=1, options={"task": -bias})))
    assert (rewards < 10).sum(axis=0).max() <= 4
    assert (rewards[-1] == 10).all()


def test_it_finds_a_task_that_changes():
    env = MovingTargetVectorEnv(500)
    rewards = []
    for step, last in enumerate(play(BayesOptimalPolicy(), env, 40, seed=3)):
        rewards.append(last)
        if step == 19:
            env.set_task(-env.task)
    assert np.mean(rewards[20] == 10) < 0.2
    assert (np.array(rewards[24:]) == 10).all()


def test_episodes_do_not_mix_and_arrays_are_float32():
    policy = BayesOptimalPolicy()
    rng = np.random.default_rng(0)
    x, a, r = rng.uniform(-5, 5, (3, 64, 1)).astype(np.float32)
    seen = rng.uniform(-5, 5, (64, 3))
    seen[:20, 2] = seen[:20, 1]
    state = np.column_stack([rng.integers(0, 2, 64), seen]).astype(np.float32)
    action, state_out = policy.act(x, a, r, state, rng=rng)
    assert action.dtype == state_out.dtype == np.float32
    assert action.shape == (64, 1) and state_out.shape == state.shape
    rows = [policy.act(*(v[i : i + 1] for v in (x, a, r, state))) for i in range(64)]
    np.testing.assert_array_equal(np.concatenate([row[0] for row in rows]), action)
    np.testing.assert_array_equal(np.concatenate([row[1] for row in rows]), state_out)
    assert not policy.initial_state(3).any() and policy.initial_state(3).shape == (3, 4)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"steps": 0}, "from 1. Received: 0"),
        ({"discount": 1.1}, r"\[0, 1\] is accepted. Received: 1.1"),
        ({"discount": 1.0, "alpha_max": 6.0}, "discount 1: 6.5 to 15. Received: 6.0"),
        ({"alpha_max": 15.5}, "Received: 15.5"),
        ({"discount": float("nan")}, "Received: nan"),
    ],
)
def test_errors(arguments, words):
    with pytest.raises(ValueError, match=words):
        bayes_optimal_return(**arguments)


def test_shapes_that_do_not_fit():
    policy, column = BayesOptimalPolicy(), np.zeros((2, 1), np.float32)
    for arrays in ((column[:, 0], column, column), (column, column, column[:1])):
        with pytest.raises(ValueError, match=r"state \(N, 4\) are accepted. Received"):
            policy.act(*arrays, policy.initial_state(2))
