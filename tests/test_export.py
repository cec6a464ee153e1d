import dataclasses
import importlib.util
import json
import os
import subprocess
import sys

import gymnasium
import keras
import numpy as np
import onnx
import pytest
import references
from tiny_agents import EXTRA, LAYERS, perturb
from tiny_envs import Menu, Patchwork

from nmn_keras import ActorCritic, Architecture, OnnxAgent, contract, envs, export
from nmn_keras.export import FILES, export_agent
from nmn_keras.layers import get_activation

ARCHITECTURES = {
    "rnn, three actions, two GRUs, no hidden layer": lambda: Architecture.for_env(
        Patchwork, kind="rnn", gru_units=(6, 4), hidden_units=()
    ),
    "nmn, three actions, no hidden layer": lambda: Architecture.for_env(Patchwork, **LAYERS | {"hidden_units": ()}),
    "nmn, four hidden layers, every option": lambda: Architecture(
        kind="nmn",
        observation_size=3,
        action_size=2,
        gru_units=(4, 5, 3),
        signal_units=6,
        signal_activation="tanh",
        hidden_units=(7, 6, 5, 4),
        activation="sigmoid",
        action_low=(None, -0.5),
        action_high=(2.0, 1.5),
        action_scale=(3.0, 0.1),
        action_offset=(-1.0, 0.2),
        action_period=2.0,
        feedback_scale=np.pi,
        reward_scale=0.1,
        log_var_min=-1.2,
        log_var_max=-0.8,
    ),
    "nmn of directions": lambda: Architecture(
        kind="nmn",
        observation_size=2,
        action_size=2,
        gru_units=(5, 4),
        signal_units=6,
        hidden_units=(7,),
        observation_period=5.0,
        action_low=(-1.0, 1.0),
        action_high=(5.0, 7.0),
        action_scale=(3.0, 3.0),
        action_offset=(2.0, 4.0),
        action_head="direction",
        action_period=6.0,
        log_var_max=-1.5,
    ),
    "nmn of choices": lambda: Architecture.for_env(Menu, **LAYERS, feedback_scale=0.5),
    "rnn of a direction": lambda: Architecture(
        kind="rnn",
        observation_size=2,
        action_size=1,
        gru_units=(5,),
        signal_units=0,
        hidden_units=(7,),
        observation_period=4.0,
        action_low=(-1.0,),
        action_high=(1.0,),
        action_head="direction",
        action_period=2.0,
    ),
    "nmn of bistable cells that shares": lambda: Architecture.for_env(
        Patchwork,
        **LAYERS | {"gru_units": (5, 4), "hidden_units": (6, 4)},
        signal_activation="tanh",
        cell="nbrc",
        shared_modulation=True,
    ),
    "film of a direction": lambda: Architecture(
        kind="film",
        observation_size=2,
        action_size=1,
        gru_units=(5, 4),
        signal_units=0,
        hidden_units=(7, 3),
        observation_period=4.0,
        action_low=(-1.0,),
        action_high=(1.0,),
        action_head="direction",
        action_period=2.0,
        reward_scale=0.1,
    ),
    "hyper": lambda: Architecture.for_env(
        Patchwork, kind="hyper", gru_units=(6,), signal_units=3, hidden_units=(5, 4), log_var_min=-1.5
    ),
}


@pytest.fixture(scope="module", params=["for benchmark 1", *ARCHITECTURES])
def pair(request, exported, tmp_path_factory):
    """An agent with every weight in use, and its export."""
    if request.param not in ARCHITECTURES:
        return exported
    agent = perturb(ActorCritic(ARCHITECTURES[request.param](), seed=1))
    directory = tmp_path_factory.mktemp("export")
    export_agent(agent, directory, "tiny", EXTRA)
    return agent, directory


def steps(agent, batch, count=200, seed=0):
    """Random inputs of a chain of steps: observations, actions as played, rewards."""
    rng = np.random.default_rng(seed)
    a = agent.architecture
    for step in range(count):
        observation = rng.normal(0.0, 2.0, (batch, a.observation_size)).astype("float32")
        action = a.to_environment(rng.normal(0.0, 2.0, (batch, a.action_size)).astype("float32"))
        reward = rng.normal(0.0, 5.0, (batch, 1)).astype("float32")
        yield observation, action * (step > 0), reward * (step > 0)


def compare(expected, found):
    """Outputs stacked over steps; within 1e-5 of the scale of each output."""
    assert expected.keys() == found.keys()
    for name, values in expected.items():
        difference = np.abs(values - found[name]).max()
        assert difference <= 1e-5 * np.abs(values).max(), (name, difference, np.abs(values).max())
        assert np.ptp(values) > 0.01, name  # nothing is constant


def chain(step, agent, inputs):
    state, rows = agent.initial_state(len(inputs[0][0])), []
    for given in inputs:
        rows.append(step(*given, state))
        state = rows[-1]["state_out"]
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


