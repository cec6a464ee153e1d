"""Estimators on data with a known answer; what is measured of a real agent; its figures and words."""

import json

import numpy as np
import pytest

from nmn_keras import zoo
from nmn_keras.analysis import adaptation, navigation, page, plots
from nmn_keras.analysis.decoding import circle, explained, predict_held_out
from nmn_keras.analysis.experiment import Options
from nmn_keras.analysis.recording import Recording, record
from nmn_keras.analysis.resampling import drawn_means, first_at_least, with_interval
from nmn_keras.analysis.rounding import plain
from nmn_keras.analysis.scale_factors import ScaleFactors
from nmn_keras.analysis.signal_measures import by_bins, count_neurons, dimension_kinds, motion, spread
from nmn_keras.analysis.themes import THEMES


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


# What one thing tells of another


@pytest.mark.parametrize("noise", [0.0, 0.3, 1.0])
def test_held_out_r2_finds_what_there_is_to_know(noise):
    """y = sin(2 x) + noise: R^2 = var sin / (var sin + noise^2), the variance of sin(2 x) being (1 - e^-8) / 2."""
    x = normal(800, 1)
    y = np.sin(2 * x) + noise * normal(800, 1, seed=1)
    known = (1 - np.exp(-8)) / 2
    value, low, high = explained(y, predict_held_out(x, y))
    assert value == pytest.approx(known / (known + noise**2), abs=0.04)
    assert low < value < high < value + 0.1


def test_held_out_r2_finds_nothing_where_nothing_is():
    wide, unrelated = normal(400, 40), normal(400, 2, seed=1)
    value, low, _ = explained(unrelated, predict_held_out(wide, unrelated))
    assert -0.1 < value < 0.02 and low < 0
    still = np.full((400, 3), 7.0)
    np.testing.assert_allclose(explained(unrelated, predict_held_out(still, unrelated))[0], 0, atol=0.03)
    assert explained(still, still + 1).tolist() == [0, 0, 0]


def test_an_episode_never_predicts_itself():
    """Targets that are told by nothing but the row's own identity cannot be predicted, not even with 100 features."""
    targets = np.zeros((100, 1))
    targets[::2] = 1.0
    assert explained(targets, predict_held_out(normal(100, 100), targets))[0] < 0.1


def test_one_episode_unlike_all_others_does_not_decide():
    """A single episode whose features lie far away counts as one error within the range of the targets."""
    x = normal(400, 1)
    y = np.tanh(x)
    x[7] = 1000.0
    guess = predict_held_out(x, y)
    assert np.abs(guess).max() <= 1 and explained(y, guess)[0] > 0.97


def test_angles_are_read_across_their_edge():
    angle = np.random.default_rng(0).uniform(-np.pi, np.pi, 500)
    seen = np.stack([np.cos(angle + 1), np.sin(angle + 1)], axis=1) + 0.1 * normal(500, 2)
    guess = predict_held_out(seen, circle(angle))
    apart = np.abs((np.arctan2(guess[:, 0], guess[:, 1]) - angle + np.pi) % (2 * np.pi) - np.pi)
    assert np.degrees(np.median(apart)) < 6 and explained(circle(angle), guess)[1] > 0.95
    np.testing.assert_allclose(circle(np.array([[0.0, np.pi / 2]])), [[0, 1, 1, 0]], atol=1e-12)


def test_features_and_targets_must_fit():
    with pytest.raises(ValueError, match=r"Received: shapes \(20, 2\) and \(19, 1\)"):
        predict_held_out(np.zeros((20, 2)), np.zeros((19, 1)))
    with pytest.raises(ValueError, match="10 or more episodes"):
        predict_held_out(np.zeros((9, 2)), np.zeros((9, 1)))


# Intervals


