import json
import re
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from onnx_agents import TinyAgent, write_zoo

from nmn_keras import envs, zoo

INPUTS = ("observation", "prev_action", "prev_reward", "state_in")


@pytest.fixture
def tiny_zoo(tmp_path):
    return write_zoo(tmp_path / "zoo", TinyAgent("tiny"), TinyAgent("pair", action=2))


def change_index(directory, change):
    index = json.loads((directory / "index.json").read_text())
    change(index)
    (directory / "index.json").write_text(json.dumps(index))


def test_reading_a_zoo(tiny_zoo):
    assert zoo.list_agents(tiny_zoo) == ["pair", "tiny"]
    card = zoo.card("pair", zoo=tiny_zoo)
    assert card["env_id"] == "nmn_keras/MovingTarget-v0"
    path = zoo.path("pair", "policy.onnx", zoo=tiny_zoo)
    assert path == tiny_zoo / "pair" / "policy.onnx"
    agent = zoo.load("pair", runtime="onnx", zoo=tiny_zoo)
    assert (agent.name, agent.action_size) == ("pair", 2)
    assert agent.sha256 == card["files"]["policy.onnx"]["sha256"]


def test_the_environment_variable_chooses_a_zoo(tiny_zoo, tmp_path, monkeypatch):
    assert zoo.directory() != tiny_zoo
    monkeypatch.setenv("NMN_ZOO", str(tiny_zoo))
    assert zoo.directory() == tiny_zoo
    assert zoo.list_agents() == ["pair", "tiny"]
    assert zoo.load("tiny", runtime="onnx").name == "tiny"
    other = write_zoo(tmp_path / "other", TinyAgent("alone"))
    assert zoo.list_agents(other) == ["alone"]  # an argument goes before the variable


@pytest.mark.parametrize("name", ["b9-nmn", "", "../zoo/tiny", "tiny/", "/etc", "TINY"])
def test_an_unknown_name_lists_the_known_ones(tiny_zoo, name):
    message = re.escape(f"Unknown agent. Known: pair, tiny. Received: {name!r}")
    with pytest.raises(ValueError, match=message):
        zoo.card(name, zoo=tiny_zoo)
    with pytest.raises(ValueError, match=message):
        zoo.load(name, runtime="onnx", zoo=tiny_zoo)


def test_unknown_files_and_runtimes_list_the_known_ones(tiny_zoo):
    with pytest.raises(ValueError, match=r"Known: policy\.onnx\. Received: '\.\./index\.json'"):
        zoo.path("tiny", "../index.json", zoo=tiny_zoo)
    with pytest.raises(ValueError, match=r"Known: keras, onnx\. Received: 'torch'"):
        zoo.load("tiny", runtime="torch", zoo=tiny_zoo)


def test_an_altered_file_is_refused(tiny_zoo):
    path = tiny_zoo / "tiny" / "policy.onnx"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    for use in (
        lambda: zoo.path("tiny", "policy.onnx", tiny_zoo),
        lambda: zoo.load("tiny", "onnx", tiny_zoo),
        lambda: zoo.load("tiny", "keras", tiny_zoo),
    ):
        with pytest.raises(ValueError, match=r"not the file that was published.*sha256 [0-9a-f]{64}"):
            use()
    assert zoo.load("pair", "onnx", tiny_zoo).name == "pair"
    path.unlink()
    with pytest.raises(FileNotFoundError, match="A published file is missing"):
        zoo.load("tiny", "onnx", tiny_zoo)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda index: index.pop("agents"), "damaged"),
        (lambda index: index.update(agents=["tiny"]), "damaged"),
        (lambda index: index["agents"]["tiny"].pop("files"), "damaged"),
        (lambda index: index["agents"]["tiny"].update(files=["policy.onnx"]), "damaged"),
        (lambda index: index.update(version=2), r"Accepted is 1. Received: 2"),
        (
            lambda index: index["agents"].update({"../x": index["agents"]["tiny"]}),
            r"outside of the zoo.*\.\./x",
        ),
        (
            lambda index: index["agents"]["tiny"]["files"].update({"/etc/passwd": {}}),
            r"outside of the zoo.*/etc/passwd",
        ),
        (lambda index: index["agents"]["tiny"]["files"].update({"..": {}}), "outside of the zoo"),
    ],
)
def test_a_spoilt_index_is_refused(tiny_zoo, change, reason):
    change_index(tiny_zoo, change)
    with pytest.raises(ValueError, match=reason):
        zoo.list_agents(tiny_zoo)


