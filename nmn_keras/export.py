"""Export of a trained agent: `policy.onnx` under contract version 1, and `golden.npz` to check it with.

Export runs on the TensorFlow backend, whatever backend trained: weights do not depend on it. From a process on another
backend it starts one on TensorFlow.
"""

import copy
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import keras
import numpy as np
import onnx

from nmn_keras import contract, envs, spaces
from nmn_keras.step_graph import StepGraph

FILES = ("policy.onnx", "golden.npz")
GOLDEN_BATCH = 3


def export_agent(agent, directory, name: str, extra: dict | None = None) -> dict[str, Path]:
    """Write `policy.onnx` and `golden.npz` of an agent, in float32 whatever precision the agent computes in.

    Args:
        agent: an `ActorCritic`.
        directory: where to; created if missing. Files of these names are replaced.
        name: the agent's name in the metadata.
        extra: more metadata, JSON-ready values by key: `training_commit`, `scores`.

    Returns:
        The paths by file name.
    """
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    metadata = {**describe(agent, name), **{k: _text(v) for k, v in (extra or {}).items()}}
    if keras.backend.backend() == "tensorflow" and agent.compute_dtype == "float32":
        _write(agent, directory, metadata)
    else:
        _on_tensorflow(agent, directory, metadata)
    return {file: directory / file for file in FILES}


def describe(agent, name: str) -> dict[str, str]:
    """The metadata that the contract requires, as text."""
    a, run = agent.architecture, agent.run
    found = _observation_bounds(agent)
    low, high = a.bounds()
    scale, offset = a.scaling()
    layout, position = [], 0
    for part, size in a.state_layout:
        layout.append({"part": part, "offset": position, "size": size})
        position += size
    values = {
        "contract_version": contract.CONTRACT_VERSION,
        "agent": name,
        "kind": a.kind,
        "env_id": run.env_id or "",
        "action_head": a.action_head,
        "env_kwargs": run.env_kwargs,
        "observation_low": _bounds(found[0]),
        "observation_high": _bounds(found[1]),
        "action_low": _bounds(low),
        "action_high": _bounds(high),
        "action_scale": scale.tolist(),
        "action_offset": offset.tolist(),
        "action_period": [a.action_period] * a.action_size,
        **({} if a.action_sizes is None else {"action_sizes": a.action_sizes}),
        "signal_size": a.signal_units if a.kind == "nmn" else 0,  # of the output z
        "state_layout": layout,
        "initial_state": [0.0] * a.state_size,
    }
    return {key: _text(value) for key, value in values.items()}


def golden_steps(agent, metadata: dict[str, str]) -> dict[str, np.ndarray]:
    """Inputs and outputs of chained steps, `(200, GOLDEN_BATCH, ...)` by the contract's names.

    Observations, rewards and sampled actions are random and cover what the agent meets while it learns. Bounds of
    observations come from the metadata: the process on TensorFlow may not know the environment.
    """
    generator = np.random.default_rng(0)
    bounds = [json.loads(metadata[f"observation_{end}"]) for end in ("low", "high")]
    low, high = _golden_range(*bounds)
    if agent.actor.standardise is not None:
        low, high = _seen_range(agent.actor.standardise, *bounds)
    state = agent.initial_state(GOLDEN_BATCH)
    action = np.zeros((GOLDEN_BATCH, agent.architecture.action_size), "float32")
    reward = np.zeros((GOLDEN_BATCH, 1), "float32")
    rows = []
    for _ in range(contract.GOLDEN_STEPS):
        observation = generator.uniform(low, high, (GOLDEN_BATCH, len(low))).astype("float32")
        inputs = dict(zip(contract.INPUTS, (observation, action, reward, state), strict=True))
        outputs = agent.step(*inputs.values())
        rows.append({**inputs, **outputs})
        action, state = agent.sample(outputs, generator), outputs["state_out"]
        reward = generator.uniform(-10.0, 10.0, reward.shape).astype("float32")
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def _golden_range(low, high):
    """Between what observations are drawn: within the bounds, near 0 if they allow it."""
    low, high = (
        np.array([sign * np.inf if b is None else b for b in bounds]) for sign, bounds in ((-1, low), (1, high))
    )
    far = (low >= 5.0) | (high <= -5.0)  # no number near 0 is within
    near = np.clip(low, -5.0, 5.0), np.clip(high, -5.0, 5.0)
    there = np.where(np.isfinite(low), low, high - 10.0), np.where(np.isfinite(high), high, low + 10.0)
    return np.where(far, there[0], near[0]), np.where(far, there[1], near[1])


def _seen_range(standardise, low, high):
    """Three deviations to both sides of the mean of what was seen in training, within the bounds."""
    mean, deviation = np.asarray(standardise.mean), 1.0 / np.asarray(standardise.factor)
    low, high = ([sign * np.inf if b is None else b for b in bounds] for sign, bounds in ((-1, low), (1, high)))
    return np.clip(mean - 3.0 * deviation, low, high), np.clip(mean + 3.0 * deviation, low, high)


def _write(agent, directory, metadata):
    """Write the files; on the TensorFlow backend."""
    model = canonicalise(_convert(agent), metadata)
    (directory / "policy.onnx").write_bytes(model.SerializeToString(deterministic=True))
    with open(directory / "golden.npz", "wb") as file:
        np.savez_compressed(file, **golden_steps(agent, metadata))  # type: ignore[arg-type]


def _on_tensorflow(agent, directory, metadata):
    """Have the files written by a process on the TensorFlow backend, of float32.

    Golden steps too: JAX's rounding on a CPU is several times larger, and the angle of a short vector amplifies it.
    """
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
    with tempfile.TemporaryDirectory() as saved:
        agent.save_run(saved)
        (Path(saved) / "metadata.json").write_text(json.dumps(metadata))
        command = [sys.executable, "-m", "nmn_keras.export", saved, str(directory)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"Export on the TensorFlow backend failed:\n{done.stderr[-2000:]}")


