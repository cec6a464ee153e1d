"""Several processes on one port, what they share, and what they count together."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from server_process import ROOT, serving
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

STATELESS = ("request_success", "request_failure", "count", "exec_count")


def children(process):
    found = subprocess.run(["pgrep", "-P", str(process.pid), "-f", "spawn_main"], capture_output=True, text=True)
    return [int(number) for number in found.stdout.split()]


def is_running(number):
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


def read_metrics(client):
    text = client.get("/metrics").text
    assert all(line.startswith("#") or re.fullmatch(r"\w+(\{.*\})? [-+.\deinf]+", line) for line in text.splitlines())
    return {name: float(value) for name, value in re.findall(r"^(\w+(?:\{.*?\})?) (\S+)$", text, re.MULTILINE)}


def test_workers_share_their_sessions_and_a_killed_one_loses_none(agents, tmp_path):
    flags = ("--workers", "2", "--store", f"sqlite:///{tmp_path}/sessions.db")
    zoo = tmp_path / "zoo"
    shutil.copytree(agents, zoo)
    with serving(zoo, *flags) as server:
        with httpx.Client(base_url=server.url) as client:
            session = client.post("/v1/agents/tiny/sessions").json()["session"]

        def step(_):
            """On a connection of its own, which either process may take."""
            for _ in range(100):
                try:
                    reply = httpx.post(
                        f"{server.url}/v1/sessions/{session}/step", json={"observation": [0.5], "reward": 0.0}
                    )
                    assert reply.status_code == 200, reply.text
                    return reply.json()["step"]
                except httpx.TransportError:  # the process that had it was killed: it may have been taken
                    time.sleep(0.1)
            raise AssertionError("no worker came back")

        with ThreadPoolExecutor(8) as pool:
            taken = list(pool.map(step, range(40)))
            assert sorted(taken) == list(range(1, 41))
            before = children(server.process)
            assert len(before) == 2
            (zoo / "index.json").unlink()  # what is published later is not served
            os.kill(before[0], signal.SIGKILL)
            more = list(pool.map(step, range(40)))
        assert len(set(taken + more)) == 80
        with httpx.Client(base_url=server.url) as client:
            assert client.get(f"/v1/sessions/{session}").json()["step"] == max(more)
            counted = read_metrics(client)
            success = counted['nv_inference_request_success{model="tiny",version="1"}']
            assert success >= 40 and counted["nmn_sessions"] == 1  # what the killed one counted last is lost
        for _ in range(100):
            if len(children(server.process)) == 2:
                break
            time.sleep(0.1)
        else:
            raise AssertionError("the killed worker was not started anew")


def test_workers_end_with_the_process_that_started_them(agents, tmp_path):
    """Or they would serve on, and hold the port against its successor."""
    command = [sys.executable, "-m", "serve", "--port", "0", "--zoo", str(agents), "--workers", "2"]
    process = subprocess.Popen(
        [*command, "--store", f"sqlite:///{tmp_path}/sessions.db"], cwd=ROOT, stdout=subprocess.PIPE
    )
    process.stdout.readline()
    while len(workers := children(process)) < 2:
        time.sleep(0.1)
    time.sleep(1.0)  # one that is still being started would end by itself
    process.kill()
    process.wait()
    process.stdout.close()
    for _ in range(200):
        if not any(is_running(worker) for worker in workers):
            return
        time.sleep(0.1)
    for worker in workers:
        os.kill(worker, signal.SIGKILL)
    raise AssertionError("the workers serve on")


def test_workers_need_a_store_that_all_of_them_see(agents):
    command = [sys.executable, "-m", "serve", "--zoo", str(agents), "--workers", "2"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2 and "--store sqlite:///" in ended.stderr and ended.stderr.count("\n") == 1


def test_what_is_counted(agents):
    with serving(agents) as server, httpx.Client(base_url=server.url) as client:
        session = client.post("/v1/agents/pair/sessions", json={"batch": 3}).json()["session"]
        client.post("/v1/agents/tiny/sessions")
        for reward in (None, [0.0] * 3, [0.0] * 3):
            message = {"observation": [[0.5, 0.5]] * 3, "reward": reward}
            assert client.post(f"/v1/sessions/{session}/step", json=message).status_code == 200
        assert client.post(f"/v1/sessions/{session}/step", json={"observation": [1.0]}).status_code == 422
        client.get("/nothing/here")
        client.request("PROPFIND", "/v1/agents")
        for _ in range(2):
            assert client.post("/v1/agents/tiny/step", json={"observation": [0.5]}).status_code == 200
        assert client.post("/v1/agents/tiny/step", json={"observation": []}).status_code == 422
        counted = read_metrics(client)
    of = {
        name.partition("{")[0]: value for name, value in counted.items() if 'model="pair"' in name and "le=" not in name
    }
    assert (of["nv_inference_request_success"], of["nv_inference_request_failure"]) == (3, 1)
    assert (of["nv_inference_count"], of["nv_inference_exec_count"]) == (9, 3)
    assert of["nmn_step_duration_seconds_count"] == 3 and of["nmn_batch_rows_sum"] == 9
    assert of["nv_inference_request_duration_us"] > of["nv_inference_compute_infer_duration_us"] > 0
    assert counted["nmn_sessions"] == 2
    stateless = [counted[f'nv_inference_{name}{{model="tiny",version="1"}}'] for name in STATELESS]
    assert stateless == [2, 1, 2, 2]
    assert counted['nmn_http_requests_total{method="GET",route="none",status="404"}'] == 1
    assert counted['nmn_http_requests_total{method="other",route="none",status="405"}'] == 1
    assert 'nmn_step_duration_seconds_bucket{le="5e-05",model="pair",version="1"}' in counted
    route = 'method="POST",route="/v1/sessions/{session}/step"'
    assert counted[f'nmn_http_requests_total{{{route},status="200"}}'] == 3
    assert counted[f'nmn_http_requests_total{{{route},status="422"}}'] == 1


def test_the_access_log_names_routes_and_no_secrets(agents):
    command = [sys.executable, "-m", "serve", "--port", "0", "--zoo", str(agents), "--access-log"]
    process = subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    url = re.search(r"http://\S+", process.stdout.readline())[0]
    session = httpx.post(f"{url}/v1/agents/tiny/sessions").json()["session"]
    httpx.post(f"{url}/v1/sessions/{session}/step", json={"observation": [0.5]})
    httpx.post(f"{url}/v1/sessions/{session}/step", json={"observation": "?"})
    httpx.get(f"{url}/v1/sessions/{session}/nothing")
    httpx.get(f"{url}/v2/models/tiny")
    with connect(f"{url.replace('http', 'ws')}/v1/agents/tiny/stream"):
        pass
    with pytest.raises(InvalidStatus):
        connect(f"{url.replace('http', 'ws')}/v1/agents/tiny/stream", origin="https://else.example")
    process.terminate()
    _, errors = process.communicate(timeout=20)
    lines = [json.loads(line) for line in errors.splitlines()]
    assert [(line["method"], line["route"], line["status"]) for line in lines] == [
        ("POST", "/v1/agents/{agent}/sessions", 201),
        ("POST", "/v1/sessions/{session}/step", 200),
        ("POST", "/v1/sessions/{session}/step", 422),
        ("GET", None, 404),
        ("GET", "/v2/models/{model}", 200),
        ("GET", "/v1/agents/{agent}/stream", 101),
        ("GET", "/v1/agents/{agent}/stream", 403),
    ]
    assert [line["agent"] for line in lines] == ["tiny", None, None, None, "tiny", "tiny", "tiny"]
    assert session not in errors and all(line["seconds"] > 0 for line in lines)
