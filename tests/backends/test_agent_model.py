"""Every public verb of `keras.Model`, on an agent: it works, or says what to use instead and changes nothing."""

import copy
import json
import pickle
import subprocess
import sys

import keras
import numpy as np
import pytest
from tiny_agents import assert_identical, snapshot, tiny_agent

from nmn_keras import ActorCritic
from nmn_keras.updates import TRAINING_BACKENDS

pytestmark = pytest.mark.skipif(
    keras.backend.backend() not in TRAINING_BACKENDS, reason="agents train and act on TensorFlow and JAX alone"
)

INSTEAD = {
    "train_on_batch": r"`fit\(env\)` trains",
    "make_train_function": r"`fit\(env\)` trains",
    "test_on_batch": r"`evaluate\(env\)` plays",
    "test_step": r"`evaluate\(env\)` plays",
    "make_test_function": r"`evaluate\(env\)` plays",
    "compute_loss": "losses are the recipe's",
    "stateless_compute_loss": "losses are the recipe's",
    "add_loss": "losses are the recipe's",
    "quantize": "quantize_dynamic",
}


class Mine(ActorCritic):
    """A subclass that Keras does not know."""


@pytest.fixture(scope="module")
def trained():
    """An agent in the middle of its run, with batches kept for the critic."""
    agent = tiny_agent("paper")
    agent.compile(keras.optimizers.SGD(0.01, momentum=0.5), "rmsprop")
    agent.fit("b1", episodes=12, verbose=0)
    assert agent.run.buffer
    return agent


@pytest.fixture(scope="module")
def following(trained, tmp_path_factory):
    """All that its next update gives."""
    directory = tmp_path_factory.mktemp("following")
    trained.save(directory / "run")
    return after_the_next_update(ActorCritic.load(directory / "run"))


def after_the_next_update(agent):
    agent.fit(resume=True, episodes=16, verbose=0)
    return snapshot(agent)


def one_step(agent, n=3):
    """Inputs of a step by the contract's names."""
    generator = np.random.default_rng(0)
    sizes = {"observation": 1, "prev_action": 1, "prev_reward": 1, "state_in": agent.architecture.state_size}
    return {name: generator.normal(size=(n, size)).astype("float32") for name, size in sizes.items()}


def saved(agent, directory):
    path = directory / "new" / "agent.keras"
    agent.save(path)
    assert [*path.parent.iterdir()] == [path] and path.is_file()
    return path


