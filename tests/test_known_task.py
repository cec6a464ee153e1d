"""Optimal control against closed forms, bounds and itself; the tables against what is measured again."""

import dataclasses

import numpy as np
import pytest

from nmn_keras import envs, evaluation, known_task, optima
from nmn_keras.envs.dynamics import TwoTargets, WindyNavigation, plane
from nmn_keras.known_task import KnownTaskPolicy, solve
from nmn_keras.optima import KnownTaskOptima

QUICK = {"cells": 40, "directions": 48}
PLACES = known_task.centres(160).reshape(-1, 2)
TABLES = [("b2", 0.0), ("b2", 0.6), ("b3", 0.0), ("b3", 0.6)]


def steps_to(target, places, drift=(0.0, 0.0)):
    """Return how many moves of 0.25, each with the same drift, are needed at least to reach a target.

    Straight moves are the shortest way, and the drift moves start and target apart: after k moves the target is
    reached from `places` if and only if, around the edges, it is no farther than 0.4 + 0.25 k from `places + k drift`.
    """
    needed = np.full(len(places), 99)
    for count in range(40, -1, -1):
        apart = (target - places - count * np.array(drift) + 2.0) % 4.0 - 2.0
        needed[np.linalg.norm(apart, axis=-1) <= 0.4 + 0.25 * count] = count
    return needed


def appearing(places, value):
    """Return the S that equals the mean of value(S) over where agents appear, piecewise linear, by Newton's method."""
    spawned = (np.abs(places) <= plane.SPAWN_REACH).all(axis=-1)
    worth, step = 0.0, np.inf
    while abs(step) > 1e-6:
        here, beside = (value(worth + more)[spawned].mean() for more in (0.0, 1.0))
        step = (here - worth) / (1.0 - (beside - here))
        worth += step
    return worth


def steady_wind_return(task, discount=0.998):
    """Return the optimum of benchmark 2 if its wind had no noise, exactly but for the grid of places."""
    needed = steps_to(task[:2], PLACES, 0.25 * np.array([np.sin(task[2]), np.cos(task[2])]))
    costs = -2.0 * (1.0 - discount**needed) / (1.0 - discount)
    return appearing(PLACES, lambda worth: costs + discount**needed * (100.0 + discount * worth))


def two_targets_bound(task, discount=0.998):
    """Return what no policy of benchmark 3 exceeds: as if the way to each target never led through the other."""
    good, bad = (task[:2], task[2:4]) if task[4] > 0 else (task[2:4], task[:2])
    reward = TwoTargets().reward(PLACES, np.broadcast_to(task, (len(PLACES), 5)))
    for_good, for_bad = (discount ** steps_to(target, PLACES) for target in (good, bad))

    def value(worth):
        chosen = np.maximum(for_good * (100.0 + discount * worth), for_bad * (-50.0 + discount * worth))
        return np.where(reward == 0.0, chosen, reward + discount * worth)

    return appearing(PLACES, value)


def played(policy, dynamics, steps, seed=0):
    """Return the mean reward of each episode (N,) after the first steps, played in the dynamics alone."""
    rng = np.random.default_rng(seed)
    position = dynamics.start(policy.tasks, rng.random((len(policy.tasks), dynamics.draws[1])))
    total = np.zeros(len(position))
    for step in range(steps + 20):
        seen = dynamics.observation(position, policy.tasks)
        action, _ = policy.act(seen, None, None, policy.initial_state(len(seen)))
        draws = rng.random((len(seen), dynamics.draws[2]))
        position, reward = dynamics.step(position, policy.tasks, action, draws)
        total += reward * (step >= 20)
    return total / steps


def draw_tasks(name, count):
    return evaluation.episode_tasks(name, count)


# The grid


def interpolate(tables, index, position, margin=3):
    padded = known_task.wrap_margin(tables.astype("float32"), margin)
    return known_task.interpolate(padded, margin, np.array(index), position)


def test_translation_is_interpolation_and_by_whole_cells_a_roll():
    table = np.random.default_rng(0).normal(size=(40, 40))
    moves = np.array([[0.2, -0.1], [0.03, 0.21], [-0.25, -0.123], [0.0, 0.0]])
    centres = known_task.centres(40)
    for translated, move in zip(known_task.translate(table, moves), moves, strict=True):
        expected = interpolate(table[np.newaxis], 0, plane.wrap(centres + move))
        np.testing.assert_allclose(translated, expected, atol=1e-4)
    np.testing.assert_allclose(next(known_task.translate(table, moves[:1])), np.roll(table, (-2, 1), (0, 1)))