def test_no_zoo_and_an_empty_zoo_say_so(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no zoo here.*nowhere"):
        zoo.list_agents(tmp_path / "nowhere")
    empty = write_zoo(tmp_path / "empty")
    assert zoo.list_agents(empty) == []
    with pytest.raises(ValueError, match="none, the zoo is empty"):
        zoo.load("tiny", zoo=empty)


def test_stepping_an_agent_needs_neither_keras_nor_gymnasium(tiny_zoo):
    script = (
        "import sys; from nmn_keras import zoo;"
        f"agent = zoo.load('tiny', 'onnx', {str(tiny_zoo)!r});"
        "agent.act([[1.0]], [[0.0]], [[0.0]], agent.initial_state(1));"
        "heavy = {'keras', 'tensorflow', 'jax', 'torch', 'gymnasium', 'onnx', 'matplotlib'};"
        "print(heavy & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("set()\n", "")


PUBLISHED = zoo.list_agents()


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_files_are_whole(name):
    files = zoo.card(name)["files"]
    assert {"policy.onnx", "golden.npz", "agent.weights.h5", "config.json"} <= set(files)
    for file, entry in files.items():
        assert zoo.path(name, file).stat().st_size == entry["bytes"]
    lying = {path.name for path in (zoo.directory() / name).iterdir()}
    assert lying == set(files)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_metadata_fits_the_index_and_the_environment(name):
    agent, card = zoo.load(name, runtime="onnx"), zoo.card(name)
    assert (agent.name, agent.kind) == (name, card["kind"])
    assert (agent.env_id, agent.env_kwargs) == (card["env_id"], card["env_kwargs"])
    env = gymnasium.make(envs.resolve(agent.env_id), **agent.env_kwargs)
    np.testing.assert_array_equal(agent.observation_low, env.observation_space.low)
    np.testing.assert_array_equal(agent.observation_high, env.observation_space.high)
    np.testing.assert_array_equal(agent.action_low, env.action_space.low)
    np.testing.assert_array_equal(agent.action_high, env.action_space.high)
    ends = [part["offset"] + part["size"] for part in agent.state_layout]
    assert [part["offset"] for part in agent.state_layout] == [0, *ends[:-1]]
    assert ends[-1] == agent.state_size
    assert not agent.initial_state(2).any()


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_agents_replay_their_golden_steps(name):
    agent = zoo.load(name, runtime="onnx")
    golden = np.load(zoo.path(name, "golden.npz"))
    outputs = set(golden.files) - set(INPUTS)
    assert len(golden["observation"]) == 200 and {"action", "state_out"} <= outputs
    np.testing.assert_array_equal(golden["state_in"][0], agent.initial_state(len(golden["state_in"][0])))
    state = golden["state_in"][0]
    for step in range(200):
        inputs = [golden[key][step] for key in INPUTS[:-1]]
        alone, chained = (agent.step(*inputs, start) for start in (golden["state_in"][step], state))
        assert set(alone) == outputs
        for key in outputs:
            scale = max(1.0, np.abs(golden[key]).max())
            np.testing.assert_allclose(alone[key], golden[key][step], rtol=0, atol=1e-5 * scale)
            np.testing.assert_allclose(chained[key], golden[key][step], rtol=0, atol=1e-4 * scale)
        state = chained["state_out"]
    assert np.ptp(golden["action"]) > 0.1


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_agents_are_deterministic(name):
    golden = np.load(zoo.path(name, "golden.npz"))
    inputs = [golden[key][50] for key in INPUTS]
    first, second = (zoo.load(name, runtime="onnx").step(*inputs) for _ in range(2))
    for key, value in first.items():
        np.testing.assert_array_equal(value, second[key])
    alone = zoo.load(name, runtime="onnx").step(*(array[-1:] for array in inputs))
    for key, value in first.items():
        np.testing.assert_allclose(alone[key], value[-1:], rtol=0, atol=1e-5 * np.abs(value).max())
