"""`policy.onnx` outside of Python: examples/browser and examples/cpp, built and run as docs/runtimes.md says."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from server_process import ROOT

from nmn_keras import zoo

AGENTS = ("b1-nmn", "b2-nmn", "b3-rnn")
ALTERED = "b1-altered"
HEADERS = [os.environ.get("ONNXRUNTIME_INCLUDE", ""), "/usr/local/include/onnxruntime", "/usr/local/include"]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """The examples beside a zoo with one more agent, of whose golden numbers one is changed by a thousandth."""
    root = tmp_path_factory.mktemp("checkout")
    leave = shutil.ignore_patterns("node_modules", "build")
    shutil.copytree(ROOT / "examples", root / "examples", ignore=leave)
    shutil.copytree(zoo.directory(), root / "zoo")
    shutil.copytree(root / "zoo" / "b1-nmn", root / "zoo" / ALTERED)
    golden = dict(np.load(zoo.path("b1-nmn", "golden.npz")))
    golden["state_out"][150, 2, 7] += 1e-3
    np.savez_compressed(root / "zoo" / ALTERED / "golden.npz", **golden)
    return root


# C++


@pytest.fixture(scope="module")
def step(checkout):
    """The program, built."""
    if not shutil.which("g++"):
        pytest.skip("g++ is not installed: apt-get install g++")
    known = subprocess.run("pkg-config --exists libonnxruntime", shell=True, capture_output=True).returncode == 0
    headers = [folder for folder in HEADERS if (Path(folder) / "onnxruntime_cxx_api.h").is_file()]
    if not known and not headers:
        pytest.skip("onnxruntime's C++ headers are not there: docs/runtimes.md says where to get them")
    environment = {**os.environ, "PYTHON": sys.executable}
    environment |= {} if known else {"ONNXRUNTIME_INCLUDE": headers[0]}
    built = subprocess.run(
        ["sh", "examples/cpp/build.sh"], cwd=checkout, env=environment, capture_output=True, text=True
    )
    assert (built.returncode, built.stderr) == (0, "")  # no warning either
    return checkout / "examples" / "cpp" / "build" / "step"


@pytest.mark.parametrize("agent", [*AGENTS, ALTERED])
def test_cpp_steps_as_published(checkout, step, tmp_path, agent):
    unpack = [sys.executable, "examples/cpp/unpack_golden.py", f"zoo/{agent}/golden.npz", str(tmp_path)]
    subprocess.run(unpack, cwd=checkout, check=True)
    done = subprocess.run([step, f"zoo/{agent}/policy.onnx", tmp_path], cwd=checkout, capture_output=True, text=True)
    expected = (1, "200 steps: NOT the golden ones") if agent == ALTERED else (0, "200 steps: the golden ones")
    assert (done.returncode, done.stdout.splitlines()[-1]) == expected, done.stderr
    assert f"agent: {agent.replace('altered', 'nmn')}\n" in done.stdout
    (of_state,) = re.findall(r"state_out: largest difference (\S+) of", done.stdout)
    assert float(of_state) == pytest.approx(1e-3, rel=0.1) if agent == ALTERED else float(of_state) < 1e-5


def test_cpp_says_what_is_missing(step, tmp_path):
    for arguments in ([tmp_path / "policy.onnx", tmp_path], [zoo.path("b1-nmn", "policy.onnx"), tmp_path], []):
        done = subprocess.run([step, *arguments], capture_output=True, text=True)
        assert done.returncode == 2 and done.stderr.startswith("step: ") and done.stderr.count("\n") == 1


# The browser


@pytest.fixture(scope="module")
def url(checkout):
    """The page's folder on a plain file server, with what npm fetches."""
    folder = checkout / "examples" / "browser"
    if (ROOT / "examples" / "browser" / "node_modules").is_dir():
        (folder / "node_modules").symlink_to(ROOT / "examples" / "browser" / "node_modules")
    else:
        try:
            command = ["npm", "ci", "--prefix", "examples/browser", "--no-audit", "--no-fund"]
            subprocess.run(command, cwd=checkout, check=True, capture_output=True, timeout=300)
        except (OSError, subprocess.SubprocessError) as error:
            pytest.skip(f"onnxruntime-web cannot be fetched with npm: {error}")
    command = [sys.executable, "-u", "-m", "http.server", "--bind", "127.0.0.1", "0"]
    with subprocess.Popen(
        command, cwd=checkout, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as server:
        yield re.search(r"http://[\d.:]+", server.stdout.readline())[0]
        server.terminate()


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or pytest.skip("chromium is not installed: apt-get install chromium")
    flags = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking".split()
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=flags)
        yield browser
        browser.close()


@pytest.mark.parametrize("agent", [*AGENTS, ALTERED])
def test_the_browser_steps_as_published(url, browser, agent):
    page, asked, errors = browser.new_page(), [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{url}/examples/browser/?agent={agent}")
    page.wait_for_function("!document.querySelector('#verdict').textContent.startsWith('Loading')", timeout=120_000)
    verdict = page.inner_text("#verdict")
    says = "NOT the golden ones" if agent == ALTERED else "the golden ones"
    assert verdict.startswith(f"{agent}, 200 steps of 3 episodes: {says};"), verdict
    rows = [row.split("\t") for row in page.locator("#differences tr").all_inner_texts()]
    outputs = {"action", "action_mean", "action_log_std", "state_out", *([] if "rnn" in agent else ["z"])}
    assert {name for name, *_ in rows} == outputs
    assert all(float(scale) > 0.1 for *_, scale in rows)
    of_state = {name: float(difference) for name, difference, _ in rows}["state_out"]
    assert of_state == pytest.approx(1e-3, rel=0.1) if agent == ALTERED else of_state < 1e-5
    assert not errors and all(address.startswith((url, "blob:", "data:")) for address in asked)
    page.close()


def test_the_page_says_what_is_missing(url, browser):
    page = browser.new_page()
    page.goto(f"{url}/examples/browser/?agent=b9")
    page.wait_for_function("document.querySelector('#verdict').textContent.startsWith('Failed')", timeout=60_000)
    assert "/zoo/b9/policy.onnx (404)" in page.inner_text("#verdict")
    page.close()