def test_intervals_are_those_of_a_mean():
    values = normal(600, 2) * [1.0, 5.0] + [3.0, 0.0]
    value, low, high = with_interval(drawn_means(values))
    np.testing.assert_allclose(value, values.mean(axis=0))
    expected = 1.96 * values.std(axis=0) / np.sqrt(600)
    np.testing.assert_allclose(high - value, expected, rtol=0.12)
    np.testing.assert_allclose(value - low, expected, rtol=0.12)
    one, other = drawn_means(values[:, 0]), drawn_means(values[:, 0] + 2.0)
    np.testing.assert_allclose(other - one, 2.0)  # paired


def test_the_first_step_at_a_level():
    curves = np.array([[0, 1, 2, 1], [2, 0, 0, 0], [0, 0, 0, 1]])
    assert first_at_least(curves, np.array([1, 1, 2])).tolist() == [1, 0, 4]


def test_data_are_plain():
    data = plain({1: np.array([1.23456, np.nan]), "n": np.int64(3), "t": (True, None, "word", 0.0)})
    assert json.dumps(data, allow_nan=False) == '{"1": [1.235, null], "n": 3, "t": [true, null, "word", 0.0]}'


# Where an agent makes for


def test_moves_towards_the_right_target_are_told_from_others():
    tasks = np.array([[1.0, 0, -1, 0, 1], [1.0, 0, -1, 0, -1]])  # good: the one to the right; the one to the left
    path = np.array([[-0.3, 0.5], [-0.1, 0.5], [0.3, 0.4], [0.7, 0.1], [-1.4, 0], [-1.9, 0], [1.7, 0]])
    positions = np.repeat(path[:, np.newaxis], 2, axis=1)
    rewards = np.zeros((7, 2))
    rewards[3] = 100, -50  # after which the agent appears elsewhere; then it goes around the edge, away from the left
    right = navigation.heads_right(positions, tasks, rewards)
    np.testing.assert_array_equal(right[:, 0], [1, 1, 1, np.nan, 1, 1])
    np.testing.assert_array_equal(right[:, 1], [0, 0, 0, np.nan, 0, 0])


def test_the_step_of_settling_skips_what_is_no_move():
    right = np.ones((40, 3))
    right[:7, 0] = [1, 0, 1, 0, 0, 1, 1]
    right[3, 0] = np.nan
    right[:, 1] = np.arange(40) % 2
    right[:, 2] = [0, 0, 0, *[1] * 5, 0, *[1] * 31]
    assert navigation.settling_step(right).tolist() == [2, 40, 3]


def test_hits_that_could_not_be_avoided_are_no_entered_ones():
    rewards = np.array([-50, 0, -50, -50, 100, 0, 0, -50, 100, -50.0])[:, np.newaxis]
    found = navigation.hits(rewards)
    assert found["bad"].sum() == 5 and found["good"].sum() == 2
    assert np.flatnonzero(found["entered"]).tolist() == [2, 7]


# Signals


def test_motion_is_one_where_a_step_is_as_good_as_another_episode():
    before, after = normal(2000, 5), normal(2000, 5, seed=1)
    assert motion(before, after) == pytest.approx(1, abs=0.03) and motion(before, before) == 0
    assert motion(before, before + 0.1) == pytest.approx(0.1 / np.sqrt(2), rel=0.05)
    assert np.isnan(motion(before * 0, after)) and spread(3 * before) == pytest.approx(3 * np.sqrt(5), rel=0.03)


def test_quantiles_in_bins():
    task = np.repeat([-0.5, 0.5], 101)
    values = np.concatenate([np.arange(101), np.arange(101) * 2.0])[:, np.newaxis]
    found = by_bins(values, task, np.array([-1.0, 0.0, 1.0, 2.0]))
    np.testing.assert_allclose(found[..., 0], [[10, 20, np.nan], [50, 100, np.nan], [90, 180, np.nan]])


