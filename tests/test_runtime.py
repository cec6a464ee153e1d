import json
import os

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_agents import TinyAgent, loud_agent

from nmn_keras.evaluation import evaluate
from nmn_keras.runtime import InvalidInput, OnnxAgent


def draw_inputs(agent, rows, seed=0):
    rng = np.random.default_rng(seed)
    sizes = (agent.observation_size, agent.action_size, 1, agent.state_size)
    return [rng.standard_normal((rows, size)).astype(np.float32) for size in sizes]


@pytest.mark.parametrize("rows", [1, 2, 3, 64])
@pytest.mark.parametrize("actions", [1, 2])
def test_step_is_the_reference_over_chained_steps(rows, actions):
    reference = TinyAgent(observation=2, action=actions)
    agent = OnnxAgent(reference.onnx())
    rng = np.random.default_rng(1)
    action, reward = np.zeros((rows, actions), np.float32), np.zeros((rows, 1), np.float32)
    state = expected_state = agent.initial_state(rows)
    for _ in range(200):
        observation = rng.standard_normal((rows, 2)).astype(np.float32)
        outputs = agent.step(observation, action, reward, state)
        expected = reference.step(observation, action, reward, expected_state)
        assert list(outputs) == list(expected)
        for name, value in outputs.items():
            np.testing.assert_allclose(value, expected[name], rtol=0, atol=1e-5, err_msg=name)
            assert value.dtype == np.float32
        action, state, expected_state = (
            outputs["action"],
            outputs["state_out"],
            outputs["state_out"],
        )
        reward = rng.standard_normal((rows, 1)).astype(np.float32)
    fresh = agent.step(observation, action, reward, agent.initial_state(rows))
    assert np.abs(fresh["action"] - outputs["action"]).max() > 0.1  # the memory is in use


def test_attributes_are_what_the_file_says(tmp_path):
    reference = TinyAgent(name="pair", observation=3, action=2)
    (tmp_path / "policy.onnx").write_bytes(reference.onnx())
    agent = OnnxAgent(tmp_path / "policy.onnx")
    assert (agent.name, agent.kind, agent.env_kwargs) == ("pair", "nmn", {})
    assert (agent.observation_size, agent.action_size) == (3, 2)
    assert (agent.state_size, agent.signal_size) == (8, 3)
    np.testing.assert_array_equal(agent.observation_low, np.full(3, -np.inf, np.float32))
    np.testing.assert_array_equal(agent.observation_high, np.full(3, 5, np.float32))
    np.testing.assert_array_equal(agent.action_low, np.full(2, -20, np.float32))
    np.testing.assert_array_equal(agent.action_scale, reference.weights["scale"])
    np.testing.assert_array_equal(agent.action_offset, reference.weights["offset"])
    assert agent.action_offset.dtype == agent.observation_low.dtype == np.float32
    assert [part["part"] for part in agent.state_layout] == ["prev_observation", "memory"]
    assert agent.metadata["scores"] == {"return": 1.0}
    assert agent.metadata["training_commit"] == "0123456"


def test_deterministic_act_is_the_action_output():
    agent = OnnxAgent(TinyAgent(action=2).onnx())
    inputs = draw_inputs(agent, rows=5)
    action, state = agent.act(*inputs)
    outputs = agent.step(*inputs)
    np.testing.assert_array_equal(action, outputs["action"])
    np.testing.assert_array_equal(state, outputs["state_out"])
    again, _ = agent.act(*[array.tolist() for array in inputs])
    np.testing.assert_array_equal(action, again)


def test_sampled_act_is_the_gaussian_in_environment_units():
    reference = TinyAgent(action=2, high=4.0)
    agent = OnnxAgent(reference.onnx())
    inputs = draw_inputs(agent, rows=1000)
    action, state = agent.act(*inputs, rng=np.random.default_rng(7))
    outputs = reference.step(*inputs)
    noise = np.random.default_rng(7).standard_normal((1000, 2), dtype=np.float32)
    drawn = outputs["action_mean"] + np.exp(outputs["action_log_std"]) * noise
    expected = np.clip(drawn * reference.weights["scale"] + reference.weights["offset"], -4, 4)
    np.testing.assert_allclose(action, expected, atol=1e-4)
    np.testing.assert_allclose(state, outputs["state_out"], atol=1e-5)
    assert action.dtype == np.float32
    assert (np.abs(action) == 4).any() and (np.abs(action) < 4).any()


def test_initial_state_has_a_row_per_episode():
    agent = OnnxAgent(TinyAgent().onnx())
    state = agent.initial_state(4)
    np.testing.assert_array_equal(state, np.zeros((4, agent.state_size), np.float32))
    state[0] = 1
    assert not agent.initial_state(4).any()
    with pytest.raises(ValueError, match=r"at least 1. Received: 0"):
        agent.initial_state(0)


