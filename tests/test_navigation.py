"""Benchmarks 2 and 3 against their table, each corrected misprint by itself."""

import importlib
import math

import gymnasium
import numpy as np
import pytest

from nmn_keras import envs
from nmn_keras.envs.dynamics import TwoTargets, WindyNavigation, plane
from nmn_keras.envs.gym import TwoTargetsEnv, TwoTargetsVectorEnv, WindyNavigationEnv, WindyNavigationVectorEnv

DYNAMICS = [WindyNavigation(), WindyNavigation(0.6), TwoTargets(), TwoTargets(0.6)]
NORTH, EAST, SOUTH, WEST = 0.0, 0.5, 1.0, -0.5
ORIGIN_WIND_NORTH = [0.0, 0.0, 0.0]


def reference_move(u, angles):
    """Return a position moved by 0.25 in each direction and put back into the square, in plain Python."""
    moved = []
    for coordinate, part in zip(u, (math.sin, math.cos), strict=True):
        coordinate += 0.25 * sum(part(angle) for angle in angles)
        moved.append(coordinate - 4 if coordinate > 2 else coordinate + 4 if coordinate < -2 else coordinate)
    return moved


def reference_b2(u, task, action, noise, spawn):
    """Return next u and reward of benchmark 2 in plain Python."""
    if math.dist(u, task[:2]) <= 0.4:
        return [*spawn, 100.0]
    return [*reference_move(u, [math.pi * action, task[2] + noise]), -2.0]


def reference_b3(u, task, action, spawn):
    """Return next u and reward of benchmark 3 in plain Python."""
    first, second = math.dist(u, task[:2]), math.dist(u, task[2:4])
    if min(first, second) > 0.4:
        return [*reference_move(u, [math.pi * action]), 0.0]
    entered = 1 if first <= second else -1
    return [*spawn, 100.0 if entered == task[4] else -50.0]


def draw(dynamics, count, seed=0):
    """Return positions, half of them near a target, with tasks, actions and draws."""
    rng = np.random.default_rng(seed)
    task = dynamics.task(rng.random((count, dynamics.draws[0])))
    position = rng.uniform(-2, 2, (count, 2))
    centre = dynamics.targets(task)[-1]
    position[::2] = (centre + rng.uniform(-0.5, 0.5, (count, 2)))[::2]
    return position, task, rng.uniform(-5, 5, (count, 1)), rng.random((count, dynamics.draws[2]))


def test_b2_step_is_the_table():
    position, task, action, draws = draw(WindyNavigation(), 4000)
    following, rewards = WindyNavigation().step(position, task, action, draws)
    noise, spawn = math.pi / 4 * (2 * draws[:, 0] - 1), 3 * draws[:, 1:] - 1.5
    rows = zip(position, task, action[:, 0], noise, spawn, strict=True)
    expected = np.array([reference_b2(*row) for row in rows])
    np.testing.assert_allclose(np.column_stack([following, rewards]), expected, atol=1e-12)
    assert 800 < (rewards == 100).sum() < 1300


def test_b3_step_is_the_table():
    position, task, action, draws = draw(TwoTargets(), 4000)
    task[::3, :2] = task[::3, 2:4] + 0.3  # many that overlap
    following, rewards = TwoTargets().step(position, task, action, draws)
    rows = zip(position, task, action[:, 0], 3 * draws - 1.5, strict=True)
    expected = np.array([reference_b3(*row) for row in rows])
    np.testing.assert_allclose(np.column_stack([following, rewards]), expected, atol=1e-12)
    assert {(rewards == value).sum() > 500 for value in (100, -50, 0)} == {True}


def test_b2_reward_is_for_where_the_agent_was():
    env = WindyNavigationEnv()
    seen, _ = env.reset(seed=0, options={"task": ORIGIN_WIND_NORTH, "position": [0.0, -0.7]})
    rewards = []
    for _ in range(3):
        inside = np.linalg.norm(seen) <= 0.4
        seen, reward, *_ = env.step(np.float32([NORTH]))
        rewards.append((reward, inside))
    assert rewards[:2] == [(-2.0, False), (100.0, True)]
    assert all((reward == 100.0) == inside for reward, inside in rewards)


def test_b3_reward_is_for_where_the_agent_was():
    env = TwoTargetsEnv()
    for sign, reward in ((1.0, 100.0), (-1.0, -50.0)):
        options = {"task": [0.5, 0.5, -0.8, -0.8, sign], "position": [0.0, 0.5]}
        env.reset(seed=0, options=options)
        assert env.step(np.float32([EAST]))[1] == 0.0  # arrives at (0.25, 0.5)
        assert env.step(np.float32([EAST]))[1] == reward