def test_neurons_are_counted():
    """Four neurons that follow z: through 0, above it, at 0, and one that changes its sign only within an episode."""
    z = np.zeros((3, 100, 2))
    z[..., 0] = np.linspace(-2, 2, 100)
    z[0, :, 1], z[1, :, 1], z[2, :, 1] = -1, 1, 1
    empty = np.zeros((3, 100, 1))
    recording = Recording(empty[0], empty, empty, empty, empty[..., 0], np.arange(3), z)
    layer = ScaleFactors(np.array([[1.0, 0.1, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]), np.array([0.0, 1.0, 0.05, 0.0]))
    (found,) = count_neurons([layer], recording, 2, range(3))
    assert found == {"units": 4, "signs": 1, "within": 1, "near": 1, "lowest": -2.0, "highest": 2.0}


def test_dimensions_are_sorted_by_what_they_follow():
    task, state = np.where(np.arange(600) % 2, 1.0, -1.0)[:, np.newaxis], normal(600, 1)
    noise = 0.2 * normal(600, 4, seed=1)
    found = dimension_kinds(np.hstack([task, np.sin(state), 0 * task, 0.3 * task + np.sin(state)]) + noise, task, state)
    assert (found["task"], found["constant"], found["state"]) == (1, 2, 2)
    assert found["of_task"][0] > 0.9 and found["of_state"][1] > 0.8 and found["of_state"][2] < 0.05


# The experiment


@pytest.fixture(scope="module")
def measured():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adaptation, "STEPS", {"b1": 402})
        yield adaptation.measure(Options(benches=("b1",), episodes=80, report=lambda line: None))


def test_an_agent_learns_its_bias_within_an_episode(measured):
    found = json.loads(json.dumps(measured, allow_nan=False))["b1"]
    bias = [value for value, *_ in found["told"]["nmn"]["bias"]]
    assert abs(bias[0]) < 0.1 and bias[1] < 0.95 < bias[-1]
    assert found["made_of"]["bias"][0] > 0.9 > 0.2 > found["made_of"]["last observation"][0]
    assert found["rewards"]["nmn"][0][0] < 0 < 9.5 < found["settled"]["nmn"][0] < 10
    assert found["reached"]["bayes"]["ninety"][0] == 2 <= found["reached"]["nmn"]["ninety"][0] < 15
    assert found["agents"]["b1-nmn"] == zoo.load("b1-nmn", "onnx").sha256


def test_what_was_measured_is_drawn_and_said(measured):
    drawings = adaptation.figures(measured)
    text = adaptation.section(measured)
    assert list(drawings) == ["adaptation-b1-signal", "adaptation-b1-time"]
    pictures = [plots.png(draw(theme)) for draw, theme in zip(drawings.values(), THEMES, strict=True)]
    assert min(map(len, pictures)) > 20_000  # NaN of empty bins and all
    assert all(f"results/{stem}-{theme.name}.png" in text for stem in drawings for theme in THEMES)
    assert "80 episodes, 402 steps" in text and text.count("| holds") + text.count("| does not hold") == 6


def test_measuring_one_benchmark_keeps_what_was_measured_on_others(measured, tmp_path):
    stored = page.read_data("adaptation", Options())
    for data in (stored, measured):
        path, kept = page.write_data("adaptation", data, tmp_path)
    assert list(kept) == ["b1", "b2", "b3"] and kept == json.loads(path.read_text())
    assert kept["b1"]["episodes"] == 80 and kept["b2"] == stored["b2"]
    assert adaptation.section(kept) and len(adaptation.figures(kept)) == len(adaptation.figures(stored))


def test_too_few_episodes_are_refused():
    with pytest.raises(ValueError, match=r"20 episodes or more. Received: 19"):
        adaptation.measure(Options(episodes=19))


def test_the_agent_of_b3_finds_the_good_target():
    played = record(zoo.load("b3-nmn", "onnx"), "b3", 100, 150)
    right = navigation.heads_right(played.positions, played.tasks, played.rewards)
    assert np.nanmean(right[:2]) < 0.65 and np.nanmean(right[15:30]) > 0.85 and np.nanmean(right[60:]) > 0.9
    assert np.median(navigation.settling_step(right)) < 15
    hits = navigation.hits(played.rewards)
    assert hits["bad"][:10].mean() > 3 * hits["bad"][40:].mean() > 0.02
