"""Who may do what: API keys, pages of other origins, and what the server says of them."""

import json

import httpx
import numpy as np
import pytest
from server_process import serving
from tritonclient.http import InferenceServerClient, InferInput
from tritonclient.utils import InferenceServerException
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from nmn_keras.client import AgentClient, ServerError

ANN, BOB = "ann-0123456789abcdef", "bob-0123456789abcdef"
PAGE = "https://robots.example"


@pytest.fixture(scope="module")
def url(agents, tmp_path_factory):
    keys = tmp_path_factory.mktemp("keys") / "keys.txt"
    keys.write_text(f"# who may\n{ANN}\n\n{BOB}\n")
    with serving(agents, "--api-keys", str(keys), "--cors-origins", PAGE) as server:
        yield server.url


def client_of(url, key):
    return httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"})


@pytest.mark.parametrize("header", [None, "", "Bearer", f"Bearer {ANN}x", f"Basic {ANN}", ANN])
def test_without_a_known_key_nothing_is_answered_but_health(url, header):
    with httpx.Client(base_url=url, headers={} if header is None else {"Authorization": header}) as client:
        for path in ("/v1/agents", "/v1/agents/tiny/sessions", "/v1/sessions/x/step", "/metrics"):
            answer = client.request("POST" if path.endswith(("sessions", "step")) else "GET", path)
            assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
            assert answer.json()["type"].endswith(":unauthorized")
        answer = client.post("/v2/models/tiny/infer", content=b"")
        assert answer.status_code == 401 and set(answer.json()) == {"error"}
        for path in ("/health/live", "/health/ready", "/v2/health/live", "/v2/health/ready"):
            assert client.get(path).status_code == 200


def test_a_session_is_its_key_s_alone(url):
    with client_of(url, ANN) as ann, client_of(url, BOB) as bob:
        session = ann.post("/v1/agents/tiny/sessions").json()["session"]
        assert ann.post(f"/v1/sessions/{session}/step", json={"observation": [0.5]}).status_code == 200
        for method, path in (
            ("GET", ""),
            ("POST", "/step"),
            ("POST", "/episode"),
            ("POST", "/fork"),
            ("GET", "/state"),
            ("DELETE", ""),
        ):
            answer = bob.request(method, f"/v1/sessions/{session}{path}", json={"observation": [0.5]} if path else None)
            assert answer.status_code in (404, 422), answer.text
            if answer.status_code == 422:  # a body where none belongs is refused for everybody
                answer = bob.request(method, f"/v1/sessions/{session}{path}")
                assert answer.status_code == 404
        assert ann.get(f"/v1/sessions/{session}").json()["step"] == 1


def test_a_stream_needs_the_key_of_its_session(url):
    address = url.replace("http", "ws") + "/v1/agents/tiny/stream"
    headers = {"Authorization": f"Bearer {ANN}"}
    with connect(address, additional_headers=headers) as stream:
        session = json.loads(stream.recv())["session"]
        for key, status in ((None, 401), (BOB, 404)):
            sent = {} if key is None else {"Authorization": f"Bearer {key}"}
            with pytest.raises(InvalidStatus) as caught:
                connect(f"{address}?session={session}", additional_headers=sent)
            assert caught.value.response.status_code == status
        stream.send(json.dumps({"observation": [0.5]}))
        assert json.loads(stream.recv())["step"] == 1


def test_a_page_s_stream_bears_its_key_as_a_subprotocol(url):
    address = url.replace("http", "ws") + "/v1/agents/tiny/stream"
    with connect(address, subprotocols=["nmn", f"bearer.{ANN}"]) as stream:
        assert stream.subprotocol == "nmn" and json.loads(stream.recv())["step"] == 0
    with pytest.raises(InvalidStatus):
        connect(address, subprotocols=["nmn", "bearer.0123456789abcdef"])


@pytest.mark.parametrize("transport", ["http", "websocket"])
def test_our_client_brings_its_key(url, transport):
    with AgentClient(url, "tiny", transport=transport, api_key=ANN) as client:
        assert client.step([0.5]).shape == (1,)
    with pytest.raises(ServerError, match="needs an API key") as caught:
        AgentClient(url, "tiny", transport=transport)
    assert caught.value.status == 401


def test_sequences_of_the_same_id_are_each_key_s_own(url):
    observation = InferInput("observation", [1, 1], "FP32")
    observation.set_data_from_numpy(np.array([[0.5]], np.float32))
    client = InferenceServerClient(url.removeprefix("http://"))
    ann, bob = ({"Authorization": f"Bearer {key}"} for key in (ANN, BOB))
    client.infer("tiny", [observation], sequence_id=7, sequence_start=True, headers=ann)
    with pytest.raises(InferenceServerException, match="must specify the START flag"):
        client.infer("tiny", [observation], sequence_id=7, headers=bob)
    client.infer("tiny", [observation], sequence_id=7, sequence_start=True, sequence_end=True, headers=bob)
    reward = InferInput("prev_reward", [1, 1], "FP32")
    reward.set_data_from_numpy(np.array([[1.0]], np.float32))
    client.infer("tiny", [observation, reward], sequence_id=7, headers=ann)  # goes on
    client.close()


@pytest.mark.parametrize("path", ["/v1/agents/tiny/sessions", "/v1/agents/tiny/step", "/v2/models/tiny/infer"])
def test_what_a_foreign_page_sends_is_refused(url, path):
    with client_of(url, ANN) as client:
        for origin in ("https://else.example", "null", PAGE + ".else.example"):
            assert client.post(path, headers={"Origin": origin}).status_code == 403
        for headers in ({"Origin": PAGE}, {"Origin": url}, {"Origin": "https://else", "Sec-Fetch-Site": "same-origin"}):
            assert client.post(path, headers=headers).status_code != 403


def test_all_pages_may_connect_where_that_is_asked_for(agents):
    with serving(agents, "--cors-origins", "*") as server, httpx.Client(base_url=server.url) as client:
        for path in ("/v1/agents/tiny/sessions", "/v2/models/tiny/infer"):
            answer = client.post(path, headers={"Origin": PAGE})
            assert answer.status_code in (201, 400) and answer.headers["access-control-allow-origin"] == "*"
        with connect(server.url.replace("http", "ws") + "/v1/agents/tiny/stream", origin=PAGE) as stream:
            assert json.loads(stream.recv())["step"] == 0


def test_pages_of_a_listed_origin_may_connect(url):
    with client_of(url, ANN) as client:
        asked = {"Origin": PAGE, "Access-Control-Request-Method": "POST"}
        asked["Access-Control-Request-Headers"] = "authorization,content-type,inference-header-content-length"
        allowed = client.options("/v1/agents/tiny/sessions", headers=asked)
        assert allowed.status_code == 200 and allowed.headers["access-control-allow-origin"] == PAGE
        foreign = client.options("/v1/agents/tiny/sessions", headers={**asked, "Origin": "https://else.example"})
        assert "access-control-allow-origin" not in foreign.headers
        answer = client.post("/v1/agents/tiny/sessions", headers={"Origin": PAGE})
        assert answer.status_code == 201 and "location" in answer.headers["access-control-expose-headers"].lower()
    headers = {"Authorization": f"Bearer {ANN}"}
    with connect(
        url.replace("http", "ws") + "/v1/agents/tiny/stream", origin=PAGE, additional_headers=headers
    ) as stream:
        assert json.loads(stream.recv())["step"] == 0
