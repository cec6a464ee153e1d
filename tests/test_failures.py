"""Environments that give no plain numbers, or raise: what is accepted, what the error says, what is left of the run."""

import functools

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from tiny_agents import assert_identical, snapshot, tiny_agent

from nmn_keras import ActorCritic, envs, evaluate, scalars
from nmn_keras.baselines import BayesOptimalPolicy
from nmn_keras.envs import EnvironmentFailed, Trial
from nmn_keras.stepper import Stepper

PLAIN = ((1.0, False, False), (1.0, True, False))
"""Rewards and ends of an episode of two steps."""
GOOD = (3, np.int64(3), True, np.bool_(True), 2.5, np.float32(2.5), np.array(2.5), np.array([2.5]), np.array([[2]]))
BAD = (None, "1", [1.0, 2.0], np.zeros((0,)), np.array([1.0, 2.0]), {"reward": 1}, 1j, 10**400, [[1.0], [2.0, 3.0]])


class Given(gymnasium.Env):
    """Gives what it is told to in each step: `(reward, terminated, truncated)`; an exception it raises."""

    observation_space = Box(-1.0, 1.0, (1,), np.float32)
    action_space = Box(-20.0, 20.0, (1,), np.float32)

    def __init__(self, steps=PLAIN):
        self.steps = steps

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.taken = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        given = self.steps[self.taken]
        self.taken += 1
        if isinstance(given, Exception):
            raise given
        return np.zeros(1, np.float32), *given, {}


class Wide(SyncVectorEnv):
    """Gives rewards and flags as columns `(N, 1)`, as some simulators do."""

    def step(self, actions):
        observation, *numbers, info = super().step(actions)
        return observation, *(x[:, np.newaxis] for x in numbers), info


def several(*environments):
    """A vector environment of these, as training makes it."""
    made = iter(environments)
    return envs.make_vec(lambda: next(made), len(environments))


def play(vector, steps):
    """The last outcome of so many steps."""
    stepper = Stepper(vector)
    stepper.reset(0)
    return [stepper.step(np.zeros((vector.num_envs, 1), "float32")) for _ in range(steps)][-1]


@pytest.mark.parametrize("reward", GOOD, ids=repr)
def test_what_is_one_number_is_a_reward_everywhere(reward):
    steps = ((reward, np.array([False]), 0), (reward, np.array([1]), np.array(False)))
    outcome = play(several(Given(), Given(steps)), 2)
    np.testing.assert_array_equal(outcome.reward, [1.0, float(np.ravel(reward)[0])])
    np.testing.assert_array_equal(outcome.terminated, [True, True])
    trial = Trial(Given(steps), 1)
    trial.reset()
    given = trial.step(np.zeros(1))[1:4]
    assert given == (float(np.ravel(reward)[0]), False, False) and [type(x) for x in given] == [float, bool, bool]
    assert trial.step(np.zeros(1))[2] is True


@pytest.mark.parametrize("reward", BAD, ids=lambda reward: str(reward)[:20])
def test_what_is_not_one_number_is_named(reward):
    vector = several(Given(), Given((PLAIN[0], (reward, False, False))))
    with pytest.raises(
        ValueError, match=r"(?s)Environment 1 failed at step 2: The reward is not one.*Received: ."
    ) as told:
        play(vector, 2)
    assert repr(reward)[:50] in str(told.value)


@pytest.mark.parametrize("ended", [None, "no", np.nan, [True, False]], ids=repr)
def test_what_is_not_one_flag_is_named(ended):
    for name, step in (("terminated", (1.0, ended, False)), ("truncated", (1.0, False, ended))):
        with pytest.raises(ValueError, match=f"Environment 0 failed at step 1: `{name}` is not one flag.*Received: "):
            play(several(Given((step,)), Given()), 1)


def test_a_whole_number_beyond_float32_is_told_as_it_came():
    with pytest.raises(ValueError, match=r"non-finite reward at step 1 in environments \[1\].*Received: 1e\+60"):
        play(several(Given(), Given(((10**60, False, False),))), 1)


def test_vector_environments_may_give_columns():
    wide = Wide([Given] * 3, autoreset_mode=AutoresetMode.SAME_STEP)
    outcome = play(wide, 2)
    assert outcome.reward.shape == outcome.terminated.shape == outcome.ended.shape == (3,)
    assert outcome.terminated.all() and (outcome.reward == 1.0).all()
    scores = evaluate(BayesOptimalPolicy(), wide, episodes=3)
    assert (scores["return"], scores["length"]) == (2.0, 2.0)
    np.testing.assert_array_equal(scalars.numbers([1, np.array([2.0]), 3], 3), [1.0, 2.0, 3.0])
    for wrong in ([1.0, 2.0], np.zeros((3, 2)), 1.0):
        with pytest.raises(scalars.NotOneNumber):
            scalars.numbers(wrong, 3)


def test_an_environment_that_raises_is_named_and_its_exception_chained():
    boom = KeyError("boom")
    for vector in (
        several(Given(), Given(), Given((PLAIN[0], boom))),
        Wide([functools.partial(Given, (PLAIN[0], boom))]),
    ):
        with pytest.raises(EnvironmentFailed, match=r"failed at step 2: KeyError: 'boom'") as told:
            play(vector, 2)
        assert told.value.__cause__ is boom
        assert (told.value.step, told.value.environment) == (2, 2 if vector.num_envs == 3 else None)


class Fragile(gymnasium.Wrapper):
    """Raises once in its life, in the step of that number counted over everybody's."""

    fails_at, taken = 0, 0

    def step(self, action):
        Fragile.taken += 1
        if Fragile.taken == Fragile.fails_at:
            raise ConnectionError("the simulator is gone")
        return self.env.step(action)


def fragile():
    return Fragile(envs.make("b1"))


def test_a_run_whose_environment_raised_goes_on_as_if_it_had_not(tmp_path):
    Fragile.fails_at, Fragile.taken = 0, 0
    whole = tiny_agent()
    whole.fit(fragile, verbose=0)
    Fragile.fails_at, Fragile.taken = 2 * 4 * 20 + 4 * 6 + 3, 0  # update 3, step 7, environment 2, of 4 of 20 steps
    agent, run_dir = tiny_agent(), tmp_path / "run"
    with pytest.raises(
        EnvironmentFailed, match=r"(?s)Environment 2 failed at step 7: ConnectionError.*update 3 of 4"
    ) as told:
        agent.fit(fragile, verbose=0, run_dir=run_dir)  # whose last checkpoint was of the start
    assert isinstance(told.value.__cause__, ConnectionError) and str(run_dir) in str(told.value)
    loaded = ActorCritic.load(run_dir)
    assert loaded.run.update == 2
    loaded.fit(fragile, verbose=0, resume=True, run_dir=run_dir)
    assert_identical(snapshot(whole), snapshot(loaded))
    assert len((run_dir / "curves.csv").read_text().splitlines()) == 5
    agent.fit(fragile, verbose=0, resume=True)  # and so does the agent that is in memory
    assert_identical(snapshot(whole), snapshot(agent))