@pytest.mark.parametrize(
    ("position", "action", "expected"),
    [
        ([1.9, 0.9], EAST, [-1.85, 0.9]),
        ([-1.9, 0.9], WEST, [1.85, 0.9]),
        ([0.9, 1.9], NORTH, [0.9, -1.85]),
        ([0.9, -1.9], SOUTH, [0.9, 1.85]),
        ([1.9, -1.9], 0.75, [1.9 + 0.25 / math.sqrt(2) - 4, -1.9 - 0.25 / math.sqrt(2) + 4]),
        ([0.9, 0.9], NORTH, [0.9, 1.15]),
        ([0.9, 0.9], EAST + 2000, [1.15, 0.9]),
        ([0.9, 0.9], EAST - 6, [1.15, 0.9]),
    ],
)
def test_directions_edges_and_the_period(position, action, expected):
    task = np.array([-0.9, -0.9, -0.5, -0.5, 1.0])
    moved, reward = TwoTargets().step(np.array(position), task, np.array([action]), np.zeros(2))
    np.testing.assert_allclose(moved, expected, atol=1e-12)
    assert reward == 0.0
    windy, _ = WindyNavigation(cone=0.0).step(np.array(position), np.zeros(3), np.array([action]), np.zeros(3))
    north = plane.wrap(moved + np.array([0.0, 0.25]))
    np.testing.assert_allclose(windy, north, atol=1e-12)


def test_wrap_keeps_what_is_inside_and_exactly_on_the_edge():
    inside = np.array([[-2.0, 2.0], [1.999, -1.999], [0.0, 0.5]])
    np.testing.assert_array_equal(plane.wrap(inside), inside)
    np.testing.assert_allclose(plane.wrap(np.array([2.0 + 1e-9, -2.4])), [-2.0, 1.6], atol=1e-8)


def test_b3_nearer_centre_decides_where_targets_overlap():
    task = np.array([0.0, 0.0, 0.4, 0.0, 1.0])
    position = np.array([[0.19, 0.0], [0.21, 0.0], [0.2, 0.0], [-0.41, 0.0], [0.81, 0.0], [0.79, 0.0], [0.2, 0.34]])
    first_good = TwoTargets().reward(position, np.broadcast_to(task, (7, 5)))
    assert first_good.tolist() == [100.0, -50.0, 100.0, 0.0, 0.0, -50.0, 100.0]
    second_good = TwoTargets().reward(position, np.broadcast_to(task * [1, 1, 1, 1, -1], (7, 5)))
    assert second_good.tolist() == [-50.0, 100.0, -50.0, 0.0, 0.0, 100.0, -50.0]


def test_b2_wind_is_uniform_in_a_cone_of_a_quarter_turn():
    env = WindyNavigationVectorEnv(40_000)
    env.reset(seed=0, options={"task": [-1.0, -1.0, 2.0], "position": [1.0, 1.0]})
    seen, *_ = env.step(np.full((40_000, 1), EAST, np.float32))
    blown = np.array([-1.0, -1.0]) - seen - [1.25, 1.0]
    np.testing.assert_allclose(np.linalg.norm(blown, axis=1), 0.25, atol=1e-6)
    noise = np.arctan2(*blown.T) - 2.0
    noise = (noise + math.pi) % (2 * math.pi) - math.pi
    assert np.abs(noise).max() <= math.pi / 4 + 1e-5
    levels = np.linspace(0.02, 0.98, 49)
    np.testing.assert_allclose(np.quantile(noise / (math.pi / 2) + 0.5, levels), levels, atol=0.01)