WAYS = {
    "load_model": lambda agent, directory: keras.models.load_model(saved(agent, directory)),
    "load": lambda agent, directory: ActorCritic.load(saved(agent, directory)),
    "deepcopy": lambda agent, directory: copy.deepcopy(agent),
    "copy": lambda agent, directory: copy.copy(agent),
    "pickle": lambda agent, directory: pickle.loads(pickle.dumps(agent)),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_copy_is_the_agent_and_shares_nothing_with_it(trained, tmp_path, way):
    before = snapshot(trained)
    other = WAYS[way](trained, tmp_path)
    assert type(other) is ActorCritic and other.get_config() == trained.get_config()
    assert (other.architecture, other.recipe) == (trained.architecture, trained.recipe)
    assert_identical(before, snapshot(other))
    inputs = one_step(trained).values()
    np.testing.assert_array_equal(other.act(*inputs)[0], trained.act(*inputs)[0])
    for variable in other.variables:
        variable.assign(variable + 1.0)
    assert_identical(before, snapshot(trained))  # they share nothing


@pytest.mark.parametrize("way", ["load_model", "deepcopy"])
def test_the_next_update_of_a_copy_is_the_agents(trained, following, tmp_path, way):
    assert_identical(following, after_the_next_update(WAYS[way](trained, tmp_path)))


def test_a_subclass_and_an_agent_that_was_never_compiled_are_copied(tmp_path):
    plain = tiny_agent()
    agent = Mine(plain.architecture, plain.recipe, seed=5)
    agent.actor.variables[0].assign(agent.actor.variables[0] + 1.0)
    for other in (copy.deepcopy(agent), pickle.loads(pickle.dumps(agent))):
        assert type(other) is Mine and not other.compiled
        assert_identical(snapshot(agent), snapshot(other))
    agent.save(tmp_path / "a.keras")
    assert type(Mine.load(tmp_path / "a.keras")) is Mine


def test_an_archive_opens_in_another_process_and_without_its_optimisers(trained, tmp_path):
    path = saved(trained, tmp_path)
    code = "import nmn_keras.actor_critic, keras, sys; print(keras.models.load_model(sys.argv[1]).run.update)"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip().splitlines()[-1] == "3"
    bare = keras.models.load_model(path, compile=False)
    assert not bare.compiled
    for ours, theirs in zip(bare.get_weights(), trained.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_clone_and_an_agent_of_its_json_begin_anew(trained):
    for other in (keras.models.clone_model(trained), keras.models.model_from_json(trained.to_json())):
        assert other.get_config() == trained.get_config()
        assert [type(o) for o in other.optimizers] == [type(o) for o in trained.optimizers]
        for ours, fresh in zip(other.get_weights(), tiny_agent("paper").get_weights(), strict=True):
            np.testing.assert_array_equal(ours, fresh)
        assert other.run.update == 0


def test_saving_is_refused_before_anything_is_written(trained, tmp_path):
    (tmp_path / "folder.keras").mkdir()
    (tmp_path / "file.keras").write_text("mine")
    for name in ("a.h5", "a.hdf5", "a.onnx", "hf://me/agent"):
        with pytest.raises(ValueError, match=f"archive whose name ends in '.keras'.*Received: filepath='.*{name}'"):
            trained.save(name if "://" in name else tmp_path / name)
    with pytest.raises(ValueError, match="zipped=False"):
        trained.save(tmp_path / "a.keras", zipped=False)
    with pytest.raises(FileExistsError, match="is a directory, and an archive is a file"):
        trained.save(tmp_path / "folder.keras")
    with pytest.raises(FileExistsError, match="exists; nothing was written"):
        trained.save(tmp_path / "file.keras", overwrite=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file.keras", "folder.keras"]
    assert (tmp_path / "file.keras").read_text() == "mine"


def test_a_run_directory_may_have_any_name(tmp_path):
    agent = tiny_agent()
    agent.fit("b1", episodes=4, verbose=0, run_dir=tmp_path / "run.keras")
    assert ActorCritic.load(tmp_path / "run.keras").run.update == 1


def test_keras_saves_the_agent_while_it_trains(tmp_path):
    agent, path = tiny_agent(), tmp_path / "last.keras"
    agent.fit("b1", episodes=8, verbose=0, callbacks=[keras.callbacks.ModelCheckpoint(path)])
    assert_identical(snapshot(agent), snapshot(keras.models.load_model(path)))


def test_predict_is_the_contracts_step(trained):
    inputs = one_step(trained)
    expected = trained.step(*inputs.values())
    for outputs in (
        trained.predict(inputs, batch_size=2, verbose=0),
        trained.predict_on_batch(inputs),
        trained(inputs),
    ):
        assert outputs.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_allclose(np.asarray(outputs[name]), value, rtol=1e-5, atol=1e-6, err_msg=name)
    symbols = {name: keras.Input((x.shape[1],), name=name) for name, x in inputs.items()}
    outputs = keras.Model(symbols, trained(symbols)).predict(inputs, verbose=0)
    np.testing.assert_allclose(outputs["action"], expected["action"], rtol=1e-5, atol=1e-6)


def test_what_is_not_a_step_is_refused_and_the_agent_stays_whole(trained):
    before, step = snapshot(trained), one_step(trained)
    wrong = {**step, "observation": np.zeros((3, 2), "float32")}
    for bad in (step["observation"], {"observation": step["observation"]}, wrong):
        for call in (lambda x: trained.predict(x, verbose=0), trained.predict_on_batch, trained):
            with pytest.raises(ValueError, match=r"Accepted is a dict of observation \(N, 1\)"):
                call(bad)
            assert_identical(before, snapshot(trained))


@pytest.mark.parametrize("verb", INSTEAD)
def test_verbs_of_batches_say_what_to_use_instead(trained, verb):
    before = snapshot(trained)
    with pytest.raises(NotImplementedError, match=INSTEAD[verb]):
        getattr(trained, verb)("int8" if verb == "quantize" else np.zeros((2, 1)))
    assert_identical(before, snapshot(trained))


def test_arrays_and_losses_are_refused(trained):
    before, data = snapshot(trained), np.zeros((4, 1))
    for call in (trained.fit, trained.evaluate):
        with pytest.raises(TypeError, match=r"learns from an environment.*Received: ndarray"):
            call(data, data)
    with pytest.raises(TypeError, match=r"losses are its recipe's.*Received: optimizer, loss"):
        trained.compile(optimizer="adam", loss="mse")
    assert_identical(before, snapshot(trained))


def test_the_state_tree_has_both_optimisers(trained):
    tree = trained.get_state_tree("numpy_array")
    kept = [array for array in keras.tree.flatten(tree["optimizer_variables"])]
    assert len(kept) == sum(len(optimizer.variables) for optimizer in trained.optimizers)
    other = copy.deepcopy(trained)
    for variable in [*other.variables, *(v for o in other.optimizers for v in o.variables)]:
        variable.assign(np.zeros(variable.shape, variable.dtype))
    other.set_state_tree(tree)
    assert_identical(snapshot(trained), snapshot(other))
    assert other.optimizer is other.optimizers.actor


def test_the_rest_tells_of_the_agent(trained, capsys):
    trained.summary()
    assert "actor" in (shown := capsys.readouterr().out) and "critic" in shown
    assert [layer.name for layer in trained.layers] == ["actor", "critic"]
    assert trained.get_layer("critic") is trained.critic
    assert trained.count_params() == sum(weight.size for weight in trained.get_weights())
    assert (trained.metrics, trained.metrics_names, trained.losses, trained.loss) == ([], [], [], None)
    assert json.loads(trained.to_json())["registered_name"] == "nmn_keras>ActorCritic"
    other = copy.deepcopy(trained)
    other.set_weights([weight + 1.0 for weight in trained.get_weights()])
    for ours, theirs in zip(other.get_weights(), trained.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs + 1.0)
