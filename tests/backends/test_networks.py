import dataclasses
import functools
import json
import math
import re
from pathlib import Path

import keras
import numpy as np
import pytest
import references
from keras.ops import convert_to_numpy, convert_to_tensor
from numpy.testing import assert_allclose, assert_array_equal
from on_backend import compiled, on_tensors, value_and_gradients

from nmn_keras import presets
from nmn_keras.actor_critic import ActorCritic
from nmn_keras.architecture import Architecture
from nmn_keras.networks import build_network, count_parameters

CLOSE = {"rtol": 1e-4, "atol": 1e-5}  # float32 against float64 over a dozen recurrent steps
STEPS, ROWS = 7, 3

CASES = {
    "nmn": Architecture("nmn", 2, 1, (4,), 3, "relu", (5,)),
    "nmn of two GRUs and four layers": Architecture(
        "nmn", 3, 2, (4, 3), 2, "sigmoid", (3, 2, 3, 2), "tanh",
        action_period=2.0, feedback_scale=np.pi, reward_scale=0.1,
    ),
    "nmn of three GRUs without hidden layers": Architecture("nmn", 1, 3, (2, 4, 3), 2, "tanh", ()),
    "nmn of directions": Architecture(
        "nmn", 2, 2, (4, 3), 2, "relu", (5,), action_scale=(3.0, 3.0), action_offset=(0.5, 0.0),
        action_head="direction", action_period=6.0, feedback_scale=0.5, observation_period=4.0,
    ),
    "nmn of choices": Architecture(
        "nmn", 2, 2, (4,), 3, "relu", (5,), action_low=(0.0, 3.0), action_high=(2.0, 4.0), action_offset=(0.0, 3.0),
        action_head="categorical", action_sizes=(3, 2), feedback_scale=0.5,
    ),
    "rnn of one choice": Architecture(
        "rnn", 2, 1, (4,), 0, hidden_units=(3,), action_low=(-1.0,), action_high=(2.0,), action_offset=(-1.0,),
        action_head="categorical", action_sizes=(4,),
    ),
    "rnn": Architecture("rnn", 2, 1, (4,), 0, hidden_units=(5, 3), activation="relu"),
    "rnn of two GRUs without hidden layers": Architecture(
        "rnn", 3, 2, (3, 4), 0, hidden_units=(), feedback_scale=0.2, reward_scale=0.1, observation_period=3.0
    ),
    "rnn of three GRUs and four layers": Architecture(
        "rnn", 1, 1, (3, 2, 4), 0, hidden_units=(3, 4, 2, 3), activation="sigmoid"
    ),
    "nmn of bistable cells that shares": Architecture(
        "nmn", 2, 1, (4, 3), 2, "tanh", (3, 4), "tanh", cell="nbrc", shared_modulation=True
    ),
    "rnn of bistable cells": Architecture("rnn", 2, 1, (3, 4), 0, hidden_units=(3,), cell="nbrc"),
    "film": Architecture("film", 2, 1, (4,), 0, hidden_units=(5, 3), reward_scale=0.1),
    "film that shares, of a direction": Architecture(
        "film", 3, 1, (2, 3), 0, hidden_units=(4, 2), activation="sigmoid", action_head="direction",
        action_period=2.0, observation_period=4.0, shared_modulation=True,
    ),
    "film without hidden layers": Architecture("film", 2, 2, (3,), 0, hidden_units=()),
    "hyper": Architecture("hyper", 2, 1, (4, 3), 2, "tanh", (4, 3), "tanh"),
    "hyper without hidden layers": Architecture("hyper", 3, 2, (3,), 2, hidden_units=(), observation_period=3.0),
}  # fmt: skip
CHOICE = {"action_head": "categorical", "action_sizes": (3,), "action_low": (0.0,), "action_high": (2.0,)}
EVERY_FIELD = Architecture(
    "nmn", 3, 2, (4, 3), 2, "sigmoid", (3, 2), "tanh", 4.0, (-1.0, None), (2.0, 2.0), (1.5, 1.5),
    (0.0, -1.0), "direction", 3.0, 0.3, 0.1, -2.0, -5.0, 1.5, "nbrc", True,
)  # fmt: skip

