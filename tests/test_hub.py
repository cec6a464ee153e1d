"""Agents on the Hub: huggingface_hub's own requests, from real processes, against a server on loopback."""

import copy
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
import pytest
from hub_server import serving_hub
from server_process import ROOT, serving

from nmn_keras import zoo

huggingface_hub = pytest.importorskip("huggingface_hub", reason="pip install huggingface_hub")

GUARD = ROOT / "tests" / "loopback_only"
AGENT = "hf://ann/b1"
WRITER, READER = "hf_ann_writes", "hf_ann_reads"
COMMANDS = """
import contextlib, io, json, os, sys
from nmn_keras import cli
done = []
for token, arguments in json.loads(sys.argv[1]):
    os.environ.pop("HF_TOKEN", None)
    if token:
        os.environ["HF_TOKEN"] = token
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            status = cli.main(arguments)
        except SystemExit as error:
            status = error.code
    done.append((status, out.getvalue(), err.getvalue()))
print(json.dumps(done))
"""


@pytest.fixture(scope="module")
def first_push(tmp_path_factory):
    """The repository of `b1-nmn` as the command makes it."""
    with serving_hub() as hub:
        push = ["push", AGENT, "b1-nmn", "--message", "First agent"]
        with Child(hub, tmp_path_factory.mktemp("push")) as child:
            ((status, url, errors),) = child.commands((WRITER, push))
        assert status == 0, errors
        assert url.strip() == f"{hub.url}/ann/b1/commit/{hub.repositories['ann/b1'].branches['main']}"
        return hub.repositories["ann/b1"]


@pytest.fixture
def hub(first_push):
    with serving_hub() as hub:
        hub.repositories["ann/b1"] = copy.deepcopy(first_push)
        yield hub


@pytest.fixture
def pushed(hub):
    return hub.repositories["ann/b1"]


@pytest.fixture
def child(hub, tmp_path):
    with Child(hub, tmp_path) as child:
        yield child


class Child:
    """Processes that know no other Hub than ours; that none of them left loopback is checked at the end."""

    def __init__(self, hub, directory):
        self.connections = directory / "connections.txt"
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "NMN_"))}
        self.environment = {
            **kept,
            "HF_ENDPOINT": hub.url,
            "HF_HOME": str(directory / "cache"),
            "HF_HUB_DISABLE_XET": "1",  # which would need a server of its own; large files go the way of LFS
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "NMN_CONNECTIONS": str(self.connections),
            "PYTHONPATH": os.pathsep.join(map(str, (GUARD, ROOT))),
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }

    def __enter__(self):
        self.connections.touch()
        return self

    def __exit__(self, kind, *_):
        assert kind or {*self.connections.read_text().split()} <= {"127.0.0.1", "localhost", "::1"}

    def python(self, script, *arguments, **more):
        """Run Python and give what it printed."""
        command = [sys.executable, "-c", script, *arguments]
        environment = {**self.environment, **more}
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def commands(self, *commands, **more):
        """Run commands of `nmn`, each with a token or none; give status, output and errors of each."""
        return json.loads(self.python(COMMANDS, json.dumps(commands), **more))


def head(repository):
    return repository.commits[repository.branches["main"]]


def rename(target, source, name):
    """A zoo with another agent's entry under this name."""
    index = {"version": 1, "agents": {name: zoo.card(source)}}
    shutil.copytree(zoo.directory() / source, target / name)
    (target / "index.json").write_text(json.dumps(index))
    return target


def test_what_is_pushed_is_what_was_published(child, pushed):
    content, entry = head(pushed), zoo.card("b1-nmn")
    assert pushed.messages == ["initial commit", "First agent"] and not pushed.private
    assert {*content} == {".gitattributes", "README.md", "index.json", *(f"b1-nmn/{f}" for f in entry["files"])}
    for file in entry["files"]:
        assert content[f"b1-nmn/{file}"] == zoo.path("b1-nmn", file).read_bytes()
    assert json.loads(content["index.json"]) == {"version": 1, "agents": {"b1-nmn": entry}}

    card = huggingface_hub.ModelCard(content["README.md"].decode())
    assert (card.data.library_name, card.data.pipeline_tag) == ("nmn_keras", "reinforcement-learning")
    told = {result.metric_type: result.metric_value for result in card.data.eval_results}
    scores = entry["scores"]["deterministic"]
    assert told["discounted_return"] == pytest.approx(scores["discounted_return"], abs=0.06)
    assert told["mean_reward"] == pytest.approx(scores["return"], abs=0.06)
    assert {result.dataset_type for result in card.data.eval_results} == {"nmn_keras/MovingTarget-v0"}
    assert f'nmn_keras.zoo.load("{AGENT}", runtime="onnx")' in card.text

    again, shown = child.commands(
        (WRITER, ["push", AGENT, "zoo/b1-nmn".replace("zoo", str(zoo.directory()))]), (None, ["zoo", AGENT])
    )
    assert again[0] == 0 and len(pushed.messages) == 2  # nothing has changed: no commit
    assert shown == [0, content["README.md"].decode() + "\n", ""]


