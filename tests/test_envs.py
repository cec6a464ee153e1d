"""Contracts every registered benchmark keeps, and benchmark 1 against its table."""

import copy
import importlib
import pickle
import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from nmn_keras import envs
from nmn_keras.envs.dynamics import MovingTarget
from nmn_keras.envs.gym import MovingTargetEnv, MovingTargetVectorEnv
from nmn_keras.envs.render import frame
from nmn_keras.envs.task_env import TRACE

IDS = [benchmark.env_id for benchmark in envs.BENCHMARKS.values()]
UNAVOIDABLE = "symmetric and normalized space"  # the paper's actions are not in [-1, 1]


def play(env, steps):
    """Return observations and rewards of `steps` actions drawn by a fixed generator."""
    rng = np.random.default_rng(5)
    shape = env.action_space.shape
    track = [env.step(rng.uniform(-20, 20, shape).astype(np.float32))[:2] for _ in range(steps)]
    return np.array([seen for seen, _ in track]), np.array([reward for _, reward in track])


# Contracts over the registry


@pytest.mark.parametrize("env_id", IDS)
def test_gymnasium_checker_has_nothing_to_say(env_id):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(gymnasium.make(env_id).unwrapped)
    assert [str(w.message) for w in caught if UNAVOIDABLE not in str(w.message)] == []


@pytest.mark.parametrize("env_id", IDS)
def test_copies_play_on_identically(env_id):
    env = gymnasium.make(env_id, disable_env_checker=True).unwrapped
    env.reset(seed=3)
    play(env, 10)
    copies = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    seen, rewards = play(env, 50)
    assert len(np.unique(seen)) + len(np.unique(rewards)) > 20
    action = np.ones(env.action_space.shape, np.float32)
    following = env.step(action)[0]
    for other in copies:
        np.testing.assert_array_equal(play(other, 50)[0], seen)
        np.testing.assert_array_equal(other.step(action)[0], following)


@pytest.mark.parametrize("env_id", IDS)
def test_one_and_a_vector_of_one_play_the_same(env_id):
    one = envs.make(env_id, max_episode_steps=30)
    many = envs.make_vec(env_id, 1, max_episode_steps=30)
    first, info = one.reset(seed=11)
    firsts, infos = many.reset(seed=11)
    rng = np.random.default_rng(0)
    for _ in range(2 * 30):
        np.testing.assert_array_equal(first, firsts[0])
        np.testing.assert_array_equal(info["task"], infos["task"][0])
        action = rng.uniform(-20, 20, one.action_space.shape).astype(np.float32)
        first, reward, terminated, truncated, info = one.step(action)
        firsts, rewards, terminations, truncations, infos = many.step(action[np.newaxis])
        assert (reward, terminated, truncated) == (rewards[0], terminations[0], truncations[0])
        if truncated:
            first, info = one.reset()


@pytest.mark.parametrize("env_id", IDS)
def test_everything_is_inside_its_space(env_id):
    env = envs.make_vec(env_id, 40)
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    seen, _ = env.reset(seed=0)
    for _ in range(50):
        assert seen in env.observation_space and seen.dtype == np.float32
        seen, rewards, terminations, truncations, infos = env.step(env.action_space.sample())
        assert rewards.shape == terminations.shape == truncations.shape == (40,)
        assert not terminations.any() and infos["_task"].all()
    assert env.single_observation_space == envs.make(env_id).observation_space
    assert env.single_action_space == envs.make(env_id).action_space


@pytest.mark.parametrize("env_id", IDS)
def test_a_long_episode_is_truncated_at_its_registered_length(env_id):
    benchmark = next(b for b in envs.BENCHMARKS.values() if b.env_id == env_id)
    one, many = envs.make(env_id), envs.make_vec(env_id, 1)
    one.reset(seed=0), many.reset(seed=0)
    action = np.zeros(one.action_space.shape, np.float32)
    ends = [(one.step(action)[3], many.step(action[None])[3][0]) for _ in range(benchmark.episode_steps)]
    assert ends == [(False, False)] * (benchmark.episode_steps - 1) + [(True, True)]