def test_interpolation_is_bilinear_and_goes_round():
    centres = known_task.centres(8)
    waves = np.stack([np.sin(np.pi / 2 * centres[..., 0]), np.cos(np.pi / 2 * centres[..., 1])])
    np.testing.assert_allclose(interpolate(waves, 1, centres), waves[1], atol=1e-5)
    middle = (centres[0, 0] + centres[1, 1]) / 2
    near = [waves[0][i, j] for i in (0, 1) for j in (0, 1)]
    assert interpolate(waves, 0, middle) == pytest.approx(np.mean(near))
    edge = np.array([2.0, centres[0, 0, 1]])
    assert interpolate(waves, 0, edge) == pytest.approx(waves[0][[0, -1], 0].mean(), abs=1e-6)
    outside = np.array([[2.3, -0.3], [-2.4, 2.2]])
    np.testing.assert_allclose(interpolate(waves, 1, outside), interpolate(waves, 1, plane.wrap(outside)), atol=1e-5)


@pytest.mark.parametrize("exclusion", [0.0, 0.6])
def test_cells_hold_the_targets_and_the_places_to_appear(exclusion):
    for dynamics, task in (
        (WindyNavigation(exclusion), np.array([0.2, -0.4, 1.0])),
        (TwoTargets(exclusion), np.array([0.5, 0.5, -0.5, -0.3, -1.0])),
    ):
        reward, inside = known_task.rewards(dynamics, task, 80)
        area = (4.0 / 80) ** 2
        count = len(dynamics.targets(task))
        assert inside.sum() * area == pytest.approx(count * np.pi * 0.16, rel=0.01)
        expected = 100 if count == 1 else 50
        outside = -2 * (16 - np.pi * 0.16) if count == 1 else 0
        assert reward.sum() * area == pytest.approx(expected * np.pi * 0.16 + outside, rel=0.01)
        share = known_task.appearance(dynamics, task, 80)
        assert share.sum() == pytest.approx(1, rel=1e-5)
        assert (share > 0).sum() * area == pytest.approx(9 - count * np.pi * exclusion**2, rel=0.05)
        places = known_task.centres(80)[share == share.max()]
        assert np.abs(places).max() < 1.5
        nearest = min(np.linalg.norm(places - centre, axis=-1).min() for centre in dynamics.targets(task))
        assert nearest > exclusion


# The solution


def test_without_noise_in_the_wind_it_is_the_closed_form():
    dynamics = WindyNavigation(cone=0.0)
    tasks = draw_tasks("b2", 8)
    expected = np.array([steady_wind_return(task) for task in tasks])
    values = np.array([solve(dynamics, task).appearing for task in tasks])
    assert expected.std() > 200
    np.testing.assert_allclose(values, expected, rtol=0.02)


def test_two_targets_are_just_below_their_bound():
    tasks = draw_tasks("b3", 8)
    bound = np.array([two_targets_bound(task) for task in tasks])
    found = known_task.simulate(envs.BENCHMARKS["b3"], tasks, episodes=8, steps=1000)
    assert bound.std() > 200
    assert (found.discounted < bound + 3 * found.errors).all()
    assert 0.97 < found.discounted.mean() / bound.mean() < 1.0


@pytest.mark.parametrize("name", ["b2", "b3"])
def test_finer_grids_earn_the_same(name):
    tasks, benchmark = draw_tasks(name, 8), envs.BENCHMARKS[name]
    coarse = known_task.simulate(benchmark, tasks, episodes=32, steps=600, **QUICK)
    fine = known_task.simulate(benchmark, tasks, episodes=32, steps=600)
    assert fine.rate == pytest.approx(coarse.rate, rel=0.02)


@pytest.mark.parametrize("name", ["b2", "b3"])
def test_the_value_of_appearing_is_what_is_earned(name):
    tasks, benchmark = draw_tasks(name, 8), envs.BENCHMARKS[name]
    dynamics = envs.make(name).unwrapped.dynamics
    predicted = np.mean([solve(dynamics, task).appearing for task in tasks])
    found = known_task.simulate(benchmark, tasks, episodes=32, steps=600, **QUICK)
    assert predicted == pytest.approx(found.mean_return(20_000, 0.998), rel=0.02)


def test_values_are_larger_with_more_reward_and_a_constant_shifts_them():
    task = np.array([0.3, -0.5, 0.8])
    plain = solve(WindyNavigation(), task, cells=40, directions=48)
    shifted = solve(WindyNavigation(target_reward=107.0, step_reward=5.0), task, cells=40, directions=48)
    assert shifted.appearing - plain.appearing == pytest.approx(7.0 / 0.002, abs=2.0)
    np.testing.assert_allclose(shifted.ahead, plain.ahead, atol=0.05)
    assert shifted.sweeps == plain.sweeps < 100