LOAD = """
import json, sys
import numpy as np
from nmn_keras import zoo
agent = zoo.load(sys.argv[1], runtime=sys.argv[2])
assert sys.argv[2] == "keras" or not {"keras", "tensorflow"} & set(sys.modules)
golden = np.load(sys.argv[3])
state, actions = agent.initial_state(3), []
for step in range(20):
    inputs = (golden[name][step] for name in ("observation", "prev_action", "prev_reward"))
    action, state = agent.act(*inputs, state)
    actions.append(np.asarray(action).tolist())
print(json.dumps(actions))
"""


def test_both_runtimes_load_it_back_download_what_they_need_and_work_offline(hub, child, pushed):
    golden = str(zoo.path("b1-nmn", "golden.npz"))
    expected = np.load(golden)["action"][:20]

    (page,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "hub.md").read_text(), re.DOTALL)
    page = page.replace("hf://ann/b1-nmn", AGENT)

    def load(runtime, address=AGENT, script=LOAD, **more):
        np.testing.assert_allclose(
            json.loads(child.python(script, address, runtime, golden, **more)),
            expected,
            rtol=0,
            atol=2e-4,  # of 20
        )

    load("onnx")
    assert hub.asked_for() == {"index.json", "b1-nmn/policy.onnx"}
    pushed.tags["v1"] = pushed.branches["main"]
    load("keras", script=page + LOAD)
    assert hub.asked_for() == {"index.json", "b1-nmn/config.json", "b1-nmn/agent.weights.h5"}
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        load("onnx", HF_ENDPOINT=f"http://127.0.0.1:{closed.getsockname()[1]}")
    load("onnx", HF_HUB_OFFLINE="1")
    load("onnx", f"{AGENT}@{pushed.branches['main']}")
    assert not hub.asked_for()  # a commit that is there needs no Hub


def test_a_repository_is_a_zoo(child, pushed, tmp_path):
    where = Path(child.python("from nmn_keras import zoo; print(zoo.directory('hf://ann/b1'))").strip())
    local = Path(shutil.copytree(where, tmp_path / "local"))
    assert zoo.list_agents(local) == ["b1-nmn"] and zoo.card("b1-nmn", local) == zoo.card("b1-nmn")
    assert zoo.load("b1-nmn", "onnx", local).sha256 == zoo.load("b1-nmn", "onnx").sha256
    for file in zoo.card("b1-nmn")["files"]:
        assert zoo.path("b1-nmn", file, local).read_bytes() == zoo.path("b1-nmn", file).read_bytes()


def test_a_server_serves_the_commit_it_began_with(child, pushed, tmp_path, monkeypatch):
    for name, value in child.environment.items():
        monkeypatch.setenv(name, value)
    store = f"sqlite:///{tmp_path}/sessions.db"
    with (
        serving(AGENT, "--workers", "2", "--store", store) as server,
        httpx.Client(base_url=server.url, timeout=60) as client,
    ):
        content = dict(head(pushed))
        pushed.commit("main", {p: c for p, c in content.items() if p != "b1-nmn/policy.onnx"}, "gone")
        assert [agent["name"] for agent in client.get("/v1/agents").json()["agents"]] == ["b1-nmn"]
        session = client.post("/v1/agents/b1-nmn/sessions").json()["session"]
        agent = zoo.load("b1-nmn", "onnx")
        expected, _ = agent.act([[1.5]], [[0.0]], [[0.0]], agent.initial_state(1))
        found = client.post(f"/v1/sessions/{session}/step", json={"observation": [1.5]}).json()["action"]
        np.testing.assert_allclose(found, expected[0], rtol=1e-6)
        assert client.get("/zoo/b1-nmn/README.md").content == content["b1-nmn/README.md"]  # the page's gallery has it


