"""Clients that pack their bodies, dawdle, or ask what Triton would answer."""

import contextlib
import gzip
import json
import socket
import time
import zlib

import httpx
import numpy as np
import pytest
from server_process import serving
from test_open_inference import tensors
from tritonclient.http import InferenceServerClient, InferRequestedOutput
from tritonclient.utils import InferenceServerException

LIMIT = 1 << 20
STEP = {"observation": [0.5]}


@pytest.fixture(scope="module")
def server(agents):
    with serving(agents, "--request-seconds", "2") as server:
        yield server


@pytest.fixture(scope="module")
def client(server):
    with httpx.Client(base_url=server.url, timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
def triton(server):
    with InferenceServerClient(server.url.removeprefix("http://")) as client:
        yield client


def raw_deflate(body):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(body) + packer.flush()


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip.compress),
        ("x-gzip", gzip.compress),
        ("GZIP", lambda body: gzip.compress(body[:5]) + gzip.compress(body[5:])),
        ("deflate", zlib.compress),
        ("identity", bytes),
    ],
)
def test_packed_bodies_are_read(client, encoding, pack):
    def send(body, **headers):
        answer = client.post(
            "/v1/agents/tiny/step", content=body, headers={"Content-Type": "application/json", **headers}
        )
        assert answer.status_code == 200, answer.text
        return answer.json()

    body = json.dumps(STEP).encode()
    assert send(pack(body), **{"Content-Encoding": encoding}) == send(body)


@pytest.mark.parametrize("path", ["/v1/agents/tiny/step", "/v2/models/tiny/infer"])
def test_what_cannot_be_unpacked_is_refused(client, path):
    def refused(status, body, encoding):
        headers = {"Content-Type": "application/json", "Content-Encoding": encoding}
        answer = client.post(path, content=body, headers=headers)
        assert answer.status_code == status, answer.text
        assert answer.json()["error" if "v2" in path else "detail"]
        return answer

    body = json.dumps(STEP).encode()
    for encoding in ("br", "zstd", "gzip, gzip"):
        assert refused(415, body, encoding).headers["accept-encoding"] == "gzip, deflate"
    for damaged in (body, gzip.compress(body)[:-9], gzip.compress(body) + b"more", b""):
        if damaged or "v2" in path:
            refused(400, damaged, "gzip")
    refused(400, raw_deflate(body), "deflate")


def test_a_bomb_is_413_and_is_not_unpacked(server, client):
    def resident():
        with open(f"/proc/{server.process.pid}/statm") as statm:
            return int(statm.read().split()[1]) * 4096

    packer = zlib.compressobj(9, wbits=31)
    bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(500)) + packer.flush()
    assert 400_000 < len(bomb) < LIMIT
    before = resident()
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    for path in ("/v1/agents/tiny/step", "/v2/models/tiny/infer", "/v1/agents/tiny/sessions"):
        answer = client.post(path, content=bomb, headers=headers)
        assert answer.status_code == 413 and "1048576" in answer.text
    assert resident() - before < 64 << 20  # of 500 MiB
    two = gzip.compress(b" " * (LIMIT - 10)) + gzip.compress(b" " * 11)
    assert client.post("/v1/agents/tiny/sessions", content=two, headers=headers).status_code == 413


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
@pytest.mark.parametrize("binary", [True, False])
def test_a_triton_client_packs_and_is_answered_packed(triton, client, algorithm, binary):
    rng = np.random.default_rng(0)
    arrays = {
        name: rng.standard_normal((300, size), "float32") for name, size in (("prev_action", 1), ("prev_reward", 1))
    }
    arrays |= {"observation": rng.standard_normal((300, 1), "float32"), "state_in": np.zeros((300, 6), "float32")}
    outputs = [InferRequestedOutput(name, binary_data=binary) for name in ("action", "state_out")]
    plain = triton.infer("tiny", tensors(binary, **arrays), outputs=outputs)
    packed = triton.infer(
        "tiny",
        tensors(binary, **arrays),
        outputs=outputs,
        request_compression_algorithm=algorithm,
        response_compression_algorithm=algorithm,
    )
    for name in ("action", "state_out"):
        np.testing.assert_array_equal(packed.as_numpy(name), plain.as_numpy(name))
    body = {
        "inputs": [
            {"name": name, "shape": [*array.shape], "datatype": "FP32", "data": array.ravel().tolist()}
            for name, array in arrays.items()
        ]
    }
    answer = client.post("/v2/models/tiny/infer", json=body, headers={"Accept-Encoding": f"br, {algorithm};q=0.5"})
    assert answer.headers["content-encoding"] == algorithm and len(answer.json()["outputs"]) == 5
    for refused in ("identity", f"{algorithm};q=0"):
        answer = client.post("/v2/models/tiny/infer", json=body, headers={"Accept-Encoding": refused})
        assert "content-encoding" not in answer.headers


