import math

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from tiny_envs import Faulty, Patchwork, Unsupported

from nmn_keras import OnnxAgent, envs, evaluation
from nmn_keras.baselines import BayesOptimalPolicy
from nmn_keras.envs.dynamics import WindyNavigation
from nmn_keras.known_task import KnownTaskPolicy
from nmn_keras.optima import KnownTaskOptima

SHORT = {"max_episode_steps": 40}


class Scripted:
    """Plays half its own last action plus the reward, and noise if it is to sample."""

    def __init__(self, actions=1, scale=0.1):
        self.actions, self.scale = actions, scale

    def initial_state(self, batch_size):
        return np.zeros((batch_size, 1), "float32")

    def act(self, observation, prev_action, prev_reward, state, *, rng=None):
        action = 0.5 * prev_action + self.scale * prev_reward + 0.01 * state
        if rng is not None:
            action = action + rng.standard_normal(action.shape)
        low, high = [[-1.0, 0.5, -20.0], [3.0, 0.75, 20.0]]
        bounds = (low, high) if self.actions == 3 else (-20.0, 20.0)
        return np.clip(action, *bounds).astype("float32"), state + 1


def brute_force(episodes, discount):
    returns = [sum(rewards) for rewards in episodes]
    discounted = [sum(discount**t * r for t, r in enumerate(rewards)) for rewards in episodes]
    return np.array(returns), np.array(discounted)


def test_scores_of_uneven_episodes_against_what_the_environments_recorded():
    made = []

    def factory():
        made.append(Patchwork())
        return made[-1]

    scores = evaluation.evaluate(Scripted(3), factory, 60, seed=5, discount=0.9)
    firsts = [env.episodes[0] for env in made]
    assert len(firsts) == 60 and len({len(rewards) for rewards in firsts}) == 7
    returns, discounted = brute_force(firsts, 0.9)
    assert scores["length"] == np.mean([len(rewards) for rewards in firsts])
    for name, values in (("return", returns), ("discounted_return", discounted)):
        assert scores[name] == pytest.approx(values.mean(), rel=1e-6)
        half = 1.96 * values.std(ddof=1) / math.sqrt(60)
        assert scores[f"{name}_interval"] == pytest.approx([values.mean() - half, values.mean() + half], rel=1e-6)
    assert scores["discounted_return_quantile_10"] == pytest.approx(np.quantile(discounted, 0.1), rel=1e-6)
    asked = {"episodes": 60, "deterministic": True, "seed": 5, "discount": 0.9}
    assert asked.items() <= scores.items()
    assert "share" not in scores


@pytest.mark.parametrize("mode", AutoresetMode)
def test_a_vector_environment_is_scored_in_rounds_whatever_its_mode(mode, monkeypatch):
    monkeypatch.setattr(evaluation, "_BATCH", 4)
    expected = evaluation.play_episodes(Scripted(3), Patchwork, 10, seed=5)
    env = SyncVectorEnv([Patchwork] * 4, autoreset_mode=mode)
    for source in (env, env, lambda: SyncVectorEnv([Patchwork] * 4, autoreset_mode=mode)):
        scores = evaluation.play_episodes(Scripted(3), source, 10, seed=5)
        for name, values in expected.items():
            np.testing.assert_array_equal(scores[name], values, err_msg=name)
    env.reset()  # it was left open


def test_one_episode_has_no_interval():
    scores = evaluation.evaluate(Scripted(), "b1", 1, env_kwargs=SHORT)
    assert math.isfinite(scores["return"]) and not [name for name in scores if "interval" in name]


def test_an_environment_that_ends_no_episode_is_refused(monkeypatch):
    monkeypatch.setattr(evaluation, "_LONGEST", 1000)
    assert evaluation.play_episodes(Scripted(), "b1", 2)["length"].tolist() == [1400, 1400]  # its own limit is longer
    with pytest.raises(ValueError, match=r"no time limit.*`max_episode_steps`.*Received: an episode of 1,000 steps"):
        evaluation.play_episodes(Scripted(), lambda: envs.make("b1").unwrapped, 2)


def test_episodes_beyond_one_batch_are_all_played(monkeypatch):
    monkeypatch.setattr(evaluation, "_BATCH", 4)
    scores = evaluation.play_episodes(Scripted(), "b1", 10, env_kwargs=SHORT)
    assert {array.shape for array in scores.values()} == {(10,)}
    assert (scores["length"] == 40).all()
    assert len(np.unique(scores["return"])) == 10  # no batch repeats another


