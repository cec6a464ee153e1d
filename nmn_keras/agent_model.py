"""What `keras.Model` offers, given its meaning for an agent: archives, copies, predictions, exports; and refusals."""

import contextlib
import dataclasses
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np

from nmn_keras import contract
from nmn_keras.optimizers import Optimizers, optimizer_config
from nmn_keras.run import Run

ARCHIVE = ".keras"
"""How the name of Keras's archive ends; every other name is a run directory's."""

_RUN, _ARRAYS = "run.json", "training.npz"
"""The assets of an archive: where the run stands. Weights and optimisers are Keras's own part of it."""

_OF_BATCHES = {
    "train_on_batch": "`fit(env)` trains, and `train_step(rollout)` makes one update",
    "make_train_function": "`fit(env)` trains, and `train_step(rollout)` makes one update",
    "test_on_batch": "`evaluate(env)` plays test episodes",
    "test_step": "`evaluate(env)` plays test episodes",
    "make_test_function": "`evaluate(env)` plays test episodes",
    "compute_loss": "its losses are the recipe's; `fit(env)` logs them",
    "stateless_compute_loss": "its losses are the recipe's; `fit(env)` logs them",
    "add_loss": "its losses are the recipe's; `fit(env)` logs them",
}


class AgentModel(keras.Model):
    """A `keras.Model` whose inputs are one step of an agent, and which learns from environments instead of batches.

    `call` is the step of the ONNX contract, so that `predict` takes and gives arrays by the contract's names. An
    archive (`save("a.keras")`), a copy and a pickle hold all that a run needs to go on: weights, optimisers, the
    recipe's adapted numbers and the critic's batches.
    """

    architecture: Any
    recipe: Any
    run: Run
    optimizers: Any

    def __init__(self, **kwargs):
        # Under a mixed precision the layers alone choose theirs: what an agent observes stays float32.
        super().__init__(**{"autocast": False, **kwargs})

    # One step

    def call(self, inputs):
        """One step: the ONNX contract's outputs of its inputs, both dicts by name.

        Args:
            inputs: `observation (N, O)`, `prev_action (N, A)`, `prev_reward (N, 1)`, `state_in (N, S)`.

        Raises:
            ValueError: for anything else.
        """
        return self.contract_outputs(*self._inputs(inputs))

    def predict(self, x, *args, **kwargs):
        """Outputs of one step for arrays by the contract's names; see `call` and Keras."""
        with self._weights_kept():
            return super().predict(x, *args, **kwargs)

    def predict_on_batch(self, x):
        """The same for a single batch."""
        with self._weights_kept():
            return super().predict_on_batch(x)

    @contextlib.contextmanager
    def _weights_kept(self):
        """Bring weights back after an error: on JAX, Keras takes them out of their variables while it predicts."""
        values = [variable.value for variable in self.variables]
        try:
            yield
        except BaseException:
            _assign(self.variables, values)
            raise

    def contract_outputs(self, observation, prev_action, prev_reward, state):
        """The graph behind `call`."""
        raise NotImplementedError

    def _sizes(self):
        """Lengths of the contract's inputs."""
        a = self.architecture
        return dict(zip(contract.INPUTS, (a.observation_size, a.action_size, 1, a.state_size), strict=True))

    def _inputs(self, inputs):
        sizes = self._sizes()
        found: Any = type(inputs).__name__
        if isinstance(inputs, Mapping):
            found = {name: tuple(getattr(x, "shape", ())) for name, x in inputs.items()}
            if found.keys() == sizes.keys() and all(len(s) == 2 and s[1] == sizes[name] for name, s in found.items()):
                return [keras.ops.cast(inputs[name], "float32") for name in sizes]
        accepted = ", ".join(f"{name} (N, {size})" for name, size in sizes.items())
        raise ValueError(
            f"An agent is called with one step of its memory and senses. Accepted is a dict of {accepted}; zeros are "
            "an episode's start (`initial_state`). To play, use `act`, `evaluate(env)` or `fit(env)`. "
            f"Received: {found}"
        )

    # What learns from batches

    def quantize(self, *args, **kwargs):
        """Refused: an agent goes on learning, and its memory carries every rounding on."""
        raise NotImplementedError(
            "An agent is not quantised in place. Write it by `export(path, format='onnx')` and quantise the file, for "
            "example with onnxruntime.quantization.quantize_dynamic; or compute in low precision while training, under "
            f"keras.config.set_dtype_policy('mixed_bfloat16'). Received: quantize{args or tuple(kwargs.values())}"
        )

    def get_state_tree(self, value_format="backend_tensor"):
        """Weights and the variables of both optimisers, as nested dicts; see Keras."""
        with self._all_optimizer_variables():
            return super().get_state_tree(value_format)

    def set_state_tree(self, state_tree):
        """The inverse of `get_state_tree`."""
        with self._all_optimizer_variables():
            super().set_state_tree(state_tree)

    @contextlib.contextmanager
    def _all_optimizer_variables(self):
        """Let what Keras takes for the one optimiser have the variables of both."""
        own = getattr(self, "optimizer", None)
        variables = [variable for optimizer in self.optimizers for variable in optimizer.variables]
        object.__setattr__(self, "optimizer", SimpleNamespace(variables=variables))
        try:
            yield
        finally:
            object.__setattr__(self, "optimizer", own)

    # Archives

    def save_archive(self, filepath, overwrite: bool = True) -> None:
        """Write a `.keras` archive, whole or not at all; `keras.saving.load_model` reads it.

        Raises:
            FileExistsError: if it is there and must not be overwritten, or is a directory.
        """
        path = Path(filepath)
        if path.is_dir():
            raise FileExistsError(
                f"{str(path)!r} is a directory, and an archive is a file; nothing was written. Give another name, or "
                f"one that does not end in {ARCHIVE} to write a run directory."
            )
        if path.exists() and not overwrite:
            raise FileExistsError(f"{str(path)!r} exists; nothing was written. Give another name, or `overwrite=True`.")
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".saving-") as directory:
            written = Path(directory) / f"agent{ARCHIVE}"
            keras.saving.save_model(self, written)
            os.replace(written, path)

    def save_assets(self, directory):
        """Write where the run stands; Keras calls it for an archive."""
        (Path(directory) / _RUN).write_text(json.dumps(self.run.state()))
        with open(Path(directory) / _ARRAYS, "wb") as file:
            np.savez(file, **self.run.arrays())  # type: ignore[arg-type]

    def load_assets(self, directory):
        """The inverse of `save_assets`."""
        with np.load(Path(directory) / _ARRAYS) as file:
            self.run = Run.restore(json.loads((Path(directory) / _RUN).read_text()), dict(file))

    def get_compile_config(self):
        """Both optimisers, or nothing before `compile`."""
        return {"optimizers": self.get_config()["optimizers"]} if self.compiled else {}

    def compile_from_config(self, config):
        """Compile with the optimisers of `get_compile_config`."""
        self._restore_optimizers(config["optimizers"])

    def _restore_optimizers(self, configs):
        raise NotImplementedError

    # Copies

    def __reduce__(self):
        """What `copy` and `pickle` make an agent of: the class itself, so that it need not be registered with Keras."""
        rates = (o.get_config()["learning_rate"] for o in self.optimizers)
        optimizers = [
            (type(o), optimizer_config(o, rate)["config"], _values(o.variables))
            for o, rate in zip(self.optimizers, rates, strict=True)
        ]
        buffer = [{name: np.asarray(x) for name, x in batch.items()} for batch in self.run.buffer]
        run = dataclasses.replace(self.run, env_kwargs=dict(self.run.env_kwargs), buffer=buffer)
        parts = (self.get_config(), self.dtype_policy.name, _values(self.variables), optimizers, run)
        return _revive, (type(self), *parts)

    # Export

    def export(self, filepath, format="tf_saved_model", verbose=None, input_signature=None, **kwargs):
        """Write one step with explicit memory for inference; inputs and outputs are those of the ONNX contract.

        Args:
            filepath: the file ("onnx") or the directory ("tf_saved_model").
            format: "onnx", as `nmn export` writes `policy.onnx`; or "tf_saved_model".
            verbose: accepted as in Keras; nothing is printed unless it is set.
            input_signature: refused, since the contract is fixed.
            **kwargs: refused.

        Raises:
            ValueError: for another format or a signature; nothing is written.
            FileExistsError: if something else is at `filepath`.
        """
        if format not in ("onnx", "tf_saved_model"):
            raise ValueError(
                "Unknown `format`. Accepted are 'onnx' and 'tf_saved_model'; converters of other runtimes read either. "
                f"Received: format={format!r}"
            )
        if input_signature is not None or kwargs:
            raise ValueError(
                "The inputs of an exported agent are the ONNX contract's. Accepted are `filepath`, `format` and "
                f"`verbose`. Received: {', '.join([*kwargs] or ['input_signature'])}"
            )
        path = Path(filepath)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".exporting-") as directory:
            if format == "onnx":
                self._export_onnx(path, Path(directory))
            else:
                self._export_saved_model(path, Path(directory) / "model", bool(verbose))

    def _export_onnx(self, path, directory):
        from nmn_keras.export import export_agent  # which needs TensorFlow and onnx

        if path.is_dir():
            raise FileExistsError(
                f"{str(path)!r} is a directory, and an ONNX file is a file; nothing was written. Give another name; "
                "`nmn_keras.export.export_agent` writes a directory, with golden steps."
            )
        os.replace(export_agent(self, directory, self.name)["policy.onnx"], path)

    def _export_saved_model(self, path, directory, verbose):
        if path.exists() and not (path / "saved_model.pb").exists():
            if not path.is_dir() or any(path.iterdir()):
                raise FileExistsError(f"{str(path)!r} exists and is no SavedModel; nothing was written.")
        signature = {
            name: keras.InputSpec(shape=(None, size), dtype="float32", name=name)
            for name, size in self._sizes().items()
        }
        super().export(directory, format="tf_saved_model", verbose=verbose, input_signature=[signature])
        if path.exists():
            shutil.rmtree(path)
        os.replace(directory, path)