def test_statistics_are_what_was_counted(triton):
    def figures():
        (found,) = triton.get_inference_statistics("pair")["model_stats"]
        return found

    before = figures()
    started = time.time()
    inputs = dict(observation=[[0.5, 0.5]] * 3, prev_action=[[0.0, 0.0]] * 3, prev_reward=[[0.0]] * 3)
    triton.infer("pair", tensors(**inputs, state_in=np.zeros((3, 7))))
    triton.infer("pair", tensors(observation=[[0.5, 0.5]]), sequence_id=3, sequence_start=True)
    with pytest.raises(InferenceServerException):
        triton.infer("pair", tensors(observation=[[0.5, 0.5]]), sequence_id=3)  # no reward
    after = figures()
    assert after["inference_count"] - before["inference_count"] == 4
    assert after["execution_count"] - before["execution_count"] == 2
    assert started - 1 < after["last_inference"] / 1000 < time.time() + 1
    for part, count in {"success": 2, "fail": 1, "compute_infer": 2, "queue": 0, "cache_hit": 0}.items():
        told = {
            key: after["inference_stats"][part][key] - before["inference_stats"][part][key] for key in ("count", "ns")
        }
        assert told["count"] == count and (0 < told["ns"] < 60e9 if count else told["ns"] == 0)
    assert triton.get_inference_statistics("pair", "1")["model_stats"] == [after]
    every = triton.get_inference_statistics()["model_stats"]
    assert [of["name"] for of in every] == ["loud", "pair", "tiny"] and after in every
    with pytest.raises(InferenceServerException, match="unknown model"):
        triton.get_inference_statistics("none")


def test_every_call_of_a_triton_client_that_reads_is_answered(triton):
    assert [model["name"] for model in triton.get_model_repository_index()] == ["loud", "pair", "tiny"]
    assert {model["state"] for model in triton.get_model_repository_index()} == {"READY"}
    config = triton.get_model_config("pair")
    assert config["input"][0] == {"name": "observation", "data_type": "TYPE_FP32", "dims": [-1, 2]}
    assert config["sequence_batching"] == {"max_sequence_idle_microseconds": 3600 * 10**6}
    assert config == triton.get_model_config("pair", "1")
    assert triton.get_trace_settings() == triton.get_trace_settings("pair") == {"trace_level": ["OFF"]}
    assert triton.get_log_settings()["log_error"] is True
    assert triton.get_system_shared_memory_status() == triton.get_cuda_shared_memory_status() == []
    assert {"statistics", "model_configuration"} <= {*triton.get_server_metadata()["extensions"]}
    for call in (triton.get_system_shared_memory_status, triton.get_cuda_shared_memory_status):
        with pytest.raises(InferenceServerException, match="not in shared memory"):
            call("mine")
    for change in (
        lambda: triton.load_model("pair"),
        lambda: triton.unload_model("pair"),
        lambda: triton.update_trace_settings(settings={"trace_level": ["OFF"]}),
        lambda: triton.update_trace_settings("pair", {"trace_level": ["OFF"]}),
        lambda: triton.update_log_settings({"log_info": False}),
        lambda: triton.register_system_shared_memory("mine", "/mine", 8),
        lambda: triton.unregister_system_shared_memory("mine"),
        lambda: triton.unregister_cuda_shared_memory(),
    ):
        with pytest.raises(InferenceServerException, match="is not supported"):
            change()


HEAD = b"POST /v1/agents/tiny/step HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HT",
        HEAD,
        HEAD + b"Content-Length: 22\r\n\r\n{",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
        b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\nGET /health/li",
    ],
    ids=["nothing", "line", "headers", "body", "chunks", "second"],
)
def test_two_hundred_slow_connections_are_ended(server, client, sent):
    address = (httpx.URL(server.url).host, httpx.URL(server.url).port)
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection(address, timeout=20)) for _ in range(200)]
        for connection in slow:
            connection.sendall(sent)
        assert client.get("/health/live").status_code == 200
        for connection in slow:
            connection.settimeout(20)
            told = b""
            with contextlib.suppress(ConnectionResetError):
                while more := connection.recv(1 << 16):  # until the server closes
                    told += more
            if sent.startswith(b"GET /health"):
                assert told.count(b"HTTP/1.1 ") == 1 and b"200 OK" in told  # as if it had not begun another one
            else:
                assert told == b"" if not sent else told.startswith(b"HTTP/1.1 408 Request Timeout\r\n"), told
    session = client.post("/v1/agents/tiny/sessions").json()["session"]
    assert client.post(f"/v1/sessions/{session}/step", json=STEP).status_code == 200


def test_a_request_that_trickles_is_ended_and_one_in_time_is_not(server):
    address = (httpx.URL(server.url).host, httpx.URL(server.url).port)
    body = json.dumps(STEP).encode()
    whole = HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
    with socket.create_connection(address, timeout=20) as connection:
        for _ in range(2):  # the second one has its own time
            for piece in (whole[:20], whole[20:60], whole[60:-3], whole[-3:]):
                connection.sendall(piece)
                time.sleep(0.15)
            assert b" 200 OK" in connection.recv(1 << 16)
            time.sleep(0.5)
    with socket.create_connection(address, timeout=20) as connection:
        told = b""
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nName: ")
        with contextlib.suppress(ConnectionError):
            for _ in range(40):
                connection.sendall(b"x")  # a byte now and then does not count as progress
                time.sleep(0.1)
        with contextlib.suppress(ConnectionError):
            told = connection.recv(1 << 16)
        assert told == b"" or told.startswith(b"HTTP/1.1 408")
        with pytest.raises(ConnectionError):
            for _ in range(100):
                connection.sendall(b"x")
                time.sleep(0.05)


def test_an_open_stream_is_not_ended(server):
    from websockets.sync.client import connect

    with connect(server.url.replace("http", "ws") + "/v1/agents/tiny/stream") as stream:
        stream.recv(timeout=20)
        time.sleep(2.5)
        stream.send(json.dumps(STEP))
        assert "action" in stream.recv(timeout=20)