def _convert(agent) -> onnx.ModelProto:
    """The step as tf2onnx writes it, through Keras's own export."""
    a = agent.architecture
    sizes = (a.observation_size, a.action_size, 1, a.state_size)
    step = StepModel(agent)
    step([np.zeros((1, size), "float32") for size in sizes])
    signature = [
        keras.InputSpec(shape=(None, size), dtype="float32", name=name)
        for name, size in zip(contract.INPUTS, sizes, strict=True)
    ]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "policy.onnx"
        with warnings.catch_warnings():
            # Keras asks numpy for `np.object` to see whether tf2onnx needs it.
            warnings.filterwarnings("ignore", "In the future `np.object`", FutureWarning)
            step.export(path, format="onnx", input_signature=[signature], verbose=False)
        return onnx.load(path)


class StepModel(keras.Model):
    """One step as a model of a list of inputs, which is what Keras exports."""

    def __init__(self, agent):
        super().__init__()
        self._graph = StepGraph(agent.actor)

    def call(self, inputs):
        """The contract's outputs of the contract's inputs, in order."""
        return self._graph(*inputs)


def canonicalise(model: onnx.ModelProto, metadata: dict[str, str]) -> onnx.ModelProto:
    """Give a converted model names that do not change from one export to the next, and its metadata.

    Raises:
        ValueError: if inputs or outputs are not the contract's.
    """
    graph = model.graph
    inputs = [value.name for value in graph.input]
    outputs = [value.name for value in graph.output]
    required = contract.outputs_of(metadata["action_head"])
    order = (*required, *contract.OPTIONAL_OUTPUTS)
    if sorted(inputs) != sorted(contract.INPUTS) or not {*required} <= {*outputs} <= {*order}:
        raise ValueError(
            f"The converted graph does not follow the contract {contract.INPUTS} -> {required}. "
            f"Received: {inputs} -> {outputs}"
        )
    outputs.sort(key=order.index)
    _order(graph, outputs)
    _rename(graph, {*inputs, *outputs})
    for values, names in ((graph.input, contract.INPUTS), (graph.output, outputs)):
        ordered = sorted(values, key=lambda value: names.index(value.name))
        for value in ordered:
            value.type.tensor_type.shape.dim[0].dim_param = "batch"
        del values[:]
        values.extend(ordered)
    _drop_unused_opsets(model)
    del graph.value_info[:]
    del model.metadata_props[:]
    graph.name, graph.doc_string = metadata["agent"], ""
    model.producer_name, model.producer_version, model.doc_string = "nmn_keras", "", ""
    for key in sorted(metadata):
        model.metadata_props.add(key=key, value=metadata[key])
    try:
        onnx.checker.check_model(model, full_check=True)
    except onnx.checker.ValidationError as error:
        raise ValueError(
            "The step cannot be written in ONNX's own operators, as the contract asks: another `activation` may be. "
            f"Received: {str(error).splitlines()[0]}"
        ) from error
    return model


def _drop_unused_opsets(model):
    """The converter names more operator sets than it uses, and a small runtime may know only the default one."""
    used = {node.domain for node in model.graph.node}
    opsets = [opset for opset in model.opset_import if opset.domain in used]
    del model.opset_import[:]
    model.opset_import.extend(opsets)


def _order(graph, outputs):
    """Order nodes by a walk from the outputs, since a converter's topological order changes from run to run."""
    producers = {name: node for node in graph.node for name in node.output}
    ordered = []

    def visit(name):
        node = producers.get(name)
        if node is not None:
            for output in node.output:
                del producers[output]
            for source in node.input:
                visit(source)
            ordered.append(node)

    for name in outputs:
        visit(name)
    ordered = [copy.deepcopy(node) for node in ordered]
    del graph.node[:]
    graph.node.extend(ordered)


def _rename(graph, kept):
    """Number tensors and nodes in the order of the graph; inputs and outputs keep their names."""
    names = {"": "", **{name: name for name in kept}}

    def canonical(name):
        return names.setdefault(name, f"t{len(names)}")

    for constant in sorted(graph.initializer, key=lambda c: _first_use(graph, c.name)):
        constant.name = canonical(constant.name)
    for i, node in enumerate(graph.node):
        node.name, node.doc_string = f"n{i}_{node.op_type}", ""
        node.input[:] = [canonical(name) for name in node.input]
        node.output[:] = [canonical(name) for name in node.output]
    ordered = sorted(graph.initializer, key=lambda constant: int(constant.name[1:]))
    del graph.initializer[:]
    graph.initializer.extend(ordered)


def _first_use(graph, name):
    uses = ((i, j) for i, node in enumerate(graph.node) for j, x in enumerate(node.input) if x == name)
    return next(uses, (len(graph.node), 0))


def _observation_bounds(agent):
    """Bounds of the training environment's observation; infinite where there is no environment to ask."""
    if agent.run.env_id is None:
        unbounded = np.full(agent.architecture.observation_size, np.inf, "float32")
        return -unbounded, unbounded
    env = envs.make(agent.run.env_id, **agent.run.env_kwargs)
    try:
        found = spaces.describe(env)
    finally:
        env.close()
    return found.observation_low, found.observation_high


def _bounds(values):
    return [float(value) if np.isfinite(value) else None for value in values]


def _text(value):
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _main(saved, directory):
    from nmn_keras.actor_critic import ActorCritic

    metadata = json.loads((Path(saved) / "metadata.json").read_text())
    _write(ActorCritic.load(saved), Path(directory), metadata)


if __name__ == "__main__":
    _main(*sys.argv[1:])