@pytest.mark.parametrize("env_id", IDS)
def test_same_step_autoreset_is_disabled_autoreset_with_the_reset_done(env_id):
    same = envs.make_vec(env_id, 4, max_episode_steps=5)
    manual = envs.make_vec(env_id, 4, max_episode_steps=5, autoreset_mode=AutoresetMode.DISABLED)
    assert manual.metadata["autoreset_mode"] is AutoresetMode.DISABLED
    same.reset(seed=2), manual.reset(seed=2)
    old_tasks = same.task
    for step in range(1, 6):
        actions = np.full(same.action_space.shape, step, np.float32)
        seen, rewards, _, ended, infos = same.step(actions)
        last, last_rewards, _, last_ended, _ = manual.step(actions)
        np.testing.assert_array_equal(rewards, last_rewards)
        np.testing.assert_array_equal(ended, last_ended)
    assert ended.all() and infos["_final_obs"].all() and infos["_final_info"].all()
    np.testing.assert_array_equal(np.stack(infos["final_obs"]), last)
    np.testing.assert_array_equal(infos["final_info"]["task"], old_tasks)
    with pytest.raises(ResetNeeded, match=r"environments \[0, 1, 2, 3\]"):
        manual.step(actions)
    begun, begun_infos = manual.reset(options={"reset_mask": last_ended})
    np.testing.assert_array_equal(seen, begun)
    np.testing.assert_array_equal(infos["task"], begun_infos["task"])
    assert (infos["task"] != old_tasks).any(axis=-1).all()


@pytest.mark.parametrize("env_id", IDS)
def test_infos_have_the_form_of_gymnasiums_own_vector(env_id):
    ours = envs.make_vec(env_id, 3, max_episode_steps=2)
    theirs = envs.make_vec(lambda: envs.make(env_id, max_episode_steps=2), 3)
    assert isinstance(theirs, SyncVectorEnv)
    actions = np.zeros(ours.action_space.shape, np.float32)
    for env in (ours, theirs):
        env.reset(seed=0)
        env.step(actions)
    infos, expected = (env.step(actions)[4] for env in (ours, theirs))
    assert sorted(infos) == sorted(expected)
    assert sorted(infos["final_info"]) == sorted(expected["final_info"])
    for key in ("task", "_task", "final_obs", "_final_obs", "_final_info"):
        assert infos[key].shape == expected[key].shape
        assert infos[key].dtype == expected[key].dtype


@pytest.mark.parametrize("env_id", IDS)
def test_a_reset_mask_leaves_the_others_alone(env_id):
    env = envs.make_vec(env_id, 3, autoreset_mode=AutoresetMode.DISABLED)
    seen, infos = env.reset(seed=4)
    mask = np.array([False, True, False])
    options = {"reset_mask": mask, "task": infos["task"][0]}
    again, infos_again = env.reset(options=options)
    assert sorted(options) == ["reset_mask", "task"]  # the caller's options are not consumed
    np.testing.assert_array_equal((again == seen).all(axis=1), ~mask)
    np.testing.assert_array_equal(infos_again["task"][[0, 1, 2]], infos["task"][[0, 0, 2]])


@pytest.mark.parametrize("env_id", IDS)
def test_what_is_returned_is_the_callers(env_id):
    kept, spoiled = envs.make_vec(env_id, 3), envs.make_vec(env_id, 3)
    kept.reset(seed=1), spoiled.reset(seed=1)
    for _ in range(5):
        actions = np.zeros(kept.action_space.shape, np.float32)
        expected = kept.step(actions)
        received = spoiled.step(actions)
        np.testing.assert_array_equal(received[0], expected[0])
        np.testing.assert_array_equal(received[1], expected[1])
        for array in (*received[:4], *received[4].values(), actions):
            array[...] = 1


@pytest.mark.parametrize("env_id", IDS)
def test_fixed_options_do_not_move_later_random_numbers(env_id):
    free, fixed = envs.make(env_id), envs.make(env_id)
    _, info = free.reset(seed=8)
    _, info_fixed = fixed.reset(seed=8, options={"task": -info["task"]})
    np.testing.assert_array_equal(info_fixed["task"], -info["task"])
    np.testing.assert_array_equal(free.reset()[0], fixed.reset()[0])


@pytest.mark.parametrize("env_id", IDS)
def test_pictures(env_id):
    env = envs.make(env_id, render_mode="rgb_array")
    env.reset(seed=0)
    begun = env.render()
    env.step(np.full(env.action_space.shape, 3.0, np.float32))
    played = env.render()
    for picture in (begun, played):
        assert picture.dtype == np.uint8 and picture.ndim == 3 and picture.shape[2] == 3
        assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 20
    assert (begun != played).any()
    many = envs.make_vec(env_id, 2, render_mode="rgb_array")
    many.reset(seed=0)
    many.step(np.full(many.action_space.shape, 3.0, np.float32))
    pictures = many.render()
    assert [picture.shape for picture in pictures] == [played.shape] * 2
    assert (pictures[0] != pictures[1]).any()
    silent = envs.make_vec(env_id, 1)
    silent.reset()
    assert silent.render() is None


