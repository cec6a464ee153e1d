"""The WebSocket, by a real client against a real server."""

import json
import signal
import threading
import time

import httpx
import numpy as np
import pytest
import uvicorn
from server_process import serving
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from nmn_keras import zoo
from serve.app import create_app


@pytest.fixture(scope="module")
def url(agents):
    with serving(agents) as server:
        yield server.url


def stream(url, agent, query="", **options):
    return connect(f"{url.replace('http', 'ws', 1)}/v1/agents/{agent}/stream{query}", **options)


def ask(socket, **message):
    socket.send(json.dumps(message))
    return json.loads(socket.recv())


def test_a_stream_steps_as_the_agent_in_process(url, agents):
    agent, rng = zoo.load("pair", runtime="onnx", zoo=agents), np.random.default_rng(0)
    state, action, reward = agent.initial_state(1), np.zeros((1, 2), np.float32), 0.0
    with stream(url, "pair", "?include=z") as socket:
        opened = json.loads(socket.recv())
        assert (opened["agent"], opened["step"]) == ("pair", 0)
        for taken in range(1, 50):
            observation = rng.standard_normal(2).tolist()
            outputs = agent.decide(*agent.check([observation], action, [[reward]], state))
            answer = ask(socket, observation=observation, reward=reward)
            expected = {"action": outputs["action"][0].tolist(), "step": taken, "z": outputs["z"][0].tolist()}
            assert answer == expected
            action, state, reward = outputs["action"], outputs["state_out"], float(rng.standard_normal())


def test_a_refused_message_changes_nothing_and_the_stream_goes_on(url):
    with stream(url, "tiny", "?batch=1&deterministic=false&seed=3") as socket, stream(url, "tiny", "?seed=3") as other:
        socket.recv(), other.recv()
        for text, status in (("{", 400), ("[]", 422), ('{"observation": [1e39]}', 422), (b"\xff", 400), ("", 400)):
            socket.send(text)
            problem = json.loads(socket.recv())
            assert problem["status"] == status and problem["type"].startswith("urn:problem-type:nmn:")
        assert ask(socket, observation=[0.5])["step"] == 1
        assert ask(other, observation=[0.5])["step"] == 1


def test_a_lost_connection_is_resumed_and_a_closed_one_is_done(url):
    with stream(url, "tiny") as socket:
        session = json.loads(socket.recv())["session"]
        first = ask(socket, observation=[0.5], step=1)
        socket.close(code=1001)
    with stream(url, "tiny", f"?session={session}") as socket:
        assert json.loads(socket.recv())["step"] == 1
        assert ask(socket, observation=[0.5], step=1) == first  # its answer was lost
        assert httpx.post(f"{url}/v1/sessions/{session}/episode").json()["episode"] == 1  # the same session over HTTP
        assert ask(socket, observation=[0.1])["step"] == 2
    assert httpx.get(f"{url}/v1/sessions/{session}").status_code == 404


@pytest.mark.parametrize(
    ("agent", "query", "status", "word"),
    [
        ("none", "", 404, "Served: loud, pair, tiny"),
        ("tiny", "?session=unknown", 404, "No such session"),
        ("tiny", "?batch=0", 422, "batch"),
        ("tiny", "?size=1", 422, "size"),
        ("tiny", "?include=nothing", 422, "action_mean"),
    ],
)
def test_what_is_refused_before_the_connection_opens(url, agent, query, status, word):
    with pytest.raises(InvalidStatus) as caught:
        stream(url, agent, query)
    problem = json.loads(caught.value.response.body)
    assert (caught.value.response.status_code, problem["status"]) == (status, status)
    assert word in json.dumps(problem)


def test_a_session_is_resumed_at_its_own_agent(url):
    session = httpx.post(f"{url}/v1/agents/tiny/sessions").json()["session"]
    for agent, query in (("pair", f"?session={session}"), ("tiny", f"?session={session}&seed=1")):
        with pytest.raises(InvalidStatus) as caught:
            stream(url, agent, query)
        assert caught.value.response.status_code == 422


def test_pages_of_another_origin_are_kept_out(url):
    with pytest.raises(InvalidStatus) as caught:
        stream(url, "tiny", origin="http://evil.example")
    assert caught.value.response.status_code == 403
    with stream(url, "tiny", origin=url) as socket:
        assert json.loads(socket.recv())["agent"] == "tiny"


def test_an_open_stream_does_not_hold_up_the_end(agents):
    with serving(agents) as server, stream(server.url, "tiny") as socket:
        socket.recv()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=20) == 0
        with pytest.raises(ConnectionClosed) as caught:
            socket.recv()
        assert caught.value.rcvd.code == 1012


def test_a_message_that_a_proxy_let_through_may_be_no_larger_than_a_body(agents):
    """Our own server closes such a socket; Ray Serve's proxy, like this one, takes messages of any size."""
    app = create_app({"tiny": zoo.load("tiny", runtime="onnx", zoo=agents)}, max_body_bytes=200)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", lifespan="on"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        with stream(f"http://127.0.0.1:{port}", "tiny") as socket:
            socket.recv()
            refused = ask(socket, observation=[0.5], padding="x" * 200)
            assert (refused["status"], refused["type"]) == (413, "urn:problem-type:nmn:body-too-large")
            assert ask(socket, observation=[0.5])["step"] == 1
    finally:
        server.should_exit = True
        thread.join()