def _refusal(name, instead):
    def refuse(self, *args, **kwargs):
        raise NotImplementedError(f"`{name}` is for models that learn from batches, and an agent does not: {instead}.")

    refuse.__name__ = name
    refuse.__doc__ = f"Refused: {instead}."
    return refuse


for _name, _instead in _OF_BATCHES.items():
    setattr(AgentModel, _name, _refusal(_name, _instead))


def refuse_data(env: Any) -> None:
    """Raise `TypeError` for arrays, which other models learn from, in the place of an environment."""
    if isinstance(env, list | tuple | dict) or hasattr(env, "__array__"):
        raise TypeError(
            "An agent learns from an environment and is tested in one, not on arrays. Accepted is a short name, a "
            "Gymnasium id, a spec, an environment or a factory; `predict` takes arrays. "
            f"Received: {type(env).__name__}"
        )


def _values(variables):
    return [np.array(np.asarray(variable)) for variable in variables]


def _revive(cls, config, policy, weights, optimizers, run):
    """The agent of `AgentModel.__reduce__`."""
    present = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        agent = cls.from_config(config)
    finally:
        keras.config.set_dtype_policy(present)
    _assign(agent.variables, weights)
    if optimizers:
        agent._compile(Optimizers(*(optimizer.from_config(config) for optimizer, config, _ in optimizers)))
        for optimizer, (_, _, values) in zip(agent.optimizers, optimizers, strict=True):
            _assign(optimizer.variables, values)
    agent.run = run
    return agent


def _assign(variables, values):
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