FOR_ANY_TASK = {
    "normalise_observations": True, "normalise_rewards": True, "initializer": "orthogonal", "output_gain": 0.5,
}  # fmt: skip
NORMALISED = dataclasses.replace(EVERY_FIELD, observation_period=None, **FOR_ANY_TASK)


@functools.cache
def drawn_network(case):
    """A network of a case with drawn weights, biases included, and its weights."""
    architecture = CASES[case]
    network = build_network(architecture, architecture.policy_units)
    weights = references.random_weights(network, seed=4)
    network.set_weights(weights)
    return network, weights


def draw_inputs(architecture, seed=5):
    """Observations, actions and rewards `(T, N, ...)`, a packed state `(N, S)`, `keep` with two new episodes."""
    a, rng = architecture, np.random.default_rng(seed)
    sizes = (a.observation_size, a.action_size, 1)
    keep = np.ones((STEPS, ROWS, 1))
    keep[0, 1] = keep[4, 2] = 0.0
    sequences = [rng.normal(size=(STEPS, ROWS, size)) for size in sizes]
    if a.action_head == "categorical":  # now and then a number that is none of the choices
        low, high = a.bounds()
        sequences[1] = rng.integers(low, high + 2, sequences[1].shape).astype(float)
    sequences[1:] = [x * keep for x in sequences[1:]]
    arrays = (*sequences, rng.normal(size=(ROWS, a.state_size)), keep)
    return [x.astype("float32") for x in arrays]


# Step and sequence


@pytest.mark.parametrize("case", CASES)
def test_chained_steps_are_the_reference(case):
    network, weights = drawn_network(case)
    observation, action, reward, state, keep = draw_inputs(CASES[case])
    expected_state, step = state, compiled(network, network.step)
    for t in range(STEPS):
        now = observation[t], action[t], reward[t]
        output, signal, state = (None if x is None else convert_to_numpy(x) for x in step(*now, state * keep[t]))
        expected = references.network_step(CASES[case], weights, *now, expected_state * keep[t])
        expected_output, expected_signal, expected_state = expected
        assert_allclose(output, expected_output, **CLOSE)
        assert_allclose(state, expected_state, **CLOSE)
        assert (signal is None) == (expected_signal is None) == (CASES[case].kind != "nmn")
        if signal is not None:
            assert_allclose(signal, expected_signal, **CLOSE)
    assert np.abs(output).max() > 0.1


@pytest.mark.parametrize("case", CASES)
def test_sequence_is_the_iterated_reference(case):
    network, weights = drawn_network(case)
    arrays = draw_inputs(CASES[case])
    output, states = on_tensors(network.sequence, *arrays)
    expected, expected_states = references.network_sequence(CASES[case], weights, *arrays)
    assert_allclose(output, expected, **CLOSE)
    assert_allclose(states, expected_states, **CLOSE)
    assert expected.std() > 0.1


@pytest.mark.parametrize(
    "case",
    [
        "nmn of three GRUs without hidden layers",
        "rnn of two GRUs without hidden layers",
        "nmn of bistable cells that shares",
        "film without hidden layers",
        "hyper",
    ],
)
def test_sequence_gradient_is_the_slope_of_the_reference(case):
    network, weights = drawn_network(case)
    arrays = draw_inputs(CASES[case])
    outputs = CASES[case].policy_units
    weigh = np.random.default_rng(6).normal(size=(STEPS, ROWS, outputs)).astype("float32")

    def loss():
        output, _ = network.sequence(*(convert_to_tensor(x) for x in arrays))
        return keras.ops.sum(output * convert_to_tensor(weigh))

    def reference(values):
        return (references.network_sequence(CASES[case], values, *arrays)[0] * weigh).sum()

    slopes = references.finite_differences(reference, weights)
    value, found = value_and_gradients(loss, network.trainable_variables)
    assert_allclose(value, reference(weights), **CLOSE)
    for gradient, slope, variable in zip(found, slopes, network.trainable_variables, strict=True):
        assert np.abs(slope).max() > 0.02, variable.path
        assert_allclose(gradient, slope, rtol=1e-3, atol=1e-4, err_msg=variable.path)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("kind", ["nmn", "rnn", "hyper"])
