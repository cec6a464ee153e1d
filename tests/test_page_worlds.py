"""What of the page needs no browser: its worlds, players and scale factors, in node."""

import json
import shutil
import subprocess
from pathlib import Path

import gymnasium
import h5py
import numpy as np
import pytest

from nmn_keras import known_task, zoo
from nmn_keras.baselines import BayesOptimalPolicy
from nmn_keras.envs import BENCHMARKS
from nmn_keras.envs.dynamics import MovingTarget, TwoTargets, WindyNavigation, plane
from nmn_keras.evaluation import episode_tasks

SCRIPT = Path(__file__).parent / "page" / "play_worlds.mjs"
NODE = shutil.which("node")
DYNAMICS = {"b1": MovingTarget(), "b2": WindyNavigation(), "b3": TwoTargets()}
STEPS = 600

pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed: apt-get install nodejs")


def play_in_node(asked):
    done = subprocess.run([NODE, SCRIPT], input=json.dumps(asked), capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def good_action(dynamics, position, task):
    """Towards the first target, or at the goal, so that there are hits."""
    if isinstance(dynamics, MovingTarget):
        return dynamics.goal(position, task)
    first, second = dynamics.targets(task)[0] - position
    return np.array([np.arctan2(first, second) / np.pi])


def trajectory(name, seed):
    """What node is asked to play, and what Python's dynamics make of it."""
    dynamics, rng = DYNAMICS[name], np.random.default_rng(seed)
    for_task, for_start, for_step = dynamics.draws
    task_draws, start_draws = rng.random(for_task), rng.random(for_start)
    task = dynamics.task(task_draws)
    position = dynamics.start(task, start_draws)
    played = [{"task": task, "position": position, "observation": dynamics.observation(position, task)}]
    asked = {"envId": BENCHMARKS[name].env_id, "taskDraws": task_draws.tolist(), "startDraws": start_draws.tolist()}
    steps = []
    for number in range(STEPS):
        draws, new_task = rng.random(for_step), None
        if number % 150 == 149:
            task = dynamics.task(rng.random(for_task))
            new_task = task.tolist()
        wandering = (number // 50) % 2  # for 50 steps any direction and far out, which leads around the edges
        action = rng.uniform(-25, 25, 1) if wandering else good_action(dynamics, position, task)
        steps.append({"action": action.tolist(), "draws": draws.tolist(), "newTask": new_task})
        position, reward = dynamics.step(position, task, action, draws)
        played.append({"position": position, "reward": reward, "observation": dynamics.observation(position, task)})
    return {**asked, "steps": steps}, played


@pytest.mark.parametrize("name", DYNAMICS)
def test_worlds_play_the_trajectories_of_the_dynamics(name):
    asked, expected = zip(*(trajectory(name, seed) for seed in range(3)), strict=True)
    played = play_in_node({"worlds": asked})["worlds"]
    for ours, theirs in zip(played, expected, strict=True):
        assert len(ours) == len(theirs) == STEPS + 1
        for one, other in zip(ours, theirs, strict=True):
            assert one.keys() == other.keys()
            for key, value in other.items():
                np.testing.assert_allclose(one[key], value, atol=1e-6)
        rewards = np.array([step["reward"] for step in ours[1:]])
        assert 5 < (rewards > 0).sum() < STEPS - 100  # hits and misses
        positions = np.array([step["position"] for step in ours])
        if name != "b1":  # around the edges too, and not only by appearing elsewhere
            far = np.abs(np.diff(positions, axis=0)).max(axis=1)
            assert (far > 3.5).sum() > 3


def test_the_bayes_optimal_player_is_that_of_baselines():
    policy, rng, dynamics = BayesOptimalPolicy(), np.random.default_rng(0), MovingTarget()
    asked, expected = [], []
    for _ in range(20):
        task = dynamics.task(rng.random(1))
        position = dynamics.start(task, rng.random(1))
        state, action, reward = policy.initial_state(1), np.zeros((1, 1), np.float32), None
        steps, actions = [], []
        for number in range(30):
            if number == 15:
                task = dynamics.task(rng.random(1))  # which it finds out anew
            steps.append({"observation": position.tolist(), "reward": reward})
            observation = np.float32(position)[np.newaxis]
            action, state = policy.act(observation, action, np.float32([[reward or 0.0]]), state)
            actions.append(action[0])
            position, reward = dynamics.step(position, task, action[0], rng.random(1))
            reward = float(reward)
        asked.append({"steps": steps})
        expected.append(actions)
    np.testing.assert_allclose(play_in_node({"bayes": asked})["bayes"], expected, atol=2e-4)


@pytest.mark.parametrize("name", ["b2", "b3"])
def test_plans_of_who_knows_the_task_are_those_of_known_task(name):
    dynamics, tasks = DYNAMICS[name], episode_tasks(name, 2)
    positions = np.random.default_rng(0).uniform(-plane.REACH, plane.REACH, (400, 2))
    near = [tasks[0] + np.eye(len(tasks[0]))[0] * 0.05, *tasks[1:]]  # as if dragged a little
    asked = [ask_known_task(name, task, positions=positions.tolist()) for task in tasks]
    asked.append(ask_known_task(name, tasks[0], guessFrom=near[0].tolist()))
    *found, guessed = play_in_node({"known": asked})["known"]
    for task, plan in zip(tasks, found, strict=True):
        expected = known_task.solve(dynamics, task)
        assert np.std(expected.after) > 20
        for table in ("ahead", "after"):
            values = np.reshape(plan[table], expected.after.shape)
            np.testing.assert_allclose(values, getattr(expected, table), atol=0.05)
        assert plan["perStep"] == pytest.approx(0.002 * expected.appearing, rel=1e-4)
        assert abs(plan["sweeps"] - expected.sweeps) <= 1
        check_actions(dynamics, task, positions, plan["actions"])
    np.testing.assert_allclose(guessed["after"], found[0]["after"], atol=0.05)
    assert guessed["sweeps"] < 0.85 * found[0]["sweeps"]


def ask_known_task(name, task, **more):
    return {"envId": BENCHMARKS[name].env_id, "task": task.tolist(), "positions": [], "steps": 0, **more}


def check_actions(dynamics, task, positions, actions):
    """They are worth what the best of Python's are, or a few hundredths less: of ties either is good."""
    policy = known_task.KnownTaskPolicy(dynamics, np.repeat(task[np.newaxis], len(positions), axis=0))
    worth = policy._worth(positions[:, np.newaxis] + policy._moves)
    chosen = np.rint((np.array(actions) + 1.0) * worth.shape[1] / 2.0).astype(int)
    lost = worth.max(axis=1) - np.take_along_axis(worth, chosen[:, np.newaxis], axis=1)[:, 0]
    assert np.median(np.ptp(worth, axis=1)) > 10 and lost.max() < 0.05


@pytest.mark.parametrize("name", ["b2", "b3"])
def test_who_knows_the_task_earns_what_known_task_does(name):
    tasks = episode_tasks(name, 6)
    asked = [ask_known_task(name, task, steps=4000) for task in tasks]
    earned, straight = np.array([plan["earned"] for plan in play_in_node({"known": asked})["known"]]).T
    quick = {"cells": 40, "directions": 48, "episodes": 16, "steps": 600}
    expected = known_task.simulate(BENCHMARKS[name], tasks, **quick).rate
    assert earned.mean() == pytest.approx(expected, rel=0.02)
    assert straight.mean() == pytest.approx(expected, rel=0.03)  # which it does until its plan is there


def test_who_knows_the_task_acts_while_a_plan_is_worked_out():
    script = SCRIPT.parent / "known_task.test.mjs"
    done = subprocess.run([NODE, "--test", script], capture_output=True, text=True, timeout=180)
    assert done.returncode == 0 and "# pass 5" in done.stdout, done.stdout


def test_scale_factors_are_read_from_the_published_file():
    names = [name for name in zoo.list_agents() if zoo.card(name)["kind"] == "nmn"]
    signals, asked, expected = {}, [], []
    for name in names:
        scales = published_scales(name)
        signals = np.random.default_rng(0).random((3, len(scales[0])))
        asked.append({"file": str(zoo.path(name, "policy.onnx")), "signals": signals.tolist()})
        expected.append([[1.0 + z @ scale for scale in scales] for z in signals])
    for ours, theirs in zip(play_in_node({"gains": asked})["gains"], expected, strict=True):
        for gains, layers in zip(ours, theirs, strict=True):
            assert len(gains) == len(layers) >= 1
            for gain, layer in zip(gains, layers, strict=True):
                np.testing.assert_allclose(gain, layer, atol=1e-5)


def published_scales(name):
    """The kernel `scale` (Z, units) of every modulated layer, from the Keras weights."""
    with h5py.File(zoo.path(name, "agent.weights.h5")) as weights:
        layers = weights["actor"]["layers"]
        names = sorted(key for key in layers if key.startswith("nmn_dense"))
        return [layers[key]["vars"]["1"][()] for key in names]


def test_an_rnn_has_no_scale_factors():
    file = str(zoo.path("b1-rnn", "policy.onnx"))
    assert play_in_node({"gains": [{"file": file, "signals": [[0.0]]}]})["gains"] == [[[]]]


def test_two_players_side_by_side_meet_the_same_chance():
    twins = play_in_node({"twins": {"envId": BENCHMARKS["b1"].env_id, "seed": 7, "steps": 60}})["twins"]
    one, other = np.array(twins["met"])
    np.testing.assert_array_equal(one, other)
    assert len(np.unique(one[:, 2])) > 40  # the readings, drawn anew after each hit
    assert [mark["text"] for mark in twins["marks"]] == ["new task", "memory reset"]
    assert [mark["step"] for mark in twins["marks"]] == [30.5, 50.5]
    rewards = one[:, 1]
    assert twins["means"][0][-1] == pytest.approx(rewards[-20:].mean())
    again = play_in_node({"twins": {"envId": BENCHMARKS["b1"].env_id, "seed": 8, "steps": 60}})["twins"]
    assert again["met"][0] != twins["met"][0]


def test_an_agent_loses_no_step_with_its_connection():
    script = SCRIPT.parent / "remote_agent.test.mjs"
    done = subprocess.run([NODE, "--test", script], capture_output=True, text=True, timeout=180)
    assert done.returncode == 0 and "# pass 8" in done.stdout, done.stdout


def card_of(env_id, parameters):
    """What the server says of an agent for an environment with hidden parameters."""
    sizes, seen = ([2], 4) if env_id == "CartPole-v1" else (None, 3)
    told = {"env": env_id, "parameters": parameters}
    box = {"observation": {"low": [None] * seen}, "action": {"sizes": sizes}}
    return {"env_id": "nmn_keras/HiddenParameters-v0", "env_kwargs": told, **box}


def set_physics(env, env_id, task):
    """The attributes of a task, and what Gymnasium derives of them when it makes the environment."""
    if env_id == "Pendulum-v1":
        env.l, env.m, env.g, env.max_torque = task
        return
    env.length, env.masscart, env.masspole, env.force_mag = task
    env.total_mass = env.masspole + env.masscart
    env.polemass_length = env.masspole * env.length


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "CartPole-v1"])
def test_hidden_physics_are_those_of_gymnasium(env_id):
    env, rng = gymnasium.make(env_id).unwrapped, np.random.default_rng(0)
    usual = np.array([1.0, 1.0, 10.0, 2.0] if env_id == "Pendulum-v1" else [0.5, 1.0, 0.1, 10.0])
    tasks = [usual * rng.uniform(0.6, 1.4, 4) for _ in range(8)]
    start = rng.random(4)
    steps = []
    for number in range(400):  # the pole leans where a push helps, and falls now and then
        action = [float(rng.uniform(-3, 3))] if env_id == "Pendulum-v1" else [int(rng.random() < 0.5)]
        steps.append({"task": tasks[number // 50].tolist(), "action": action})
    asked = {"card": card_of(env_id, {}), "start": start.tolist(), "steps": steps}
    played = play_in_node({"physics": [asked]})["physics"][0]["played"]
    env.reset(seed=0)
    falls = 0
    for before, after, step in zip(played, played[1:], steps, strict=False):
        set_physics(env, env_id, step["task"])
        env.state = np.array(before["position"][: 2 if env_id == "Pendulum-v1" else 4])
        env.steps_beyond_terminated = None
        action = step["action"][0] if env_id == "CartPole-v1" else np.array(step["action"])
        observation, reward, terminated, _, _ = env.step(action)
        assert after["reward"] == pytest.approx(reward, rel=1e-9)
        assert after.get("ended", False) == terminated
        if terminated:
            falls += 1
            np.testing.assert_allclose(after["position"], [*(0.05 * (2 * start - 1)), 0.0])
        else:
            np.testing.assert_allclose(after["observation"], observation, atol=1e-6)
            np.testing.assert_allclose(after["position"][: len(env.state)], env.state, atol=1e-12)
    assert (falls > 5) == (env_id == "CartPole-v1")


def test_parameters_are_drawn_in_their_ranges_and_unknown_ones_have_no_world():
    known = {"unwrapped.length": [0.25, 1.5], "force_mag": [5.0, 15.0]}
    unknown = [card_of("CartPole-v1", {"gravity": [1, 2]}), card_of("Acrobot-v1", {})]
    blind = card_of("Pendulum-v1", {})
    blind["observation"] = {"low": [None] * 2}
    steps = [{"task": [0.5, 1, 0.1, 10], "action": [0]}]
    cards = [card_of("CartPole-v1", known), *unknown, blind]
    asked = [{"card": card, "start": [0.5] * 4, "steps": steps} for card in cards]
    found, *others = play_in_node({"physics": asked})["physics"]
    assert found["drawn"] == pytest.approx([0.5625, 1.0, 0.1, 7.5])
    assert others == [None] * 3
