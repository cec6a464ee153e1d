"""An installed wheel, not only the checkout, holds the zoo: built, installed beside nothing of ours, and used."""

import json
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import httpx
import pytest

from nmn_keras import zoo

ROOT = Path(__file__).parent.parent

USE = """
import sys
import nmn_keras
from nmn_keras import zoo
assert "site-packages" in nmn_keras.__file__, nmn_keras.__file__
assert "site-packages" in str(zoo.directory()), zoo.directory()
agent = zoo.load("b1-nmn", runtime="onnx")
state = agent.initial_state(1)
action, state = agent.act([[1.0]], [[0.0]], [[0.0]], state)
assert abs(float(action[0, 0])) > 0.1 and state.any()
loaded = {"keras", "tensorflow", "jax"} & set(sys.modules)
assert not loaded, loaded
print(*zoo.list_agents())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", target, ROOT]
    subprocess.run(command, check=True)
    (found,) = target.glob("nmn_keras-*.whl")
    return found


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """A clean environment made as the Dockerfile makes the image: the pinned list and the wheel, nothing else."""
    directory = tmp_path_factory.mktemp("clean")
    venv.create(directory, with_pip=True)
    python = directory / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "--requirement", ROOT / "serve" / "requirements.lock"], check=True)
    subprocess.run([*pip, "--no-deps", wheel], check=True)
    return python


def test_the_wheel_holds_every_published_file(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    published = {f"nmn_keras/_zoo/{name}/{file}" for name in zoo.list_agents() for file in zoo.card(name)["files"]}
    assert published and published | {"nmn_keras/_zoo/index.json"} <= names
    assert {"nmn_keras/runtime.py", "serve/__main__.py", "serve/requirements.lock"} <= names
    page = {path.relative_to(ROOT).as_posix() for path in (ROOT / "serve" / "page").rglob("*") if path.is_file()}
    assert "serve/page/index.html" in page <= names
    assert {f"nmn_keras/optima/{name}-{exclusion}.npz" for name in ("b2", "b3") for exclusion in (0.0, 0.6)} <= names
    assert not any(name.startswith(("tests/", "zoo/", "runs/")) for name in names)


def test_an_installed_wheel_loads_and_steps_an_agent_without_keras(python, tmp_path):
    done = subprocess.run([python, "-W", "error", "-c", USE], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == zoo.list_agents()


def test_the_image_s_environment_serves_without_keras(python, tmp_path):
    """No Docker engine runs the tests: the environment is the image's, and so is the command."""
    recipe = (ROOT / "Dockerfile").read_text()
    assert "--requirement /tmp/requirements.lock" in recipe and "--no-deps /wheels" in recipe
    *command, _, _ = json.loads(re.search(r"^ENTRYPOINT (.*)$", recipe, re.MULTILINE)[1])
    assert command == ["python", "-m", "serve"]
    pip = [python, "-m", "pip", "--disable-pip-version-check", "freeze"]
    frozen = subprocess.run(pip, capture_output=True, text=True, check=True).stdout
    pinned = {line for line in (ROOT / "serve" / "requirements.lock").read_text().splitlines() if line[0] != "#"}
    assert {line for line in frozen.splitlines() if not line.startswith("nmn_keras")} == pinned
    flags = ["--port", "0", "--store", "sqlite:///sessions.db"]
    with subprocess.Popen(
        [python, *command[1:], *flags], cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        url = re.search(r"http://\S+", process.stdout.readline())[0]
        with httpx.Client(base_url=url) as client:
            session = client.post("/v1/agents/b1-nmn/sessions").json()["session"]
            assert client.post(f"/v1/sessions/{session}/step", json={"observation": [1.0]}).json()["step"] == 1
        process.terminate()
        errors = process.stderr.read()
    assert process.returncode == 0 and not errors
    assert (tmp_path / "sessions.db").exists()