def test_low_precision_stays_within_the_readout(kind, policy):
    """Memory and what leaves the network are float32, so that steps and sequences agree."""
    architecture, arrays = CASES[kind], draw_inputs(CASES[kind])
    exact, weights = drawn_network(kind)
    default = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        network = build_network(architecture, architecture.policy_units)
    finally:
        keras.config.set_dtype_policy(default)
    network.set_weights(weights)
    output, states = on_tensors(network.sequence, *arrays)
    exact_output, exact_states = on_tensors(exact.sequence, *arrays)
    assert_allclose(states, exact_states, **CLOSE)
    assert_allclose(output, exact_output, atol=0.1)
    assert (output != exact_output).any()
    step_output, step_state = on_tensors(network.call, *(x[0] for x in arrays[:3]), arrays[3] * arrays[4][0])
    assert {x.dtype.name for x in (output, states, step_output, step_state)} == {"float32"}
    assert_allclose(step_state, states[0], **CLOSE)
    assert_allclose(step_output, output[0], atol=0.02)


def test_call_is_the_step_without_the_signal():
    network, _ = drawn_network("nmn")
    observation, action, reward, state, _ = draw_inputs(CASES["nmn"])
    now = observation[0], action[0], reward[0], state
    output, after = on_tensors(network, *now)
    expected, _, expected_after = on_tensors(network.step, *now)
    assert_array_equal(output, expected)
    assert_array_equal(after, expected_after)


def test_signal_does_not_see_the_present_observation():
    network, _ = drawn_network("nmn")
    step = compiled(network, network.step)
    observation, action, reward, state, _ = draw_inputs(CASES["nmn"])
    observation, action, reward = observation[0], action[0], reward[0]
    output, signal, after = (convert_to_numpy(x) for x in step(observation, action, reward, state))
    other, locked, moved = (convert_to_numpy(x) for x in step(observation + 1.0, action, reward, state))
    assert_array_equal(locked, signal)
    assert_array_equal(moved[:, 2:], after[:, 2:])
    assert np.abs(other - output).max() > 0.01
    assert_array_equal(after[:, :2], observation)
    later = convert_to_numpy(step(observation, action, reward, moved)[1])
    same = convert_to_numpy(step(observation, action, reward, after)[1])
    assert np.abs(later - same).max() > 0.01


# Weights


@pytest.mark.parametrize("kind", ["nmn", "rnn"])
def test_initial_weights_are_truncated_normal_and_follow_from_the_seed(kind):
    first, same, other = (build_network(presets.ARCHITECTURES[f"b1-{kind}"], 2, seed) for seed in (3, 3, 4))
    kernels = []
    for a, b, c in zip(first.weights, same.weights, other.weights, strict=True):
        value, twin, different = (convert_to_numpy(w) for w in (a, b, c))
        assert_array_equal(value, twin)
        if a.name == "bias":
            assert_array_equal(value, np.zeros_like(value))
        else:
            assert (value != different).all()
            kernels.append(value.ravel())
    assert all(kernel.size == 1 or kernel.std() > 0.04 for kernel in kernels)
    drawn = np.concatenate(kernels)
    assert 0.199 < np.abs(drawn).max() <= 0.2
    deviation = 0.1 * np.sqrt(1.0 - 4.0 * np.exp(-2.0) / np.sqrt(2.0 * np.pi) / 0.9544997)
    assert_allclose(drawn.std(), deviation, rtol=0.02)
    assert abs(drawn.mean()) < 3.0 * deviation / np.sqrt(drawn.size)
    assert len(np.unique(drawn)) > 0.99 * drawn.size


