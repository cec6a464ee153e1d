import http.server
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading

import httpx
import numpy as np
import pytest
from onnx_agents import TinyAgent, write_zoo
from server_process import ROOT, serving


@pytest.fixture(scope="module")
def server(agents):
    with serving(agents) as server:
        yield server


def test_the_greeting_can_be_typed(server):
    greeting = server.greeting
    assert greeting.startswith("Serving loud, pair, tiny at http://127.0.0.1:")
    commands = re.findall(r"^  (curl .*)$", greeting, re.MULTILINE)
    assert len(commands) == 3
    if not shutil.which("curl"):
        pytest.skip("curl is not installed")
    session = httpx.post(f"{server.url}/v1/agents/loud/sessions").json()["session"]
    for command in commands:
        typed = command.replace("curl", "curl --silent", 1).replace("SESSION", session)
        answer = json.loads(subprocess.check_output(typed, shell=True, text=True))
        assert "status" not in answer and answer


def test_the_greeting_of_a_server_with_keys_can_be_typed(agents, tmp_path):
    (tmp_path / "keys.txt").write_text("0123456789abcdef\n")
    with serving(agents, "--api-keys", str(tmp_path / "keys.txt")) as server:
        listing = re.search(r"^  (curl .*/v1/agents)$", server.greeting, re.MULTILINE)[1]
        environment = {"PATH": os.environ["PATH"], "NMN_API_KEY": "0123456789abcdef"}
        if shutil.which("curl"):
            answer = subprocess.check_output(
                listing.replace("curl", "curl --silent", 1), shell=True, text=True, env=environment
            )
            assert "agents" in json.loads(answer)
        played = play_over_http("--url", server.url, "--agent", "tiny", "--steps", "2", env=environment)
        assert (played.returncode, played.stderr) == (0, "")
        refused = play_over_http("--url", server.url, "--agent", "tiny")
        assert refused.returncode == 1 and "needs an API key" in refused.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_cleanly(agents, number):
    with serving(agents, "--agents", "pair", "tiny") as server:
        assert server.greeting.startswith("Serving pair, tiny at")
        with httpx.Client(base_url=server.url) as client:
            # An open session and an open connection do not hold it up.
            assert client.post("/v1/agents/tiny/sessions").status_code == 201
            server.process.send_signal(number)
            assert server.process.wait(timeout=20) == 0


def run_serve(*flags):
    command = [sys.executable, "-m", "serve", "--port", "0", *flags]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)


def test_it_refuses_to_start_with_one_clear_line(agents, tmp_path):
    empty = write_zoo(tmp_path / "empty")
    altered = write_zoo(tmp_path / "altered", TinyAgent("tiny"))
    (altered / "tiny" / "policy.onnx").write_bytes(b"")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        cases = [
            (("--zoo", agents, "--agents", "b9-nmn"), "Known: loud, pair, tiny. Received: 'b9"),
            (("--zoo", empty), "there are no agents in"),
            (("--zoo", tmp_path / "nowhere"), "There is no zoo here"),
            (("--zoo", altered), "is not the file that was published"),
            (("--zoo", agents, "--port", port), "Choose another --port"),
            (("--zoo", agents, "--host", "192.0.2.1"), "an address of this machine for --host"),
            (("--zoo", agents, "--store", "sqlite:///:memory:"), "sqlite:///FILE"),
            (("--zoo", agents, "--cors-origins", "https://a.example/"), "without a path"),
        ]
        for flags, reason in cases:
            done = run_serve(*map(str, flags))
            assert (done.returncode, done.stdout) == (2, "")
            assert done.stderr.count("\n") == 1 and reason in done.stderr
    assert "accepted is 0 to 65535" in run_serve("--port", "65536").stderr


def test_help_imports_nothing_heavy():
    command = [sys.executable, "-X", "importtime", "-m", "serve", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "--agents NAME [NAME ...]" in done.stdout
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.split("\n")}
    assert "argparse" in imported
    heavy = {"tensorflow", "keras", "numpy", "onnxruntime", "starlette", "uvicorn", "nmn_keras"}
    assert not heavy & imported


def test_the_server_needs_no_keras():
    script = "import sys, serve.app; print({'keras', 'tensorflow', 'gymnasium'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("set()\n", "")


def play_over_http(*flags, env=None):
    command = [sys.executable, str(ROOT / "examples" / "play_over_http.py"), *flags]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, env=env)


def test_the_example_plays_over_http(server):
    done = play_over_http("--url", server.url, "--agent", "tiny", "--steps", "12", "--seed", "3")
    assert (done.returncode, done.stderr) == (0, "")
    rewards = [float(text) for text in re.findall(r"reward +(-?[\d.]+)$", done.stdout, re.MULTILINE)]
    assert len(rewards) == 12 and np.ptp(rewards) > 0
    assert f"12 steps, reward {sum(rewards):.1f} in all" in done.stdout
    unknown = play_over_http("--url", server.url, "--agent", "b9-nmn")
    assert unknown.returncode == 1 and "Served: loud, pair, tiny" in unknown.stderr


def test_the_example_says_when_no_server_runs():
    with socket.socket() as silent:  # bound but not listening: no other server can take the port meanwhile
        silent.bind(("127.0.0.1", 0))
        done = play_over_http("--url", f"http://127.0.0.1:{silent.getsockname()[1]}")
    assert done.returncode == 1
    assert done.stderr.startswith("No server answers") and done.stderr.count("\n") == 1
    wrong = play_over_http("--url", "http://127.0.0.1:abc")
    assert wrong.returncode == 1 and wrong.stderr.startswith("--url must look like")


@pytest.mark.parametrize("body", ["{}", "[]", "<html>", '{"detail": "Not Found"}'])
def test_the_example_says_when_another_server_runs(body):
    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(404 if "detail" in body else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Other) as other:
        threading.Thread(target=other.handle_request, daemon=True).start()
        done = play_over_http("--url", f"http://127.0.0.1:{other.server_port}")
    assert done.returncode == 1 and "is not python -m serve" in done.stderr and done.stderr.count("\n") == 1