def test_bayes_optimal_earns_the_optimum():
    scores = evaluation.evaluate(BayesOptimalPolicy(), "b1", 400, env_kwargs={"max_episode_steps": 100})
    assert scores["optimal_discounted_return"] == envs.bayes_optimal_return(100, 0.998)
    low, high = scores["discounted_return_interval"]
    half = (high - low) / 2
    assert abs(scores["discounted_return"] - scores["optimal_discounted_return"]) < 2 * half
    assert scores["share"] == pytest.approx(1.0, abs=0.01)
    assert 100 < scores["return"] <= 1000


def test_the_seed_decides_tasks_and_noise():
    def score(**kwargs):
        return evaluation.play_episodes(Scripted(), "b1", 8, env_kwargs=SHORT, **kwargs)["return"]

    for deterministic in (True, False):
        np.testing.assert_array_equal(score(deterministic=deterministic), score(deterministic=deterministic))
        assert (score(deterministic=deterministic) != score(deterministic=deterministic, seed=1)).all()
    assert (score(deterministic=True) != score(deterministic=False)).any()
    # One seed, one set of tasks, whoever plays: the first rewards differ by what was played alone.
    first = evaluation.play_episodes(Scripted(), "b1", 8, seed=2, env_kwargs={"max_episode_steps": 1})["return"]
    other = evaluation.play_episodes(Scripted(scale=3.0), "b1", 8, seed=2, env_kwargs={"max_episode_steps": 1})
    np.testing.assert_array_equal(first, other["return"])


def test_any_way_to_name_an_environment_gives_the_same_scores():
    def score(env, **env_kwargs):
        return evaluation.evaluate(BayesOptimalPolicy(), env, 5, env_kwargs=env_kwargs)

    expected = score("b1", **SHORT)
    assert 0.9 < expected["share"] < 1.1
    assert score("nmn_keras/MovingTarget-v0", **SHORT) == expected
    env = gymnasium.make("nmn_keras/MovingTarget-v0", **SHORT)
    assert score(env) == score(env.spec) == expected
    assert score(envs.make_vec("b1", 5, **SHORT)) == score(lambda: envs.make_vec("b1", 5, **SHORT)) | {
        name: expected[name] for name in ("optimal_discounted_return", "share")
    }


def test_another_task_is_not_measured_against_the_benchmark():
    easy = {"alpha_max": 7.0, **SHORT}
    env = gymnasium.make("nmn_keras/MovingTarget-v0", **SHORT)
    wrapped = gymnasium.wrappers.TransformReward(env, lambda reward: 2 * reward)
    for env, kwargs in (("b1", easy), (gymnasium.make("nmn_keras/MovingTarget-v0", **easy), None), (wrapped, None)):
        scores = evaluation.evaluate(BayesOptimalPolicy(), env, 3, env_kwargs=kwargs)
        assert "share" not in scores and scores["discount"] == 0.998


def test_the_worst_tenth_of_tasks_by_hand():
    optimum, share = np.linspace(50.0, 240.0, 20), np.linspace(0.5, 0.88, 20)
    order = np.random.default_rng(0).permutation(20)
    tasks = np.arange(20.0)[:, np.newaxis]
    nothing = np.zeros(20)
    known = KnownTaskOptima(tasks, optimum[order], nothing, nothing, nothing, np.zeros(()))
    scores = evaluation.task_shares((share * optimum)[order], tasks, known)
    assert scores["share_quantile_10"] == pytest.approx(0.5 + 1.9 * 0.02)
    assert scores["worst_tenth_share"] == pytest.approx((0.5 * 50 + 0.52 * 60) / 110)
    one = evaluation.task_shares(np.array([optimum[order][0] / 4]), tasks[:1], known)
    assert one == pytest.approx({"share_quantile_10": 0.25, "worst_tenth_share": 0.25})
    assert evaluation.task_shares(np.ones(20), tasks + 1, known) == {}
    assert evaluation.task_shares(np.ones(21), np.arange(21.0)[:, np.newaxis], known) == {}


def test_tasks_are_those_of_the_episodes_played(monkeypatch):
    monkeypatch.setattr(evaluation, "_BATCH", 4)
    rewards = evaluation.play_episodes(Scripted(), "b1", 10, seed=3, env_kwargs={"max_episode_steps": 1})["return"]
    tasks = evaluation.episode_tasks("b1", 10, seed=3)
    assert tasks.shape == (10, 1)
    # The first action is 0, so that the distance to the goal x - alpha is what is missed by.
    missed = rewards < 0
    assert missed.sum() > 5 and (np.abs(np.abs(tasks[missed, 0]) + rewards[missed]) <= 5).all()
    assert (tasks != evaluation.episode_tasks("b1", 10, seed=4)).all()
    np.testing.assert_array_equal(evaluation.episode_tasks("b2", 3), evaluation.episode_tasks("b2", 4)[:3])