def test_actor_and_critic_share_nothing():
    one, same, other = (ActorCritic(CASES["rnn"], seed=seed) for seed in (3, 3, 4))
    for role in ("actor", "critic"):
        weights = [getattr(agent, role).get_weights() for agent in (one, same, other)]
        for a, b, c in zip(*weights, strict=True):
            assert_array_equal(a, b)
            assert a.ndim == 1 or (a != c).all()
    for a, b in zip(one.actor.get_weights(), one.critic.get_weights(), strict=True):
        assert a.ndim == 1 or a.shape != b.shape or (a != b).all()
    assert not {id(w) for w in one.actor.weights} & {id(w) for w in one.critic.weights}


@pytest.mark.parametrize("case", ["nmn of directions", "rnn of two GRUs without hidden layers"])
def test_periodic_observations_one_period_on_are_the_same(case):
    network, _ = drawn_network(case)
    observation, *others = draw_inputs(CASES[case])
    period = CASES[case].observation_period
    shifted = (observation + period * np.random.default_rng(0).integers(-2, 3, observation.shape)).astype("float32")
    for one, other in zip(network.sequence(observation, *others), network.sequence(shifted, *others), strict=True):
        assert_allclose(convert_to_numpy(one), convert_to_numpy(other), **CLOSE)


@pytest.mark.parametrize("case", CASES)
def test_parameters_are_counted_by_hand(case):
    network, _ = drawn_network(case)
    outputs = CASES[case].policy_units
    assert network.count_params() == references.parameter_count(CASES[case], outputs)


def test_presets_have_the_paper_s_sizes():
    counts = {name: count_parameters(presets.ARCHITECTURES[name]) for name in ("b1-nmn", "b1-rnn")}
    assert counts == {
        "b1-nmn": {"actor": 9642, "critic": 9591},
        "b1-rnn": {"actor": 9352, "critic": 9341},
    }
    table = {
        name: (a.observation_size, a.gru_units, a.signal_units, a.hidden_units, a.activation)
        for name, a in presets.ARCHITECTURES.items()
        if name not in presets.VARIANTS
    }
    assert table == {
        "b1-nmn": (1, (50,), 20, (10,), "srelu"),
        "b1-rnn": (1, (50,), 0, (20, 10), "relu"),
        "b2-nmn": (2, (100, 75), 45, (30, 10), "srelu"),
        "b2-rnn": (2, (100, 75), 0, (45, 30, 10), "srelu"),
        "b3-nmn": (4, (100, 75), 45, (30, 10), "srelu"),
        "b3-rnn": (4, (100, 75), 0, (45, 30, 10), "srelu"),
    }


@pytest.mark.parametrize(("recipe", "wide"), [("paper", (30, 10)), ("fast", (64, 32))])
def test_variants_differ_from_their_base_in_one_thing(recipe, wide):
    def changed(name, base):
        ours, theirs = (presets.get(n, recipe)[0].get_config() for n in (name, base))
        assert presets.get(name, recipe)[1] == presets.get(base, recipe)[1]
        return {key: value for key, value in ours.items() if value != theirs[key]}

    bases = [f"b{i}-{kind}" for i in (1, 2, 3) for kind in ("nmn", "rnn")]
    assert all(changed(f"{base}-sigmoid", base) == {"activation": "sigmoid"} for base in bases)
    assert presets.get("b2-nmn-sigmoid", recipe)[0].hidden_units == wide
    depths = {
        "b1-nmn-depth0": (),
        "b1-nmn-depth4": (10, 10, 10, 10),
        "b1-rnn-depth0": (20,),
        "b1-rnn-depth4": (20, 10, 10, 10, 10),
    }
    for name, units in depths.items():
        assert changed(name, name.rpartition("-")[0]) == {"hidden_units": units}