@pytest.mark.parametrize("batch", [1, 2, 3, 64])
def test_two_hundred_chained_steps_agree(pair, batch):
    agent, directory = pair
    inputs = [*steps(agent, batch)]
    onnx_agent = OnnxAgent(directory / "policy.onnx")
    compare(chain(agent.step, agent, inputs), chain(onnx_agent.step, onnx_agent, inputs))


def test_the_graph_is_the_network_of_the_equations(pair):
    agent, directory = pair
    a, weights = agent.architecture, agent.actor.get_weights()
    inputs = [*steps(agent, 5, count=40)]

    def reference(observation, prev_action, prev_reward, state):
        output, signal, state = references.network_step(a, weights, observation, prev_action, prev_reward, state)
        outputs = {"state_out": state} | ({} if signal is None else {"z": signal})
        if a.action_head == "categorical":
            chosen = [p.argmax(axis=-1) for p in references.probabilities(a, output)]
            return outputs | {"action": np.stack(chosen, axis=-1) + a.action_low, "logits": output}
        mean, log_var = references.policy(a, output)
        action = references.environment_action(a, mean)
        return outputs | {"action": action, "action_mean": mean, "action_log_std": log_var / 2}

    compare(chain(reference, agent, inputs), chain(OnnxAgent(directory / "policy.onnx").step, agent, inputs))


def test_the_file_follows_the_contract(pair):
    agent, directory = pair
    a, model = agent.architecture, onnx.load(directory / "policy.onnx", load_external_data=False)
    onnx.checker.check_model(model, full_check=True)
    widths = {
        "observation": a.observation_size,
        "prev_action": a.action_size,
        "prev_reward": 1,
        "state_in": a.state_size,
    }
    policy = {"logits": 5} if a.action_sizes else {"action_mean": a.action_size, "action_log_std": a.action_size}
    outputs = {"action": a.action_size, **policy}
    outputs |= {"state_out": a.state_size} | ({"z": a.signal_units} if a.kind == "nmn" else {})
    for tensors, expected in ((model.graph.input, widths), (model.graph.output, outputs)):
        shapes = {t.name: [d.dim_param or d.dim_value for d in t.type.tensor_type.shape.dim] for t in tensors}
        assert shapes == {name: ["batch", width] for name, width in expected.items()}
        assert {t.type.tensor_type.elem_type for t in tensors} == {onnx.TensorProto.FLOAT}
    assert [t.name for t in model.graph.input] == [*contract.INPUTS]
    assert [opset.domain for opset in model.opset_import] == [""] and not model.functions
    assert {node.domain for node in model.graph.node} == {""}
    operators = {node.op_type for node in model.graph.node}
    assert not operators & {"Loop", "Scan", "If", "GRU", "LSTM", "RNN", "SequenceConstruct"}
    assert {"MatMul", "Sigmoid", "Tanh", "Concat"} <= operators
    assert not any(t.external_data or t.data_location for t in model.graph.initializer)


def test_the_metadata_is_complete(pair):
    agent, directory = pair
    a, onnx_agent = agent.architecture, OnnxAgent(directory / "policy.onnx")
    metadata = onnx_agent.metadata
    assert {*contract.WORDS, *contract.JSON_TYPES} <= metadata.keys()
    words = {"agent": "tiny", "kind": a.kind, "contract_version": "1", "action_head": a.action_head}
    assert words.items() <= metadata.items()
    assert {name: metadata[name] for name in EXTRA} == EXTRA
    assert metadata["action_low"] == list(a.action_low) and metadata["action_high"] == list(a.action_high)
    np.testing.assert_array_equal([onnx_agent.action_scale, onnx_agent.action_offset], a.scaling())
    assert metadata["signal_size"] == (a.signal_units if a.kind == "nmn" else 0)
    layout = [(part["part"], part["size"]) for part in metadata["state_layout"]]
    assert layout == [*a.state_layout]
    ends = np.cumsum([size for _, size in layout])
    assert [part["offset"] for part in metadata["state_layout"]] == [0, *ends[:-1]] and ends[-1] == a.state_size
    assert metadata["initial_state"] == [0.0] * a.state_size


def test_bounds_of_the_training_environment_are_told(exported, tmp_path):
    agent, directory = exported
    assert OnnxAgent(directory / "policy.onnx").metadata["observation_low"] == [None]  # never trained
    agent.run.env_id, agent.run.env_kwargs = "nmn_keras/MovingTarget-v0", {"alpha_max": 3.0}
    export_agent(agent, tmp_path, "tiny")
    agent.run.env_id, agent.run.env_kwargs = None, {}
    metadata = OnnxAgent(tmp_path / "policy.onnx").metadata
    assert (metadata["env_id"], metadata["env_kwargs"]) == ("nmn_keras/MovingTarget-v0", {"alpha_max": 3.0})
    assert (metadata["observation_low"], metadata["observation_high"]) == ([-5.0], [5.0])


