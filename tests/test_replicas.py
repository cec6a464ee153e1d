"""Clients of three servers on one Redis, behind the load balancer and on Ray Serve, while servers are killed.

What is lost, doubled or changed then is benchmarks/durability.py's question, see test_durability.py. Here it is whether
the Python client, as users have it, goes on: over HTTP and over WebSockets.
"""

import asyncio
import json
import os
import re
import shutil
import signal
import time

import httpx
import numpy as np
import pytest
from redis_process import redis_running
from server_process import ROOT
from websockets.sync.client import connect

from nmn_keras import zoo
from nmn_keras.client import AsyncAgentClient

AGENT = "b1-nmn"
CLIENTS, STEPS = 12, 60
PAUSE_SECONDS = 0.02
"""Between two steps, so that three kills come in their midst."""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with redis_running(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture(scope="module")
def balanced(store):
    """The address of the load balancer, and what kills one of the three servers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        from balancer import balanced_servers
    if not shutil.which("haproxy"):
        pytest.skip("haproxy is not installed: apt-get install haproxy")
    with balanced_servers(3, "--agents", AGENT, "--store", store) as (port, servers):
        remaining = list(servers)
        yield f"http://127.0.0.1:{port}", lambda: remaining.pop().kill()


@pytest.fixture(scope="module")
def on_ray(store):
    """The address of Ray's proxy, and what kills one of the three replicas."""
    pytest.importorskip("ray.serve")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        from ray_serve import ray_serving
    with ray_serving(3, store=store, agents=AGENT, max_body_bytes="1000") as server:
        remaining = server.workers()
        yield f"http://127.0.0.1:{server.port}", lambda: os.kill(remaining.pop(), signal.SIGKILL)
        assert not server.stop()


def observations(client):
    return np.random.default_rng(client).uniform(-3, 3, (STEPS, 1)).astype(np.float32)


async def play(url, number, taken):
    """The actions of one client, and the number of steps that the server says it took."""
    transport, actions = ("http", "websocket")[number % 2], []
    async with AsyncAgentClient(url, AGENT, transport=transport, retries=8) as client:
        for step, observation in enumerate(observations(number)):
            actions.append(await client.step(observation, -1.0 if step else None))
            taken.append(number)
            await asyncio.sleep(PAUSE_SECONDS)
        return np.stack(actions), (await client.describe())["step"]


async def play_all(url, kill, kills):
    taken, players = [], []
    async with asyncio.TaskGroup() as group:
        players = [group.create_task(play(url, number, taken)) for number in range(CLIENTS)]
        for moment in range(1, kills + 1):
            while len(taken) < moment * CLIENTS * STEPS // (kills + 2):
                await asyncio.sleep(0.01)
            kill()
    return [player.result() for player in players]


def check(url, kill, kills):
    """Every client has the actions of the agent in process."""
    agent = zoo.load(AGENT, runtime="onnx")
    for number, (actions, steps) in enumerate(asyncio.run(play_all(url, kill, kills))):
        assert steps == STEPS
        action, state = np.zeros((1, 1), np.float32), agent.initial_state(1)
        for step, observation in enumerate(observations(number)):
            action, state = agent.act([observation], action, [[-1.0 if step else 0.0]], state)
            np.testing.assert_array_equal(actions[step], action[0])


@pytest.mark.slow
def test_clients_behind_the_load_balancer_go_on_when_two_of_three_servers_are_killed(balanced):
    check(*balanced, kills=2)


@pytest.mark.slow
def test_clients_on_ray_serve_go_on_when_two_of_three_replicas_are_killed(on_ray):
    check(*on_ray, kills=2)


@pytest.mark.slow
def test_the_load_balancer_passes_on_what_is_refused_and_keeps_the_counts_to_itself(balanced):
    url, _ = balanced
    assert httpx.get(f"{url}/metrics").status_code == 404
    assert httpx.post(f"{url}/v1/agents/b9/sessions").json()["type"] == "urn:problem-type:nmn:unknown-agent"


@pytest.mark.slow
def test_ray_s_proxy_passes_on_what_is_refused_and_replicas_count_together(on_ray):
    url, _ = on_ray
    for _ in range(20):
        answer = httpx.post(f"{url}/v1/agents/b9/sessions")
        assert (answer.status_code, answer.json()["type"]) == (404, "urn:problem-type:nmn:unknown-agent")
    time.sleep(1.5)  # each leaves its counts for the others once a second
    route = re.escape('nmn_http_requests_total{method="POST",route="/v1/agents/{agent}/sessions",status="404"}')
    counted = httpx.get(f"{url}/metrics").text
    assert float(re.search(rf"^{route} (\S+)$", counted, re.MULTILINE)[1]) == 20
    with connect(f"{url.replace('http', 'ws', 1)}/v1/agents/{AGENT}/stream") as socket:
        socket.recv()
        socket.send(json.dumps({"observation": [0.5], "padding": "x" * 1000}))
        assert json.loads(socket.recv())["status"] == 413
        socket.send(json.dumps({"observation": [0.5]}))
        assert json.loads(socket.recv())["step"] == 1