def test_the_documented_numbers_of_parameters_are_true():
    text = (Path(__file__).parents[2] / "docs" / "architectures.md").read_text()
    columns = [("b1", "paper"), ("b2", "paper"), ("b2", "fast"), ("b3", "paper"), ("b3", "fast")]

    def actor(name, recipe="paper"):
        architecture, _ = presets.get(name, recipe)
        return references.parameter_count(architecture, architecture.policy_units)

    rows = re.findall(r"^\| (\w+) \| (\d.*) \|$", text, re.MULTILINE)
    assert [kind for kind, _ in rows] == ["nmn", "rnn", "film", "hyper", "nbrc", "shared"]
    for kind, cells in rows:
        told = [int(cell.split()[0].replace(",", "")) for cell in cells.split(" | ")]
        assert told == [actor(f"{benchmark}-{kind}", recipe) for benchmark, recipe in columns]
    depths = [f"{actor(f'b1-{kind}-depth{depth}'):,}" for kind in ("nmn", "rnn") for depth in (0, 4)]
    (paragraph,) = re.findall(r"^The depths change.*?\n\n", text, re.MULTILINE | re.DOTALL)
    assert re.findall(r"\d+,\d+", paragraph) == depths


@pytest.mark.parametrize("recipe", ["paper", "fast"])
def test_architectures_beyond_the_paper_are_as_large_as_the_nmn(recipe):
    news = {
        "film": {"kind": "film", "signal_units": 0},
        "hyper": {"kind": "hyper"},
        "nbrc": {"cell": "nbrc"},
        "shared": {"shared_modulation": True},
    }
    sizes = {"gru_units", "signal_units", "hidden_units"}
    for benchmark in ("b1", "b2", "b3"):
        base, _ = presets.get(f"{benchmark}-nmn", recipe)
        for name, new in news.items():
            architecture, _ = presets.get(f"{benchmark}-{name}", recipe)
            config, basis = architecture.get_config(), base.get_config()
            changed = {key for key, value in config.items() if value != basis[key]}
            assert {key: config[key] for key in new} == new and changed <= {*new, *sizes}
            for outputs in (base.policy_units, 1):
                counts = [references.parameter_count(a, outputs) for a in (architecture, base)]
                assert counts[0] == pytest.approx(counts[1], rel=0.02), (benchmark, name)


@pytest.mark.parametrize("benchmark", ["b2", "b3"])
def test_fast_networks_of_both_kinds_are_equally_large(benchmark):
    counts = [count_parameters(presets.get(f"{benchmark}-{kind}")[0]) for kind in ("nmn", "rnn")]
    for role in ("actor", "critic"):
        assert counts[0][role] == pytest.approx(counts[1][role], rel=0.02)


# Actions


def test_actions_in_environment_units_stay_inside_the_space():
    a = dataclasses.replace(CASES["nmn"], action_size=3)
    a = dataclasses.replace(
        a,
        action_low=(-20.0, None, -1.0),
        action_high=(20.0, 2.0, None),
        action_scale=(5.0, 1.0, 2.0),
        action_offset=(0.0, -1.0, 0.5),
    )
    action = np.array([[[1.0, 1.0, 1.0], [9.0, 9.0, 9.0]], [[-9.0, -9.0, -9.0], [3.0, 3.0, -0.75]]])
    expected = [[[5.0, 0.0, 2.5], [20.0, 2.0, 18.5]], [[-20.0, -10.0, -1.0], [15.0, 2.0, -1.0]]]
    assert_array_equal(a.to_environment(action), expected)
    inside = a.to_environment(convert_to_tensor(action, "float32"), keras.ops)
    assert_array_equal(convert_to_numpy(inside), expected)
    assert_array_equal(a.bounds(), [[-20.0, -np.inf, -1.0], [20.0, 2.0, np.inf]])