@pytest.mark.parametrize("env_id", IDS)
def test_a_trace_is_kept_only_for_pictures_and_begins_with_the_episode(env_id):
    one = envs.make(env_id, render_mode="rgb_array").unwrapped
    many = envs.make_vec(env_id, 1, max_episode_steps=40, render_mode="rgb_array")
    silent = envs.make_vec(env_id, 1)
    seen = [env.reset(seed=0) for env in (one, many, silent)]
    positions = []
    for _ in range(39):
        positions.append(one._position)
        for env in (one, many, silent):
            seen = env.step(np.zeros(env.action_space.shape, np.float32))
    before = np.array(positions[-1 - TRACE : -1])
    np.testing.assert_array_equal(one._scene.trace, before)
    np.testing.assert_array_equal(many._scene.trace, before[np.newaxis])
    assert silent._scene.trace.shape[1] == 0
    seen = many.step(np.zeros(many.action_space.shape, np.float32))
    assert seen[3].all() and np.isnan(many._scene.trace).all()
    one.reset()
    assert np.isnan(one._scene.trace).all()


# Benchmark 1


def reference_step(x, alpha, action, spawn):
    """Return next x and reward of benchmark 1 in plain Python."""
    action = max(-20.0, min(20.0, action))
    distance = abs(action - (x - alpha))
    return (spawn, 10.0) if distance < 1.0 else (x, -distance)


def test_b1_step_is_the_table():
    rng = np.random.default_rng(0)
    x, alpha = rng.uniform(-5, 5, (2000, 1)), rng.uniform(-10, 10, (2000, 1))
    action = np.concatenate([rng.uniform(-25, 25, (1000, 1)), (x - alpha)[1000:] + 0.9])
    draws = rng.random((2000, 1))
    moved, rewards = MovingTarget().step(x, alpha, action, draws)
    arguments = zip(x[:, 0], alpha[:, 0], action[:, 0], 10 * draws[:, 0] - 5, strict=True)
    expected = np.array([reference_step(*numbers) for numbers in arguments])
    np.testing.assert_allclose(moved[:, 0], expected[:, 0], rtol=1e-13)
    np.testing.assert_allclose(rewards, expected[:, 1], rtol=1e-13)
    assert 1000 <= (rewards == 10).sum() < 1200


@pytest.mark.parametrize(
    ("action", "reward"),
    [(-1.0, 10.0), (-1.875, 10.0), (-2.0, -1.0), (0.0, -1.0), (-20.0, -19.0), (-500.0, -19.0)],
)
def test_b1_edges_and_clipping(action, reward):
    env = MovingTargetEnv()
    env.reset(seed=0, options={"task": 3.0, "position": 2.0})  # the goal is at -1
    seen, received, terminated, truncated, _ = env.step(np.array([action]))
    assert received == reward
    assert (seen[0] == 2.0) == (reward < 0)
    assert terminated is False and truncated is False


def test_b1_draws_are_uniform_and_independent():
    env = MovingTargetVectorEnv(20_000)
    seen, infos = env.reset(seed=0)
    tasks = infos["task"][:, 0]
    respawned, rewards, *_ = env.step(seen - infos["task"].astype(np.float32))
    assert (rewards == 10).all()
    levels = np.linspace(0.02, 0.98, 49)
    for sample, reach in ((tasks, 10), (seen[:, 0], 5), (respawned[:, 0], 5)):
        assert np.abs(sample).max() <= reach
        quantiles = np.quantile(sample / (2 * reach) + 0.5, levels)
        np.testing.assert_allclose(quantiles, levels, atol=0.015)
    correlations = np.corrcoef([tasks, seen[:, 0], respawned[:, 0]]) - np.eye(3)
    assert np.abs(correlations).max() < 0.03