def test_knowing_the_wind_beats_going_straight():
    tasks = np.repeat(draw_tasks("b2", 4), 50, axis=0)
    policy = KnownTaskPolicy(WindyNavigation(), tasks, **QUICK)

    class Straight:
        initial_state = policy.initial_state

        def act(self, observation, *memory):
            return (np.arctan2(observation[:, :1], observation[:, 1:]) / np.pi).astype("float32"), memory[-1]

    straight = Straight()
    straight.tasks = tasks
    best, plain = (played(each, WindyNavigation(), 200).mean() for each in (policy, straight))
    assert best > 1.5 * plain > 0


def test_values_that_do_not_settle_are_no_values(monkeypatch):
    monkeypatch.setattr(known_task, "MAX_SWEEPS", 3)
    with pytest.raises(ArithmeticError, match=r"still err by .* after 3 sweeps"):
        solve(TwoTargets(), draw_tasks("b3", 1)[0], **QUICK)


def test_a_policy_knows_one_task_per_episode_and_solves_equal_ones_once():
    tasks = draw_tasks("b3", 3)[[2, 0, 2, 1, 0]]
    policy = KnownTaskPolicy(TwoTargets(), tasks, **QUICK)
    assert len(policy.values) == 3
    rng = np.random.default_rng(0)
    position = rng.uniform(-2, 2, (5, 2))
    seen = TwoTargets().observation(position, tasks).astype("float32")
    action, state = policy.act(seen, None, None, policy.initial_state(5))
    assert action.shape == (5, 1) and action.dtype == np.float32 and state.shape == (5, 0)
    assert (np.abs(action) <= 1).all()
    for row in range(5):
        alone = KnownTaskPolicy(TwoTargets(), tasks[[row]], **QUICK)
        np.testing.assert_array_equal(alone.act(seen[[row]], None, None, alone.initial_state(1))[0], action[[row]])
    with pytest.raises(ValueError, match=r"5 observations are accepted. Received: 2"):
        policy.act(seen[:2], None, None, policy.initial_state(2))


# What is inferred from simulated episodes


def test_a_constant_reward_gives_the_sums_of_a_full_episode():
    benchmark = envs.BENCHMARKS["b2"]
    tasks = np.zeros((2, 3))
    rewards = np.full((300, 2, 4), 3.0)
    rewards[:5, 1] = 0.0
    found = known_task._summarise(benchmark, tasks, rewards)
    worth = 0.998 ** np.arange(4000)
    np.testing.assert_allclose(found.discounted, 3 * np.array([worth.sum(), worth[5:].sum()]), rtol=1e-6)
    np.testing.assert_allclose(found.undiscounted, [12_000, 11_985])
    np.testing.assert_allclose(found.errors, 0, atol=1e-9)
    np.testing.assert_allclose(found.rewards, [1.5] * 5 + [3.0] * 195)
    assert found.rate == 3.0
    for steps, discount in ((4000, 0.998), (4000, 1.0), (3, 0.9), (200, 0.998), (201, 0.5)):
        expected = discount ** np.arange(steps) @ np.concatenate([[1.5] * 5, [3.0] * 3995])[:steps]
        assert found.mean_return(steps, discount) == pytest.approx(expected, rel=1e-6)
    assert found.mean_return(4000, 0.998) == pytest.approx(found.discounted.mean(), rel=1e-6)


def test_merging_blocks_is_summarising_all_at_once():
    benchmark = envs.BENCHMARKS["b3"]
    rng = np.random.default_rng(0)
    tasks, rewards = rng.normal(size=(7, 5)), rng.normal(size=(250, 7, 3))
    blocks = [known_task._summarise(benchmark, tasks[part], rewards[:, part]) for part in (slice(0, 5), slice(5, 7))]
    whole = dataclasses.asdict(known_task._summarise(benchmark, tasks, rewards))
    for name, value in dataclasses.asdict(known_task.merge(blocks)).items():
        np.testing.assert_allclose(value, whole[name], rtol=2e-4, atol=1e-4)
        assert value.dtype == np.float32


def test_interrupted_work_goes_on_where_it_was(monkeypatch, tmp_path):
    monkeypatch.setattr(known_task, "BLOCK", 2)
    monkeypatch.setattr(known_task, "STEPS", 210)
    monkeypatch.setattr(known_task, "EPISODES", 2)
    simulated = []

    def simulate(benchmark, tasks, seed):
        simulated.append(seed)
        return original(benchmark, tasks, seed, **QUICK)

    original = known_task.simulate
    monkeypatch.setattr(known_task, "simulate", simulate)
    tasks, benchmark = draw_tasks("b2", 5), envs.BENCHMARKS["b2"]
    sizes = [len(found.tasks) for found in known_task.tabulate(benchmark, tasks[:3], tmp_path / "new")]
    assert sizes == [2, 3] and simulated == [0, 2]
    (tmp_path / "new" / "0002.npz").unlink()
    *_, resumed = known_task.tabulate(benchmark, tasks, tmp_path / "new")
    assert simulated == [0, 2, 2, 4]
    *_, afresh = known_task.tabulate(benchmark, tasks, tmp_path / "other")
    for name, value in dataclasses.asdict(resumed).items():
        np.testing.assert_array_equal(value, getattr(afresh, name))