def test_actions_without_bounds_and_scale_are_the_network_s():
    action = np.random.default_rng(0).normal(0.0, 1e6, (4, 5, 1)).astype("float32")
    assert_array_equal(CASES["nmn"].to_environment(action), action)


def split_policy(architecture, output):
    """Mean and log-variance of a head's packed policy."""
    return np.split(on_tensors(architecture.head.policy, output), 2, axis=-1)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (None, None, [-3.0, 0.5, 5.0]),
        (-2.0, None, [-2.0, 0.5, 5.0]),
        (None, 1.5, [-3.0, 0.5, 1.5]),
        (-2.0, 1.5, [-2.0, 0.5, 1.5]),
    ],
)
def test_log_variance_is_offset_then_bounded(low, high, expected):
    a = dataclasses.replace(CASES["nmn"], log_var_offset=-1.0, log_var_min=low, log_var_max=high)
    output = np.array([[7.0, -2.0], [8.0, 1.5], [9.0, 6.0]], "float32")
    mean, log_var = split_policy(a, output)
    assert_array_equal(mean[:, 0], [7.0, 8.0, 9.0])
    assert_array_equal(log_var[:, 0], expected)


def test_output_is_split_in_means_then_log_variances():
    output = np.arange(24, dtype="float32").reshape(2, 2, 6)
    a = dataclasses.replace(CASES["nmn"], action_size=3, log_var_offset=-2.0)
    mean, log_var = split_policy(a, output)
    assert_array_equal(mean, output[..., :3])
    assert_array_equal(log_var, output[..., 3:] - 2.0)


def test_a_direction_is_the_angle_of_a_vector():
    a = CASES["nmn of directions"]
    half_turns = np.array([[[0.0, -0.75], [1.0, 0.25]], [[0.5, 0.125], [-0.5, -0.25]]])
    length = np.array([[[2.0, 0.5], [1.0, 3.0]], [[0.7, 1.0], [4.0, 0.1]]])
    vector = [length * np.cos(np.pi * half_turns), length * np.sin(np.pi * half_turns)]
    output = np.concatenate([*vector, half_turns], axis=-1).astype("float32")
    mean, log_var = split_policy(a, output)
    assert_allclose(np.cos(np.pi * mean), np.cos(np.pi * half_turns), atol=1e-5)
    assert_allclose(np.sin(np.pi * mean), np.sin(np.pi * half_turns), atol=1e-5)
    assert_allclose(log_var, half_turns - 1.0, atol=1e-6)
    assert np.isfinite(split_policy(a, np.zeros((3, 6), "float32"))[0]).all()


def test_choices_are_sampled_by_their_probabilities_and_the_likeliest_without_noise():
    a, rng = CASES["nmn of choices"], np.random.default_rng(3)
    logits = rng.normal(size=(1, a.head.policy_size)).astype("float32")
    drawn = a.head.sample(np.tile(logits, (20_000, 1)), a.head.noise(rng, (20_000,)))
    likeliest = a.head.sample(logits, np.zeros_like(logits))
    for i, expected in enumerate(references.probabilities(a, logits)):
        found = np.bincount(drawn[:, i].astype(int), minlength=len(expected[0])) / len(drawn)
        assert_allclose(found, expected[0], atol=0.02)  # five deviations
        assert likeliest[0, i] == expected.argmax()
    inside = on_tensors(lambda x: a.head.sample(x, 0.0, keras.ops), logits)
    assert_array_equal(inside, likeliest)
    assert_array_equal(a.to_environment(drawn).min(axis=0), [0.0, 3.0])
    assert_array_equal(a.to_environment(drawn).max(axis=0), [2.0, 4.0])
    entropy = -sum((p * np.log(p)).sum() for p in references.probabilities(a, logits))
    assert a.head.summary(np.tile(logits, (4, 3, 1)))["entropy"] == pytest.approx(entropy, rel=1e-5)