def test_b1_new_task_in_mid_episode_moves_the_goal_only():
    env = gymnasium.make(IDS[0])
    env.reset(seed=0, options={"task": -4.0, "position": 1.0})
    assert env.step(np.float32([-10.0]))[1] == -15.0
    env.unwrapped.set_task(6.0)
    seen, reward, _, _, info = env.step(np.float32([-10.0]))
    assert (seen[0], reward, info["task"][0]) == (1.0, -5.0, 6.0)
    many = MovingTargetVectorEnv(2)
    seen, _ = many.reset(seed=0, options={"position": [1.0, 2.0]})
    many.set_task([6.0, -6.0])
    assert many.step(np.float32([[-10.0], [10.0]]))[1].tolist() == [-5.0, -2.0]


@pytest.mark.parametrize("module", ["jax.numpy", "keras.ops"])
def test_b1_dynamics_on_other_array_modules(module):
    xp = importlib.import_module(module) if module == "keras.ops" else pytest.importorskip(module)
    rng = np.random.default_rng(1)
    x, alpha, action = (rng.uniform(-r, r, (3, 7, 1)).astype(np.float32) for r in (5, 10, 25))
    action[0] = x[0] - alpha[0]
    draws = rng.random((3, 7, 1)).astype(np.float32)
    dynamics = MovingTarget()
    moved, rewards = dynamics.step(*map(xp.array, (x, alpha, action, draws)), xp=xp)
    expected, expected_rewards = dynamics.step(x, alpha, action, draws)
    np.testing.assert_allclose(np.asarray(moved), expected, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(rewards), expected_rewards, rtol=1e-5)
    assert np.asarray(rewards).shape == (3, 7)


# What users get wrong


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda e: e.step([np.nan]), ValueError, "not finite.*Received"),
        (lambda e: e.step(0.0), ValueError, r"\(1,\) is accepted. Received: shape \(\)"),
        (lambda e: e.step(["up"]), TypeError, "not made of numbers"),
        (lambda e: e.reset(options={"tasks": 1}), ValueError, "Known: task, position"),
        (lambda e: e.reset(options={"task": 11}), ValueError, r"\[-10.0\] to \[10.0\].*: 11"),
        (lambda e: e.reset(options={"position": np.nan}), ValueError, "not finite"),
        (lambda e: e.reset(options={"task": [1, 2]}), ValueError, r"Accepted: \(1,\) or \(\)"),
        (lambda e: e.set_task(-10.1), ValueError, "out of range"),
    ],
)
def test_errors_of_one(call, error, words):
    env = MovingTargetEnv()
    with pytest.raises(ResetNeeded):
        env.step([0.0])
    env.reset(seed=0)
    with pytest.raises(error, match=words):
        call(env)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda e: e.step(np.zeros(3)), ValueError, r"\(3, 1\) is accepted. Received: shape \(3,"),
        (lambda e: e.step([[0.0], [np.inf], [0.0]]), ValueError, "not finite"),
        (lambda e: e.reset(options={"task": [1, 2]}), ValueError, r"\(1,\) or \(3, 1\) or \(\)"),
        (lambda e: e.reset(options={"reset_mask": [1, 0, 1]}), TypeError, "dtype bool"),
        (lambda e: e.reset(options={"reset_mask": [True]}), ValueError, r"shape \(3,\)"),
        (lambda e: e.reset(options={"reset_mask": [False] * 3}), ValueError, "one True"),
    ],
)
def test_errors_of_many(call, error, words):
    env = MovingTargetVectorEnv(3)
    with pytest.raises(ResetNeeded):
        env.step(np.zeros((3, 1)))
    with pytest.raises(ResetNeeded):
        env.reset(options={"reset_mask": np.array([True, False, False])})
    env.reset(seed=0)
    with pytest.raises(error, match=words):
        call(env)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"num_envs": 0}, "whole number from 1.*: 0"),
        ({"autoreset_mode": AutoresetMode.NEXT_STEP}, "SAME_STEP, AutoresetMode.DISABLED"),
        ({"render_mode": "ansi"}, "'rgb_array'. Received: 'ansi'"),
        ({"max_episode_steps": 0}, "from 1. Received: 0"),
        ({"alpha_max": 15.5}, r"Accepted: \(0, 15\]. Received: 15.5"),
        ({"alpha_max": float("nan")}, "Received: nan"),
    ],
)
def test_errors_of_constructors(settings, words):
    with pytest.raises(ValueError, match=words):
        MovingTargetVectorEnv(**settings)


def test_no_picture_of_unknown_dynamics():
    with pytest.raises(TypeError, match=r"Accepted: MovingTarget, WindyNavigation, TwoTargets\. Received: object"):
        frame(object(), None)


# Making environments