@pytest.mark.parametrize("activation", ["gelu", "celu"])
def test_activations_whose_own_form_cannot_be_exported_have_another(activation, tmp_path):
    layers = {**LAYERS, "activation": activation}
    agent = perturb(ActorCritic(Architecture.for_env(Patchwork, **layers)))
    export_agent(agent, tmp_path, "tiny")
    golden = np.load(tmp_path / "golden.npz")
    found = OnnxAgent(tmp_path / "policy.onnx").step(*(golden[name][3] for name in contract.INPUTS))
    np.testing.assert_allclose(found["action"], golden["action"][3], rtol=1e-5, atol=1e-6)
    x = np.linspace(-3, 3, 50, dtype="float32")
    ours, keras_s = get_activation(activation)(x), getattr(keras.activations, activation)(x)
    np.testing.assert_allclose(np.asarray(ours), np.asarray(keras_s), rtol=1e-5, atol=1e-6)


def test_golden_observations_lie_within_the_bounds():
    bounds = [(100.0, 120.0), (-np.inf, -50.0), (7.0, np.inf), (-1.0, 200.0), (-np.inf, np.inf)]
    low, high = export._golden_range(
        *([b if np.isfinite(b) else None for b in side] for side in zip(*bounds, strict=True))
    )
    expected = [(100.0, 120.0), (-60.0, -50.0), (7.0, 17.0), (-1.0, 5.0), (-5.0, 5.0)]
    np.testing.assert_array_equal(np.stack([low, high], axis=1), expected)


def test_z_is_locked_by_keeping_all_but_the_observation(pair):
    agent, directory = pair
    if agent.architecture.kind != "nmn":
        pytest.skip("only an NMN has z")
    onnx_agent = OnnxAgent(directory / "policy.onnx")
    inputs = [*steps(agent, 4, count=12)]
    moved = chain(onnx_agent.step, onnx_agent, inputs[:6])
    state, (_, action, reward) = moved["state_out"][-1], inputs[6]
    locked = [onnx_agent.step(observation, action, reward, state) for observation, *_ in inputs[6:]]
    for outputs in locked[1:]:
        np.testing.assert_array_equal(outputs["z"], locked[0]["z"])
        policy = contract.POLICY_OUTPUTS[agent.architecture.action_head][0]
        assert (outputs[policy] != locked[0][policy]).all()
    assert (np.ptp(moved["z"], axis=0).max(axis=1) > 0.01).all()


def test_golden_steps_replay(pair):
    agent, directory = pair
    golden = np.load(directory / "golden.npz")
    onnx_agent = OnnxAgent(directory / "policy.onnx")
    outputs = [name for name in golden.files if name not in contract.INPUTS]
    assert {len(golden[name]) for name in golden.files} == {200}
    np.testing.assert_array_equal(golden["state_in"][1:], golden["state_out"][:-1])
    assert not any(golden[name][0].any() for name in contract.INPUTS[1:])
    low, high = agent.architecture.bounds()
    played = golden["prev_action"][1:]
    assert (played >= low).all() and (played <= high).all()
    inputs = [[golden[name][t] for name in contract.INPUTS[:-1]] for t in range(200)]
    compare({name: golden[name] for name in outputs}, chain(onnx_agent.step, onnx_agent, inputs))


def contents(directory):
    return {file: (directory / file).read_bytes() for file in FILES}


def test_exports_are_byte_identical(exported, tmp_path):
    agent, directory = exported
    export_agent(agent, tmp_path / "again", "tiny", EXTRA)
    assert contents(tmp_path / "again") == contents(directory)
    agent.save(tmp_path / "run")
    export_agent(ActorCritic.load(tmp_path / "run"), tmp_path / "loaded", "tiny", EXTRA)
    assert contents(tmp_path / "loaded") == contents(directory)


@pytest.mark.skipif(not importlib.util.find_spec("jax"), reason="JAX is not installed")
def test_a_process_on_jax_exports_the_same_bytes(exported, tmp_path, monkeypatch):
    """Of an environment, too, which only that process knows."""
    agent, _ = exported
    spec = gymnasium.spec(envs.BENCHMARKS["b1"].env_id)
    monkeypatch.setitem(gymnasium.registry, "Local-v0", dataclasses.replace(spec, id="Local-v0"))
    monkeypatch.setattr(agent.run, "env_id", "Local-v0")
    agent.save(tmp_path / "run")
    export_agent(agent, tmp_path / "here", "tiny", EXTRA)
    script = (
        "import json, sys, gymnasium; from nmn_keras import ActorCritic; from nmn_keras.export import export_agent;"
        f"gymnasium.register('Local-v0', {spec.entry_point!r}, max_episode_steps={spec.max_episode_steps});"
        "export_agent(ActorCritic.load(sys.argv[1]), sys.argv[2], 'tiny', json.loads(sys.argv[3]));"
        "print('tensorflow' in sys.modules)"
    )
    command = [sys.executable, "-c", script, tmp_path / "run", tmp_path / "jax", json.dumps(EXTRA)]
    done = subprocess.run(command, env=os.environ | {"KERAS_BACKEND": "jax"}, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr
    assert contents(tmp_path / "jax") == contents(tmp_path / "here")
