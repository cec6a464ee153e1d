"""What examples/ show works against a real server; tests/test_docs.py runs the pages."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from onnx_agents import TinyAgent, write_zoo
from server_process import ROOT, serving

from nmn_keras import envs
from nmn_keras.client import AgentClient, play

KEY = "examples-0123456789"


@pytest.fixture(scope="module")
def zoo_of_one(tmp_path_factory):
    return write_zoo(tmp_path_factory.mktemp("examples") / "zoo", TinyAgent("b1-nmn"))


@pytest.fixture(scope="module")
def keyed_url(zoo_of_one, tmp_path_factory):
    keys = tmp_path_factory.mktemp("keys") / "keys.txt"
    keys.write_text(KEY)
    with serving(zoo_of_one, "--api-keys", str(keys)) as server:
        yield server.url


@pytest.fixture(scope="module")
def url(zoo_of_one):
    with serving(zoo_of_one, "--max-sessions", "5") as server:
        yield server.url
        with AgentClient(server.url, "b1-nmn") as client:
            for _ in range(4):
                client.fork().detach()  # every example has ended its sessions, so that there is room for five


def run(*command, environment=None, timeout=60):
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=timeout, env={**os.environ, **(environment or {})}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def need(program):
    return shutil.which(program) or pytest.skip(f"{program} is not installed")


@pytest.mark.parametrize("transport", ["http", "websocket"])
@pytest.mark.parametrize("key", [None, KEY])
def test_javascript_steps_as_python_does(url, keyed_url, transport, key):
    node, address = need("node"), keyed_url if key else url
    has = run(node, "--print", "typeof WebSocket").strip() != "undefined"
    flags, environment = ["--no-warnings"], {"NMN_API_KEY": key} if key else {}
    if has != (transport == "websocket"):
        flags.append("--no-experimental-websocket" if has else "--experimental-websocket")
    if subprocess.run([node, *flags, "--version"], capture_output=True).returncode:
        pytest.skip("this node cannot do with or without a WebSocket")
    lines = run(node, *flags, "examples/stream.js", address, "b1-nmn", "12", environment=environment).splitlines()
    assert len(lines) == 12
    reward = None
    with AgentClient(address, "b1-nmn", api_key=key) as client:
        for told in map(json.loads, lines):
            np.testing.assert_array_equal(client.step(told["observation"], reward), np.float32(told["action"]))
            reward = told["reward"]


def test_javascript_says_what_is_wrong(url):
    node = need("node")
    for arguments, words in (([url, "b9"], "Served: b1-nmn"), (["http://127.0.0.1:9", "b1-nmn"], "fetch failed")):
        done = subprocess.run([node, "examples/stream.js", *arguments], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 1 and words in done.stderr and done.stderr.count("\n") == 1


def test_curl_steps_as_python_does(url):
    need("curl")
    first, second, episode, nothing = run("sh", "examples/step.sh", url, "b1-nmn").splitlines()
    assert json.loads(episode)["episode"] == 1 and nothing == ""
    with AgentClient(url, "b1-nmn", include="z") as client:
        np.testing.assert_array_equal(client.step([1.5]), np.float32(json.loads(first)["action"]))
        client.step([1.5], -3.1)
        told = json.loads(second)
        np.testing.assert_array_equal(client.last.action, np.float32(told["action"]))
        np.testing.assert_array_equal(client.last.z, np.float32(told["z"]))


def test_a_triton_client_that_always_sends_all_inputs_steps_a_sequence(url):
    command = [sys.executable, "examples/triton_sequence.py", "--url", url, "--steps", "50"]
    report = json.loads(run(*command))
    assert report["steps"] == 50 and report["largest_action"] > 0.1 and report["largest_difference"] < 1e-5


def test_play_gives_the_scores_of_the_example(url):
    command = [sys.executable, "examples/evaluate_over_http.py", "--url", url, "--episodes", "2"]
    scores = json.loads(run(*command, "--transport", "websocket"))
    assert scores["length"] == 1400
    seed = int(np.random.default_rng([0, 0, 2**31]).integers(2**31))  # of the published scores
    with AgentClient(url, "b1-nmn", batch=2, transport="websocket") as client:
        assert np.mean(play(envs.make_vec("b1", 2), client, seed=seed)) == pytest.approx(scores["return"], rel=1e-12)


@pytest.mark.slow
def test_meta_regression_needs_the_context_and_names_its_command(tmp_path):
    words = ["examples/sine_regression.py", "--seeds", "1", "--tasks", "2560", "--json", str(tmp_path / "sine.json")]
    out = run(sys.executable, *words, timeout=600)
    told = json.loads((tmp_path / "sine.json").read_text())
    assert told["command"].endswith(" ".join(["python", *words]))
    models = told["models"]
    errors = {name: model["test_errors"] for name, model in models.items()}
    assert max(errors["modulated"] + errors["concatenated"]) < 0.9 * min(errors["without context"])
    for name, model in models.items():
        line = f"{name}: {model['mean']:.4f} {model['parameters']} parameters, learning rate"
        assert f"{line} {model['learning_rate']:g}" in out and model["learning_rate"] in told["learning_rates"]
        assert model["parameters"] == pytest.approx(models["modulated"]["parameters"], rel=0.01)


def test_the_published_meta_regression_is_the_example_s():
    told = json.loads((ROOT / "docs" / "results" / "data" / "sine.json").read_text())
    assert told["command"] == "KERAS_BACKEND=jax python examples/sine_regression.py --json docs/results/data/sine.json"
    text = (ROOT / "docs" / "architectures.md").read_text()
    for model in told["models"].values():
        low, high = model["interval"]
        assert len(model["test_errors"]) == told["seeds"] == 5
        assert model["learning_rate"] in told["learning_rates"]
        assert f"| {model['mean']:.2f} [{low:.2f}, {high:.2f}] |" in text