@pytest.mark.parametrize(("low", "start"), [(None, -2.5), ((-2.5, -2.5), -2.5), ((1.0, 0.0), (1.0, 0.0))])
def test_periodic_actions_are_wrapped_into_one_period(low, start):
    high = None if low is None else tuple(bound + 6.0 for bound in low)
    a = dataclasses.replace(CASES["nmn of directions"], action_low=low, action_high=high, action_offset=(0.5, 0.5))
    action = np.random.default_rng(0).uniform(-5.0, 5.0, (50, 2)).astype("float32")
    found = a.to_environment(action)
    turns = (found - (3.0 * action + 0.5)) / 6.0
    assert_allclose(turns, np.round(turns), atol=1e-5)
    assert np.abs(turns).max() > 0.5
    assert (found >= np.asarray(start)).all() and (found <= np.asarray(start) + 6.0).all()
    assert_allclose(convert_to_numpy(a.to_environment(convert_to_tensor(action), keras.ops)), found, atol=1e-5)


def test_feedback_of_a_direction_repeats_each_turn():
    network, _ = drawn_network("nmn of directions")
    observation, action, reward, state, _ = draw_inputs(CASES["nmn of directions"])
    step = compiled(network, network.step)
    here, turned, elsewhere = (
        convert_to_numpy(step(observation[0], action[0] + shift, reward[0], state)[1]) for shift in (0.0, 6.0, 1.0)
    )
    assert_allclose(here, turned, rtol=1e-4, atol=1e-5)
    assert np.abs(here - elsewhere).max() > 0.01


# Architecture


@pytest.mark.parametrize("name", [*presets.ARCHITECTURES, "every field", "normalised", "nmn of choices"])
def test_architecture_survives_json(name):
    others = {**CASES, "every field": EVERY_FIELD, "normalised": NORMALISED}
    architecture = presets.ARCHITECTURES.get(name) or others[name]
    text = json.dumps(architecture.get_config(), allow_nan=False)
    assert Architecture.from_config(json.loads(text)) == architecture


def test_every_field_differs_from_its_default():
    for field in dataclasses.fields(Architecture):
        others = {"action_sizes": CASES["nmn of choices"], **dict.fromkeys(FOR_ANY_TASK, NORMALISED)}
        one = others.get(field.name, EVERY_FIELD)
        assert getattr(one, field.name) != field.default, field.name