def test_optimal_control_earns_its_optimum_task_by_task():
    tasks = evaluation.episode_tasks("b2", 10)
    policy = KnownTaskPolicy(WindyNavigation(), tasks, cells=40, directions=48)
    scores = evaluation.evaluate(policy, "b2", 10)
    assert scores["length"] == 4000
    assert scores["optimal_discounted_return"] == envs.BENCHMARKS["b2"].known_task.mean_return(4000, 0.998)
    assert 0.9 < scores["share"] < 1.1
    assert 0.85 < scores["worst_tenth_share"] <= scores["share_quantile_10"] < 1.0
    returns = evaluation.play_episodes(policy, "b2", 10)["discounted_return"]
    known = envs.BENCHMARKS["b2"].known_task
    assert evaluation.task_shares(returns, tasks, known).items() <= scores.items()


def test_shares_task_by_task_are_of_full_test_episodes_alone():
    def names(**kwargs):
        found = evaluation.evaluate(Scripted(), "b2", 2, **kwargs)
        return {"share", "share_quantile_10", "worst_tenth_share"} & set(found)

    everything = {"share", "share_quantile_10", "worst_tenth_share"}
    assert names() == names(env_kwargs={"spawn_exclusion": 0.6}) == everything
    assert names(seed=1) == names(discount=0.99) == names(env_kwargs=SHORT) == {"share"}
    assert names(env_kwargs={"spawn_exclusion": 0.3}) == set()


@pytest.mark.parametrize("deterministic", [True, False])
def test_an_exported_agent_scores_as_its_original(exported, deterministic):
    agent, directory = exported
    kwargs = {"episodes": 6, "deterministic": deterministic, "env_kwargs": SHORT}
    onnx = OnnxAgent(directory / "policy.onnx").evaluate("b1", **kwargs)
    keras = agent.evaluate("b1", **kwargs)
    assert onnx.keys() == keras.keys()
    for name, value in keras.items():
        assert onnx[name] == pytest.approx(value, rel=1e-4), name
    assert keras["return_interval"][1] - keras["return_interval"][0] > 1.0


@pytest.mark.parametrize("episodes", [0, -1, 2.0, True, None])
def test_episodes_must_be_a_positive_integer(episodes):
    with pytest.raises(ValueError, match=f"positive integer. Received: episodes={episodes}"):
        evaluation.evaluate(Scripted(), "b1", episodes)


def test_environments_that_do_not_fit_are_refused(exported):
    agent, directory = exported
    for misfit in (agent, OnnxAgent(directory / "policy.onnx")):
        with pytest.raises(ValueError, match=r"sizes \(1, 1\). Received: \(3, 1\)"):
            evaluation.evaluate(misfit, "Pendulum-v1", 2)
        with pytest.raises(ValueError, match=r"actions are real numbers\). Received: \(3,\)"):
            evaluation.evaluate(misfit, lambda: Unsupported(Box(-1, 1, (1,)), Discrete(3)), 2)
        with pytest.raises(ValueError, match=r"bounds exceed the environment's"):
            evaluation.evaluate(misfit, lambda: Unsupported(Box(-1, 1, (1,)), Box(-1, 1, (1,))), 2)
    with pytest.raises(ValueError, match=r"Received: .*\(2, 3\)"):
        evaluation.evaluate(BayesOptimalPolicy(), "Pendulum-v1", 2)
    with pytest.raises(ValueError, match=r"action space is not supported.*Received: Dict"):
        evaluation.evaluate(agent, lambda: Unsupported(Box(-1, 1, (1,)), Dict(a=Box(-1, 1, (1,)))), 2)
    with pytest.raises(ValueError, match=r"Unknown environment. Known: b1, .*Received: 'b9'"):
        evaluation.evaluate(agent, "b9", 2)


@pytest.mark.parametrize("what", ["start", "reward"])
def test_bad_numbers_give_no_score(what):
    with pytest.raises(ValueError, match="environment gave a non-finite"):
        evaluation.evaluate(Scripted(), lambda: Faulty(what), 2)
    assert evaluation.evaluate(Scripted(), Faulty, 2)["return"] == 4.0