def test_the_command_writes_the_table(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(optima, "table", lambda name, exclusion: tmp_path / f"{name}-{exclusion}.npz")
    monkeypatch.setattr(known_task, "STEPS", 210)
    known_task.main(["b3", "--spawn-exclusion", "0.6", "--tasks", "2", "--directory", str(tmp_path / "work")])
    found = optima.read(tmp_path / "b3-0.6.npz")
    np.testing.assert_allclose(found.tasks, draw_tasks("b3", 2), atol=1e-6)
    assert (found.discounted > 5000).all() and (found.errors > 0).all()
    assert f"b3-0.6: 2 tasks, discounted return {found.discounted.mean():.1f}" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        known_task.main(["b1"])


# The tables


@pytest.mark.parametrize(("name", "exclusion"), TABLES)
def test_tables_are_of_the_published_test_episodes(name, exclusion):
    known, benchmark = optima.load(name, exclusion), envs.BENCHMARKS[name]
    tasks = evaluation.episode_tasks(name, 1000, env_kwargs={"spawn_exclusion": exclusion})
    assert known.tasks.shape == tasks.shape and known.begin_with(tasks) and known.begin_with(tasks[:30])
    assert not known.begin_with(tasks[1:31]) and not known.begin_with(np.concatenate([tasks, tasks]))
    assert known.discounted.shape == known.undiscounted.shape == known.errors.shape == (1000,)
    steps = benchmark.episode_steps
    assert known.mean_return(steps, 0.998) == pytest.approx(known.discounted.mean(), rel=1e-5)
    assert known.mean_return(steps, 1.0) == pytest.approx(known.undiscounted.mean(), rel=1e-5)
    assert (known.errors < 0.025 * known.discounted).all()


def test_tables_are_small():
    assert max(optima.table(*which).stat().st_size for which in TABLES) < 40_000


@pytest.mark.parametrize(
    ("name", "exclusion", "published", "error"),
    [("b2", 0.0, 7793, 166), ("b2", 0.6, 7226, 210), ("b3", 0.0, 8707, 160), ("b3", 0.6, 8143, 200)],
)
def test_tables_agree_with_an_independent_implementation(name, exclusion, published, error):
    assert abs(optima.load(name, exclusion).discounted.mean() - published) < 3 * error


@pytest.mark.parametrize(("name", "exclusion"), TABLES)
def test_tables_are_what_is_found_again(name, exclusion):
    benchmark = envs.BENCHMARKS[name].with_spawn_exclusion(exclusion)
    known = optima.load(name, exclusion)
    again = known_task.simulate(benchmark, known.tasks[500:506].astype(float), seed=9, episodes=8, steps=600, **QUICK)
    errors = np.hypot(again.errors, known.errors[500:506])
    assert (np.abs(again.discounted - known.discounted[500:506]) < 4 * errors + 50).all()


def test_benchmarks_know_their_optimum_and_a_crowded_target_pays_more():
    for name in ("b2", "b3"):
        benchmark = envs.BENCHMARKS[name]
        steps = benchmark.episode_steps
        assert benchmark.optimal_return(steps, 0.998) == benchmark.known_task.mean_return(steps, 0.998)
        assert benchmark.with_arguments({"max_episode_steps": 3}) is benchmark
        assert benchmark.with_arguments({"spawn_exclusion": 0.0}).optimal_return(99, 1.0) == (
            benchmark.optimal_return(99, 1.0)
        )
        sparse = benchmark.with_arguments({"spawn_exclusion": 0.6, "render_mode": None})
        assert 0.9 < sparse.optimal_return(steps, 0.998) / benchmark.optimal_return(steps, 0.998) < 0.95
        for arguments in ({"spawn_exclusion": 0.3}, {"spawn_exclusion": None}, {"wind": 2}):
            assert benchmark.with_arguments(arguments) is None
    assert envs.BENCHMARKS["b1"].with_arguments({"spawn_exclusion": 0.6}) is None
    assert envs.BENCHMARKS["b1"].known_task is None


@pytest.mark.parametrize(("steps", "discount"), [(0, 0.9), (10, 1.1), (10, float("nan"))])
def test_returns_of_no_episode_are_refused(steps, discount):
    found = KnownTaskOptima(*np.ones((6, 1), "float32"))
    with pytest.raises(ValueError, match=rf"Received: steps={steps}, discount={discount}"):
        found.mean_return(steps, discount)


def test_an_unknown_table_is_none():
    assert optima.load("b2", 0.123) is None
    assert optima.known_task_return("b9", 0.0, 10, 0.9) is None