def test_packed_state_is_laid_out_in_order():
    layout = {"nmn": (("prev_observation", 6), ("nbrc_0", 4), ("nbrc_1", 3)), "rnn": (("gru_0", 4),)}
    assert EVERY_FIELD.state_layout == layout["nmn"]
    assert EVERY_FIELD.state_size == 13
    assert CASES["rnn"].state_layout == layout["rnn"]
    assert CASES["rnn"].state_size == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "lstm"}, "`kind` must be one of ('nmn', 'rnn', 'film', 'hyper'). Received: kind='lstm'"),
        ({"cell": "lstm"}, "`cell` must be one of ('gru', 'nbrc'). Received: cell='lstm'"),
        ({"shared_modulation": 2}, "`shared_modulation` must be False, or True where a signal modulates"),
        ({"kind": "hyper", "shared_modulation": True}, "Received: kind='hyper', shared_modulation=True"),
        ({"kind": "film"}, "and 0 for the others. Received: kind='film', signal_units=3"),
        ({"kind": "hyper", "signal_units": 0}, "Received: kind='hyper', signal_units=0"),
        ({"gru_units": ()}, "`gru_units` needs at least one cell. Received: gru_units=()"),
        ({"gru_units": (4, 0)}, "must be positive integers. Received: (2, 1, 4, 0, 5)"),
        ({"hidden_units": (2.5,)}, "must be positive integers. Received: (2, 1, 4, 2.5)"),
        ({"observation_size": 0}, "must be positive integers. Received: (0, 1, 4, 5)"),
        ({"action_size": True}, "must be positive integers. Received: (2, True, 4, 5)"),
        (
            {"signal_units": 0},
            "positive integer for the kinds ('nmn', 'hyper') and 0 for the others. Received: kind='nmn', sig",
        ),
        ({"kind": "rnn"}, "for the kinds ('nmn', 'hyper') and 0 for the others. Received: kind='rnn', signal_u"),
        ({"action_low": (1.0, 2.0)}, "(1). Received: action_low=(1.0, 2.0)"),
        ({"action_high": ()}, "`action_high` needs a tuple of one number per action dimension (1). Received"),
        ({"action_scale": (1.0, 2.0)}, "(1). Received: action_scale=(1.0, 2.0)"),
        ({"action_offset": (1.0, 2.0)}, "(1). Received: action_offset=(1.0, 2.0)"),
        (
            {"signal_units": 2.5},
            "positive integer for the kinds ('nmn', 'hyper') and 0 for the others. Received: kind='nmn', sig",
        ),
        ({"action_low": (3.0,), "action_high": (2.0,)}, "`action_low` must lie below `action_high`"),
        ({"action_scale": (0.0,)}, "`action_scale` must be finite and not 0"),
        ({"action_head": "beta"}, "must be one of ('gaussian', 'direction', 'categorical'). Received: action_head='be"),
        ({"action_head": "categorical"}, "one positive integer per action dimension (1). Received: action_sizes=None"),
        ({"action_sizes": (2,)}, "is for the categorical head alone. Received: action_head='gaussian', action_sizes="),
        (CHOICE | {"action_sizes": (3, 2)}, "positive integer per action dimension (1). Received: action_sizes=(3, 2)"),
        (CHOICE | {"action_sizes": (0,)}, "positive integer per action dimension (1). Received: action_sizes=(0,)"),
        (CHOICE | {"action_high": (3.0,)}, "`action_high` the last choice, and nothing is periodic"),
        (CHOICE | {"action_scale": (2.0,)}, "`action_scale` 1, `action_low` the offset"),
        ({"action_head": "direction"}, "'direction' needs an `action_period` of 2.0 times `action_scale`. Rec"),
        ({"action_period": 2.0, "action_low": (0.0,), "action_high": (1.0,)}, "must be one period apart"),
        ({"action_period": -2.0}, "`action_period` must be positive and finite. Received: action_period=-2.0"),
        ({"log_var_min": 1.0, "log_var_max": -1.0}, "`log_var_min` must lie below `log_var_max`. Received: log_v"),
        ({"observation_period": 0.0}, "`observation_period` must be positive and finite. Received: observation_p"),
        ({"activation": "sreluu"}, "sreluu"),
        ({"signal_activation": "reluu"}, "reluu"),
    ],
)
def test_bad_architectures_are_refused(change, message):
    with pytest.raises(ValueError) as caught:
        dataclasses.replace(CASES["nmn"], **change)
    assert message in str(caught.value)


def test_a_direction_in_radians_is_one():
    periodic = {"action_head": "direction", "action_period": 2 * math.pi, "action_scale": (math.pi,)}
    assert Architecture("nmn", 2, 1, **periodic).action_period == 2 * math.pi


def test_lists_are_refused():
    with pytest.raises(TypeError, match=r"`gru_units` must be a tuple. Received: gru_units=\[4\]"):
        dataclasses.replace(CASES["nmn"], gru_units=[4])


def test_unknown_fields_are_refused():
    with pytest.raises(ValueError) as caught:
        Architecture.from_config({**CASES["nmn"].get_config(), "depth": 3, "width": 2})
    assert str(caught.value).startswith("Unknown fields of an Architecture: ['depth', 'width']. Kno")
    assert "Received: {'kind': 'nmn'" in str(caught.value)