def test_names():
    assert envs.resolve("b1") == envs.resolve("nmn_keras/MovingTarget-v0") == IDS[0]
    assert envs.resolve("nmn_keras.envs:b1") == IDS[0]
    assert envs.resolve("Pendulum-v1") == "Pendulum-v1"
    for name in ("b9", "Nothing-v0", "no_such_module:b1"):
        with pytest.raises(ValueError, match=f"Known: b1, {IDS[0]}.*Received: '{name}'"):
            envs.resolve(name)


def test_a_module_stays_with_the_id_that_it_registers(tmp_path, monkeypatch):
    (tmp_path / "my_worlds.py").write_text(
        "import gymnasium\ngymnasium.register('Mine-v0', 'nmn_keras.envs.gym:MovingTargetEnv', max_episode_steps=5)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    name = "my_worlds:Mine-v0"
    assert envs.resolve(name) == name  # so that another process can make what a run was trained on
    assert envs.make(name).spec.id == "Mine-v0"
    assert envs.resolve(f"nmn_keras.envs:{IDS[0]}") == IDS[0]


def test_every_source_makes_the_same():
    settings = {"alpha_max": 8.0, "max_episode_steps": 7}
    by_name = envs.make("b1", **settings)
    sources = [by_name, by_name.spec, lambda: envs.make("b1", **settings)]
    for source in sources:
        one, many = envs.make(source), envs.make_vec(source, 2)
        assert one is not by_name and one.unwrapped.dynamics == MovingTarget(alpha_max=8.0)
        many.reset(seed=0)
        ends = [many.step(np.zeros((2, 1), np.float32))[3].all() for _ in range(7)]
        assert ends == [False] * 6 + [True]
    wrapped = gymnasium.wrappers.RescaleAction(by_name, np.float32(-1), np.float32(1))
    assert isinstance(envs.make_vec("b1", 2), MovingTargetVectorEnv)
    assert envs.make_vec(wrapped, 2).single_action_space.high == [1.0]


def test_a_factory_must_make_new_environments():
    one = MovingTargetEnv()
    with pytest.raises(ValueError, match="same environment every time"):
        envs.make_vec(lambda: one, 2)
    assert envs.make_vec(lambda: one, 1).num_envs == 1


def test_foreign_environments_are_vectorised():
    env = envs.make_vec("Pendulum-v1", 3, max_episode_steps=2, g=5.0)
    assert isinstance(env, SyncVectorEnv) and env.autoreset_mode is AutoresetMode.SAME_STEP
    env.reset(seed=0)
    env.step(np.zeros((3, 1), np.float32))
    assert "final_obs" in env.step(np.zeros((3, 1), np.float32))[4]


@pytest.mark.parametrize(
    ("source", "kwargs", "error", "words"),
    [
        (3, {}, TypeError, "Not an environment. .*Received: 3"),
        (MovingTargetVectorEnv(2), {"alpha_max": 8.0}, TypeError, "Not an env|take no arguments.*alpha_max"),
        (MovingTargetVectorEnv(3), {}, (TypeError, ValueError), "Not an env|2 are needed. Received: 3"),
        (lambda: MovingTargetVectorEnv(3), {}, (TypeError, ValueError), "makes a vector env|2 are needed. Received: 3"),
        (MovingTargetEnv(), {}, ValueError, "has no spec"),
        (envs.make_vec("b1", 2).spec, {}, ValueError, "spec of a vector environment"),
        (gymnasium.Wrapper(envs.make("b1")), {}, ValueError, "does not tell its arguments.*Received: Wrapper"),
        (gymnasium.Wrapper(envs.make("b1")).spec, {}, ValueError, "does not tell its arguments.*Received: Wrapper"),
        (lambda: 3, {}, TypeError, "Received: int"),
        (MovingTargetEnv, {"alpha_max": 8.0}, TypeError, "Received: alpha_max"),
    ],
)
def test_errors_of_making(source, kwargs, error, words):
    for make in (envs.make, lambda env, **kwargs: envs.make_vec(env, 2, **kwargs)):
        with pytest.raises(error, match=words):
            make(source, **kwargs)


def test_importing_environments_stays_light():
    code = (
        "import sys, nmn_keras.envs, nmn_keras.baselines as b\n"
        "for name in ('b1', 'b2', 'b3'):\n"
        "    nmn_keras.envs.make_vec(name, 2).reset(seed=0)\n"
        "heavy = {'tensorflow', 'keras', 'jax', 'torch', 'matplotlib', 'scipy'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