@pytest.mark.parametrize("exclusion", [0.0, 0.6])
@pytest.mark.parametrize(
    ("kind", "task"),
    [(WindyNavigationVectorEnv, [0.3, -0.9, 0.0]), (TwoTargetsVectorEnv, [0.3, -0.9, -0.5, 0.7, 1.0])],
)
def test_agents_appear_uniformly_outside_the_exclusion(kind, task, exclusion):
    env = kind(40_000, spawn_exclusion=exclusion)
    begun, _ = env.reset(seed=0, options={"task": task})
    env.reset(options={"task": task, "position": task[:2]})
    respawned, rewards, *_ = env.step(np.zeros((40_000, 1), np.float32))
    assert (rewards == 100).all()
    centres = np.array(task[: 2 * (len(task) // 2)]).reshape(-1, 2)
    grid = 3 * (np.arange(600) + 0.5) / 600 - 1.5
    places = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    nearest = np.linalg.norm(places[:, np.newaxis] - centres, axis=-1).min(axis=1)
    places = places[nearest > exclusion]
    for seen in (begun, respawned):
        positions = centres[0] - seen[:, :2]
        assert np.abs(positions).max() <= 1.5 + 1e-6
        nearest = np.linalg.norm(positions[:, np.newaxis] - centres, axis=-1).min(axis=1)
        assert nearest.min() >= exclusion - 1e-6 and nearest.min() < exclusion + 0.05
        counts, expected = (
            np.histogram2d(*sample.T, bins=6, range=[[-1.5, 1.5]] * 2, density=True)[0]
            for sample in (positions, places)
        )
        np.testing.assert_allclose(counts, expected, atol=0.015)


def test_candidates_suffice_but_for_a_billionth():
    assert plane.candidates(0.0, 1) == plane.candidates(0.0, 2) == 1
    for targets, exclusion in ((1, 0.6), (2, 0.6), (2, 1.0), (1, 1e-3)):
        refused = targets * math.pi * exclusion**2 / 9
        count = plane.candidates(exclusion, targets)
        assert refused**count <= 1e-9 < refused ** (count - 1)


def test_the_first_good_candidate_is_taken_and_the_last_if_none_is():
    points = np.array([[0.0, 0.0], [0.1, 0.0], [0.9, 0.9], [-1.2, 1.2]])
    centre = np.zeros(2)
    taken = plane.spawn((points / 1.5 + 1).ravel() / 2, [centre], 0.6)
    np.testing.assert_allclose(taken, [0.9, 0.9])
    taken = plane.spawn((points / 1.5 + 1).ravel() / 2, [centre, points[2]], 0.6)
    np.testing.assert_allclose(taken, [-1.2, 1.2])
    taken = plane.spawn((points[:2] / 1.5 + 1).ravel() / 2, [centre], 0.6)
    np.testing.assert_allclose(taken, [0.1, 0.0])


@pytest.mark.parametrize("dynamics", DYNAMICS)
def test_tasks_fill_their_bounds_and_observations_keep_theirs(dynamics):
    rng = np.random.default_rng(0)
    task = dynamics.task(rng.random((20_000, dynamics.draws[0])))
    levels = np.linspace(0.02, 0.98, 49)
    for column, low, high in zip(task.T, *dynamics.task_bounds[:2], strict=True):
        if len(np.unique(column)) == 2:
            assert {-1.0, 1.0} == set(column) and abs(column.mean()) < 0.02
            continue
        assert low <= column.min() and column.max() < high
        np.testing.assert_allclose(np.quantile((column - low) / (high - low), levels), levels, atol=0.015)
    assert np.abs(np.corrcoef(task.T) - np.eye(task.shape[1])).max() < 0.03
    position = rng.uniform(-2, 2, (20_000, 2))
    seen = dynamics.observation(position, task)
    low, high = (np.array(bound) for bound in dynamics.observation_bounds[:2])
    assert (low <= seen).all() and (seen <= high).all() and np.abs(seen).max() > 2.9
    expected = np.concatenate([centre - position for centre in dynamics.targets(task)], axis=-1)
    np.testing.assert_array_equal(seen, expected)


@pytest.mark.parametrize("module", ["jax.numpy", "keras.ops"])
@pytest.mark.parametrize("dynamics", DYNAMICS)
def test_dynamics_on_other_array_modules(module, dynamics):
    xp = importlib.import_module(module) if module == "keras.ops" else pytest.importorskip(module)
    rng = np.random.default_rng(1)
    task_draws, start_draws = (rng.random((3, 70, count)).astype(np.float32) for count in dynamics.draws[:2])
    position, _, action, draws = (array.reshape(3, 70, -1).astype(np.float32) for array in draw(dynamics, 210))
    task = dynamics.task(task_draws)
    position[::2] = dynamics.targets(task)[0][::2] + 0.1
    pairs = [
        (dynamics.task(xp.array(task_draws), xp=xp), task),
        (dynamics.start(xp.array(task), xp.array(start_draws), xp=xp), dynamics.start(task, start_draws)),
        (dynamics.observation(xp.array(position), xp.array(task), xp=xp), dynamics.observation(position, task)),
    ]
    received = dynamics.step(*map(xp.array, (position, task, action, draws)), xp=xp)
    pairs += zip(received, dynamics.step(position, task, action, draws), strict=True)
    for theirs, ours in pairs:
        assert np.asarray(theirs).shape == ours.shape
        np.testing.assert_allclose(np.asarray(theirs), ours, rtol=1e-5, atol=1e-5)
    assert len(np.unique(np.asarray(received[1]))) == (2 if isinstance(dynamics, WindyNavigation) else 3)


def test_dynamics_play_inside_a_compiled_loop():
    jax = pytest.importorskip("jax")
    dynamics = TwoTargets(0.6)
    rng = np.random.default_rng(0)
    position, task, action, _ = (array.astype(np.float32) for array in draw(dynamics, 50))
    draws = rng.random((20, 50, dynamics.draws[2])).astype(np.float32)

    def move(place, numbers):
        return dynamics.step(place, task, action, numbers, xp=jax.numpy)

    last, rewards = jax.jit(lambda place: jax.lax.scan(move, place, draws))(position)
    for t in range(20):
        position, expected = dynamics.step(position, task, action, draws[t])
        np.testing.assert_array_equal(rewards[t], expected)
    np.testing.assert_allclose(last, position, atol=1e-4)


def test_new_task_in_mid_episode_moves_the_targets_only():
    env = gymnasium.make("nmn_keras/TwoTargets-v0")
    env.reset(seed=0, options={"task": [0.5, 0.5, -0.5, -0.5, 1.0], "position": [0.5, 0.5]})
    env.unwrapped.set_task([0.5, 0.5, -0.5, -0.5, -1.0])
    assert env.step(np.float32([NORTH]))[1] == -50.0
    env.reset(seed=0, options={"task": [0.5, 0.5, -0.5, -0.5, 1.0], "position": [1.5, 0.5]})
    env.unwrapped.set_task([0.75, -0.5, 0.5, 0.5, 1.0])
    seen, reward, _, _, info = env.step(np.float32([NORTH]))
    np.testing.assert_allclose(seen, [-0.75, -1.25, -1.0, -0.25], atol=1e-6)
    assert reward == 0.0 and info["task"].tolist() == [0.75, -0.5, 0.5, 0.5, 1.0]


def test_actions_outside_the_space_are_directions_too():
    inside, outside = (WindyNavigationVectorEnv(50) for _ in range(2))
    inside.reset(seed=3), outside.reset(seed=3)
    rng = np.random.default_rng(0)
    for _ in range(20):
        action = rng.integers(-64, 64, (50, 1)) / 64
        turns = 2.0 * rng.integers(-1000, 1000, (50, 1))
        received = outside.step((action + turns).astype(np.float32))
        np.testing.assert_array_equal(received[0], inside.step(action.astype(np.float32))[0])


@pytest.mark.parametrize("a5", [0.3, 0.0, -0.999])
def test_the_sign_of_b3_is_one_of_two(a5):
    task = [0.1, 0.2, 0.3, 0.4, a5]
    words = rf"component 4: -1 or 1\. Received: .*{a5}"
    one, many = TwoTargetsEnv(), TwoTargetsVectorEnv(2)
    for env in (one, many):
        with pytest.raises(ValueError, match=words):
            env.reset(seed=0, options={"task": task})
        env.reset(seed=0)
        with pytest.raises(ValueError, match=words):
            env.set_task(task)
    with pytest.raises(ValueError, match=words):
        many.set_task([[0.1, 0.2, 0.3, 0.4, 1.0], task])
    many.set_task([[0.1, 0.2, 0.3, 0.4, 1.0], [0.1, 0.2, 0.3, 0.4, -1.0]])


@pytest.mark.parametrize("name", ["b2", "b3"])
@pytest.mark.parametrize("exclusion", [-0.1, 1.01, float("nan")])
def test_errors_of_constructors(name, exclusion):
    words = rf"Accepted: \[0, 1\]. Received: {exclusion}"
    with pytest.raises(ValueError, match=words):
        envs.make(name, spawn_exclusion=exclusion)
    with pytest.raises(ValueError, match=words):
        envs.make_vec(name, 2, spawn_exclusion=exclusion)


def test_errors_of_tasks_and_positions():
    env = WindyNavigationEnv()
    env.reset(seed=0)
    for options, words in (
        ({"task": [0.0, 0.0, 3.2]}, r"task is out of range"),
        ({"task": [1.1, 0.0, 0.0]}, r"task is out of range"),
        ({"task": 0.5}, r"Accepted: \(3,\)"),
        ({"position": [2.1, 0.0]}, r"\[-2.0, -2.0\] to \[2.0, 2.0\]"),
    ):
        with pytest.raises(ValueError, match=words):
            env.reset(options=options)