def test_a_changed_byte_is_refused(child, pushed):
    for file in ("policy.onnx", "config.json"):
        content = dict(head(pushed))
        changed = bytearray(content[f"b1-nmn/{file}"])
        changed[len(changed) // 2] ^= 1
        pushed.commit(file, content | {f"b1-nmn/{file}": bytes(changed)}, "changed")
    evaluate = ["evaluate", "--episodes", "1"]
    refused = child.commands(
        (None, [*evaluate, f"{AGENT}@policy.onnx", "--runtime", "onnx"]), (None, [*evaluate, f"{AGENT}@config.json"])
    )
    for (status, out, errors), file in zip(refused, ("policy.onnx", "config.json"), strict=True):
        assert (status, out) == (2, "") and f"{file} is not the file that was published" in errors
        assert zoo.card("b1-nmn")["files"][file]["sha256"] in errors


KINDS = """
import json, sys
from nmn_keras import cli, zoo
address, first, other = sys.argv[1:]
def kinds(*addresses):
    return [zoo.load(each, "onnx").kind for each in addresses]
seen = [kinds(address)]
assert cli.main(["push", f"{address}@dev", other]) == 0
seen.append(kinds(address, f"{address}@dev"))
assert cli.main(["push", address, other, "--revision", "main"]) == 0
seen.append(kinds(address, f"{address}@{first}", f"{address}@v1"))
print(json.dumps(seen))
"""


def test_a_revision_stays_what_it_was(child, pushed, tmp_path):
    first = pushed.tags["v1"] = pushed.branches["main"]
    other = rename(tmp_path / "other", "b1-rnn", "b1-nmn") / "b1-nmn"
    seen = child.python(KINDS, AGENT, first, str(other), HF_TOKEN=WRITER)
    assert json.loads(seen.splitlines()[-1]) == [["nmn"], ["nmn", "rnn"], ["rnn", "nmn", "nmn"]]
    assert first in pushed.commits and first not in pushed.branches.values()


def test_what_is_refused_is_said_and_loses_nothing(hub, child, pushed, tmp_path):
    evaluate = ["evaluate", "--runtime", "onnx", "--episodes", "1"]
    push = ["push", AGENT, "b1-nmn"]
    other = hub.repositories["ann/other"] = copy.deepcopy(pushed)
    other.commit("main", {"model.safetensors": b"...", "README.md": b"mine"}, "another model")
    secret = hub.repositories["ann/secret"] = copy.deepcopy(pushed)
    secret.private = True
    cases = [
        (None, [*evaluate, "hf://ann/nothing"], "There is no such repository on the Hub, or it is private."),
        (None, [*evaluate, "hf://ann/secret"], "There is no such repository on the Hub, or it is private."),
        (None, ["zoo", f"{AGENT}@v7"], "has no such revision. Accepted is a branch, a tag or a commit's whole hash."),
        (None, ["zoo", "hf://ann/other"], "holds no agent, or not all of it. Accepted is what `nmn push` sends."),
        ("hf_nobody", [*evaluate, AGENT], "The Hub does not allow that. Accepted is a token"),
        (None, ["evaluate", "hf://datasets/ann/b1"], "Accepted is hf://user/name or hf://user/name@revision."),
        (None, ["evaluate", "hf://"], "Accepted is hf://user/name or hf://user/name@revision."),
        (None, push, "There is no token to write to the Hub with. Accepted is one in HF_TOKEN"),
        (READER, push, "to push it must be allowed to write. Received: hf://ann/b1, status 403"),
        (READER, ["push", "hf://ann/new", "b1-nmn"], "Received: hf://ann/new, status 403"),
        ("hf_bob_writes", push, "status 403 (You don't have the rights to write there)"),
        (WRITER, ["push", AGENT, "b1-rnn"], "Accepted is a new one, or one with the agent b1-rnn alone."),
        (WRITER, ["push", "hf://ann/other", "b1-nmn"], "The repository holds something else."),
        (WRITER, [*push, "--private"], "The repository is public, and pushing does not change that."),
        (WRITER, ["push", f"{AGENT}@a", "b1-nmn", "--revision", "b"], "The branch is named twice."),
        (WRITER, ["push", AGENT, "b9-nmn"], "Unknown agent. Known: b1-film, "),
        (WRITER, ["push", AGENT, str(tmp_path / "b1-nmn")], "There is no zoo here."),
    ]
    before = copy.deepcopy((hub.repositories, hub.large))
    results = child.commands(*((token, arguments) for token, arguments, _ in cases))
    for (status, out, errors), (_, arguments, message) in zip(results, cases, strict=True):
        assert (status, out, errors.count("\n")) == (2, "", 1), (arguments, errors)
        assert errors.startswith(f"nmn {arguments[0]}: ") and message in errors and "Received: " in errors
    assert (hub.repositories, hub.large) == before
    (opened,) = child.commands((READER, ["zoo", "hf://ann/secret"]))
    assert opened[0] == 0 and "# b1-nmn" in opened[1]


def test_a_hub_that_is_away_and_a_library_that_is_missing_are_said(child):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        away = f"http://127.0.0.1:{closed.getsockname()[1]}"
        ((status, _, errors),) = child.commands((WRITER, ["push", AGENT, "b1-nmn"]), HF_ENDPOINT=away)
    assert status == 2 and "The Hub does not answer. Accepted is a connection to it. Received: hf://ann/b1 (" in errors
    pulled, sent = child.commands((None, ["zoo", AGENT]), (WRITER, ["push", AGENT, "b1-nmn"]), HF_HUB_OFFLINE="1")
    assert pulled[0] == 2 and "The Hub does not answer, and index.json is not in the cache." in pulled[2]
    assert sent[0] == 2 and "offline mode is enabled" in sent[2]
    without = "import sys; sys.modules['huggingface_hub'] = None\n" + COMMANDS
    ((status, _, errors),) = json.loads(child.python(without, json.dumps([(None, ["zoo", AGENT])])))
    assert status == 2 and 'pip install "nmn_keras[hub]"' in errors


def test_the_guard_sees_and_refuses_what_would_leave_the_machine(child):
    script = (
        "import socket, sys\ntry: socket.create_connection((sys.argv[1], 9), timeout=1)\nexcept OSError as e: print(e)"
    )
    address = "192.0.2.1"  # for documentation: it is nobody's
    assert f"stay on loopback. Received: socket.getaddrinfo '{address}'" in child.python(script, address)
    assert child.connections.read_text().split() == [address]
    child.connections.write_text("")