FIELDS = ("observation", "prev_action", "prev_reward", "state")


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda rows: rows[0], r"has the wrong shape. Accepted is \("),
        (lambda rows: rows[:, :0], r"Received: \(2, 0\)"),
        (lambda rows: rows[:0], r"Received: \(0, "),
        (lambda rows: np.hstack([rows, rows]), r"has the wrong shape"),
        (lambda rows: np.where(rows == rows[1, 0], np.nan, rows), r"not finite.*Received: nan"),
        (lambda rows: rows.astype(float) * 1e40, r"not finite.*Received: -?inf"),
        (lambda rows: rows.astype(str).tolist()[0] + ["x"], r"is no array of numbers"),
        (lambda rows: [[10**400]], r"is no array of numbers"),
        (lambda rows: None, r"`?(not finite|wrong shape)"),
    ],
)
def test_act_names_the_input_it_refuses(field, spoil, reason):
    agent = OnnxAgent(TinyAgent(action=2).onnx())
    inputs = dict(zip(FIELDS, draw_inputs(agent, rows=2), strict=True))
    inputs[field] = spoil(inputs[field])
    with pytest.raises(InvalidInput, match=f"`{field}`.*{reason}") as caught:
        agent.act(**inputs)
    assert caught.value.field == field


def test_act_refuses_rows_that_do_not_belong_together():
    agent = OnnxAgent(TinyAgent().onnx())
    observation, action, reward, state = draw_inputs(agent, rows=3)
    with pytest.raises(InvalidInput, match=r"`state` .* Accepted is \(3, 6\).*Received: \(1, 6\)"):
        agent.act(observation, action, reward, state[:1])


def test_act_refuses_a_step_that_overflows():
    agent = OnnxAgent(loud_agent().onnx())
    assert agent.action_high == np.inf and agent.action_low == -np.inf
    rest = [[[0.0]], [[0.0]], agent.initial_state(1)]
    action, _ = agent.act([[0.01]], *rest)
    assert np.isfinite(action).all() and action > 1e30
    with pytest.raises(InvalidInput, match="overflows") as caught:
        agent.act([[1.0]], *rest)
    assert caught.value.field is None


def test_steps_run_on_the_calling_thread():
    before = len(os.listdir("/proc/self/task"))
    agent = OnnxAgent(TinyAgent().onnx())
    agent.step(*draw_inputs(agent, rows=64))
    assert len(os.listdir("/proc/self/task")) == before


def test_evaluate_plays_the_agents_own_environment():
    agent = OnnxAgent(TinyAgent().onnx())
    scores = agent.evaluate(episodes=3)
    assert scores == evaluate(agent, "b1", episodes=3)
    assert scores["length"] == 1400 and scores["return"] != 0


def spoilt(change):
    """A contract-conforming file, changed."""
    model = TinyAgent().model()
    change(model)
    return model.SerializeToString()


def set_metadata(key, value):
    def change(model):
        metadata = TinyAgent().metadata() | {key: value}
        helper.set_model_props(model, {k: v for k, v in metadata.items() if v is not None})

    return change


def rename_output(model):
    model.graph.node.append(helper.make_node("Identity", ["action"], ["Identity:0"]))
    model.graph.output[0].name = "Identity:0"


def use_double(model):
    model.graph.node.append(helper.make_node("Cast", ["z"], ["wide"], to=TensorProto.DOUBLE))
    model.graph.output.append(helper.make_tensor_value_info("value", TensorProto.DOUBLE, ["batch", 3]))
    model.graph.node.append(helper.make_node("Identity", ["wide"], ["value"]))


def fix_batch(model):
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "damaged or is no ONNX model"),
        (b"import this", "damaged or is no ONNX model"),
        (TinyAgent().onnx()[:300], "damaged or is no ONNX model"),
        (spoilt(lambda model: model.ClearField("metadata_props")), r"Received: None in"),
        (spoilt(set_metadata("contract_version", "2")), r"Accepted is .*'1'.*Received: '2'"),
        (spoilt(set_metadata("state_layout", None)), "without state_layout"),
        (spoilt(set_metadata("state_layout", "[1, 2]")), "damaged at `state_layout`. Accepted are parts with a size"),
        (spoilt(set_metadata("action_scale", "[null]")), "damaged at `action_scale`. Accepted are finite numbers"),
        (spoilt(set_metadata("action_low", '["0"]')), "damaged at `action_low`. Accepted are numbers and null"),
        (spoilt(set_metadata("action_low", "[-20")), r"damaged at `action_low`.*JSON of type list"),
        (spoilt(set_metadata("signal_size", "[]")), r"JSON of type int. Received: '\[\]'"),
        (spoilt(set_metadata("signal_size", "4")), r"signal_size .*Accepted is 3. Received: 4"),
        (spoilt(set_metadata("kind", "rnn")), r"kind .*Accepted is 'nmn'. Received: 'rnn'"),
        (
            spoilt(set_metadata("kind", "lstm")),
            r"kind of network .*Accepted are nmn, rnn, film, hyper. Received: 'lstm'",
        ),
        (spoilt(set_metadata("action_high", json.dumps([1, 1]))), r"action_high .*Received: 2"),
        (spoilt(set_metadata("action_head", "beta")), "Accepted are gaussian, direction, categorical. Received: .beta"),
        (spoilt(set_metadata("action_head", "categorical")), "incomplete.* without action_sizes"),
        (spoilt(rename_output), r"other names.*Received: .*Identity:0"),
        (spoilt(use_double), r"`value` has another type.*tensor\(double\)"),
        (spoilt(fix_batch), r"`observation` has another type. Accepted .*\[1, 1\]"),
    ],
)
def test_files_that_break_the_contract_are_refused(tmp_path, content, reason):
    path = tmp_path / "policy.onnx"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=reason) as caught:
        OnnxAgent(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.onnx"):
        OnnxAgent(tmp_path / "nowhere.onnx")
