"""gRPC: unmodified clients of Triton, of gRPC's health checks and of the bare protocol against real servers."""

import asyncio
import gzip
import json
import os
import queue
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import httpx
import numpy as np
import pytest
from google.protobuf import descriptor_pb2, json_format
from grpc_health.v1 import health_pb2, health_pb2_grpc
from server_process import ROOT, serving
from test_open_inference import OUTPUTS
from test_workers import read_metrics
from tritonclient.grpc import InferenceServerClient, InferInput, InferRequestedOutput, model_config_pb2, service_pb2
from tritonclient.grpc.aio import InferenceServerClient as AsyncClient
from tritonclient.http import InferenceServerClient as HttpClient
from tritonclient.http import InferInput as HttpInput
from tritonclient.utils import InferenceServerException

from nmn_keras import zoo
from serve.rpc import schema

RPC = ROOT / "serve" / "rpc"
KEY, OTHER = "0123456789abcdef", "fedcba9876543210"
ALL = ("observation", "prev_action", "prev_reward", "state_in")


@pytest.fixture(scope="module")
def server(agents):
    with serving(agents, "--grpc-port", "0", "--max-sessions", "200") as server:
        yield server


@pytest.fixture(scope="module")
def triton(server):
    with InferenceServerClient(server.grpc) as client:
        yield client


def tensors(kind=InferInput, **arrays):
    inputs = []
    for name, array in arrays.items():
        array = np.asarray(array, np.float32)
        inputs.append(kind(name, list(array.shape), "FP32"))
        inputs[-1].set_data_from_numpy(array)
    return inputs


def played(agent, steps, seed=0):
    """What an episode sends, all inputs always, and every output in process."""
    rng, state = np.random.default_rng(seed), agent.initial_state(1)
    action, reward = np.zeros((1, agent.action_size), np.float32), np.zeros((1, 1), np.float32)
    for _ in range(steps):
        observation = rng.standard_normal((1, agent.observation_size)).astype(np.float32)
        outputs = agent.step(observation, action, reward, state)
        yield dict(zip(ALL, (observation, action, reward, state), strict=True)), outputs
        action, state = outputs["action"], outputs["state_out"]
        reward = rng.standard_normal((1, 1)).astype(np.float32)


def assert_refused(code, message, call, *args, **kwargs):
    with pytest.raises(InferenceServerException, match=message) as caught:
        call(*args, **kwargs)
    assert caught.value.status() == f"StatusCode.{code}"


class Streamed:
    """A stream of Triton's client."""

    def __init__(self, client, **options):
        self._answers = queue.Queue()
        self._client = client
        client.start_stream(lambda result, error: self._answers.put((result, error)), **options)

    def send(self, *args, **kwargs):
        self._client.async_stream_infer(*args, **kwargs)

    def answer(self):
        return self._answers.get(timeout=20)


# The messages


def test_the_compiled_services_are_those_of_the_proto_files(tmp_path):
    command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={RPC}", "inference.proto", "health.proto"]
    subprocess.run([*command, f"--descriptor_set_out={tmp_path}/set"], check=True)
    made, kept = (
        descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes()) for path in (tmp_path / "set", schema.COMPILED)
    )
    assert made == kept and len(kept.file) == 2


def shape_of(fields):
    return {
        field.number: (field.name, field.type, field.is_repeated, field.message_type and field.message_type.full_name)
        for field in fields
    }


def test_names_and_numbers_are_triton_s():
    theirs = service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods
    ours = schema.methods(schema.SERVICE)
    assert {(m.name, m.input_type.full_name, m.output_type.full_name, m.client_streaming) for m in ours} == {
        (m.name, m.input_type.full_name, m.output_type.full_name, m.client_streaming) for m in theirs
    }
    compared = 0
    known = {**service_pb2.DESCRIPTOR.message_types_by_name, **model_config_pb2.DESCRIPTOR.message_types_by_name}
    pairs = [(schema.POOL.FindFileByName("inference.proto").message_types_by_name[name], known[name]) for name in known
             if name in schema.POOL.FindFileByName("inference.proto").message_types_by_name]  # fmt: skip
    while pairs:
        our, their = pairs.pop()
        mine, all_fields = shape_of(our.fields), shape_of(their.fields)
        assert mine.items() <= all_fields.items(), our.full_name
        if their.file.name == "grpc_service.proto":  # of the configuration there is a part
            assert mine.keys() == all_fields.keys(), our.full_name
        assert {o.name for o in our.oneofs} <= {o.name for o in their.oneofs}
        pairs += [(nested, their.nested_types_by_name[nested.name]) for nested in our.nested_types]
        compared += len(mine)
    assert compared > 150
    health = schema.POOL.FindFileByName("health.proto").message_types_by_name
    for name in ("HealthCheckRequest", "HealthCheckResponse"):
        fields = health_pb2.DESCRIPTOR.message_types_by_name[name].fields
        assert [(f.name, f.number, f.type) for f in health[name].fields] == [(f.name, f.number, f.type) for f in fields]
    statuses = health["HealthCheckResponse"].enum_types_by_name["ServingStatus"].values_by_number
    assert {n: v.name for n, v in statuses.items()} == {
        n: v.name for n, v in health_pb2.HealthCheckResponse.ServingStatus.DESCRIPTOR.values_by_number.items()
    }


# Triton's client


def test_health_metadata_and_configuration(triton, agents):
    assert triton.is_server_live() and triton.is_server_ready() and triton.is_model_ready("tiny", "1")
    assert not triton.is_model_ready("none") and not triton.is_model_ready("tiny", "2")
    assert {*triton.get_server_metadata().extensions} >= {"sequence", "sequence(string_id)", "statistics"}
    metadata = triton.get_model_metadata("pair")
    assert [(tensor.name, [*tensor.shape]) for tensor in metadata.inputs][:2] == [
        ("observation", [-1, 2]),
        ("prev_action", [-1, 2]),
    ]
    assert [tensor.name for tensor in metadata.outputs] == [*OUTPUTS] and metadata.versions == ["1"]
    config = triton.get_model_config("pair").config
    assert config.WhichOneof("scheduling_choice") == "sequence_batching" and config.max_batch_size == 0
    assert [(tensor.name, [*tensor.dims]) for tensor in config.input][:2] == [(name, [-1, 2]) for name in ALL[:2]]
    assert not config.model_transaction_policy.decoupled
    index = triton.get_model_repository_index().models
    assert [(model.name, model.state) for model in index] == [(name, "READY") for name in ("loud", "pair", "tiny")]


@pytest.mark.parametrize("name", ["b1-nmn", "b2-nmn", "b3-rnn"])
def test_sequences_are_stateless_steps_are_an_episode_in_process(zoo_server, name):
    """All inputs always sent, zeros at the start; sequences of one unary client, a stream, asyncio and HTTP."""
    agent = zoo.load(name, runtime="onnx")
    steps = 40
    with InferenceServerClient(zoo_server.grpc) as client, HttpClient(zoo_server.url.removeprefix("http://")) as http:
        stream = Streamed(client)

        def stateless(inputs, over_http, **_):
            return client.infer(name, tensors(**inputs))

        def unary(inputs, over_http, **flags):
            return client.infer(name, tensors(**inputs), sequence_id=2**62, **flags)

        def streamed(inputs, over_http, **flags):
            stream.send(name, tensors(**inputs), sequence_id="streamed", **flags)
            result, error = stream.answer()
            assert error is None
            return result

        def either(inputs, over_http, **flags):
            """One sequence, over either protocol in turn."""
            by, kind = (http, HttpInput) if over_http else (client, InferInput)
            return by.infer(name, tensors(kind, **inputs), sequence_id=7, **flags)

        ways = (stateless, unary, streamed, either)
        states = [agent.initial_state(1)] * len(ways)
        for taken, (sent, expected) in enumerate(played(agent, steps)):
            flags = {"sequence_start": taken == 0, "sequence_end": taken == steps - 1}
            for index, way in enumerate(ways):  # each sends back the state that it was answered
                result = way({**sent, "state_in": states[index]}, taken % 2, **flags)
                states[index] = result.as_numpy("state_out")
                assert np.max(np.abs(result.as_numpy("action") - expected["action"]) / agent.action_scale) < 1e-5
                assert np.max(np.abs(states[index] - expected["state_out"])) < 1e-5
        client.stop_stream()


@pytest.fixture(scope="module")
def zoo_server():
    with serving(ROOT / "zoo", "--grpc-port", "0", "--agents", "b1-nmn", "b2-nmn", "b3-rnn") as server:
        yield server


def test_asyncio_and_threads_take_steps_too(server, agents):
    agent = zoo.load("tiny", runtime="onnx", zoo=agents)
    episode = list(played(agent, 20))

    async def play(number, streamed):
        async with AsyncClient(server.grpc) as client:

            def flags(taken):
                return {"sequence_id": number, "sequence_start": taken == 0, "sequence_end": taken == 19}

            async def requests():
                for taken, (sent, _) in enumerate(episode):
                    yield {"model_name": "tiny", "inputs": tensors(**sent), **flags(taken)}

            if streamed:
                answers = [answer async for answer in client.stream_infer(requests())]
                assert all(error is None for _, error in answers)
                return [result.as_numpy("action") for result, _ in answers]
            results = [await client.infer("tiny", tensors(**sent), **flags(t)) for t, (sent, _) in enumerate(episode)]
            return [result.as_numpy("action") for result in results]

    async def play_all():
        return await asyncio.gather(*[play(1000 + number, number % 2) for number in range(12)])

    expected = [outputs["action"] for _, outputs in episode]
    for actions in asyncio.run(play_all()):
        np.testing.assert_array_equal(actions, expected)

    with InferenceServerClient(server.grpc) as client:
        answers = queue.Queue()
        inputs = tensors(**episode[0][0])
        client.async_infer(
            "tiny", inputs, lambda result, error: answers.put((result, error)), sequence_id=4321, sequence_start=True
        )
        result, error = answers.get(timeout=20)
        assert error is None
        np.testing.assert_array_equal(result.as_numpy("action"), expected[0])


def test_only_the_wanted_outputs_come_and_compressed_requests_are_taken(triton):
    wanted = [InferRequestedOutput("z"), InferRequestedOutput("action")]
    for algorithm in (None, "gzip", "deflate"):
        result = triton.infer(
            "tiny",
            tensors(observation=[[0.5]]),
            outputs=wanted,
            sequence_id=77,
            sequence_start=True,
            request_id="r7",
            compression_algorithm=algorithm,
        )
        assert [output.name for output in result.get_response().outputs] == ["z", "action"]
        assert result.as_numpy("z").shape == (1, 3) and result.get_response().id == "r7"


def test_sampled_sequences_repeat_with_their_seed(triton):
    def act(sequence, seed):
        chosen = {"deterministic": False, "seed": seed}
        flags = {"sequence_id": sequence, "sequence_start": True, "parameters": chosen}
        return triton.infer("tiny", tensors(observation=[[0.5]]), **flags).as_numpy("action")[0, 0]

    assert act(1, 3) == act("one", 3) != act(2, 4)


@pytest.mark.parametrize(
    ("code", "message", "arrays", "options"),
    [
        ("INVALID_ARGUMENT", "missing required input.*prev_action", {"observation": [[0.5]]}, {}),
        ("INVALID_ARGUMENT", "unexpected inference input 'obs'", {"obs": [[0.5]]}, {}),
        ("INVALID_ARGUMENT", r"Expected \[-1, 1\], got \[1, 2\]", {"observation": [[0.5, 0.5]]}, {}),
        ("INVALID_ARGUMENT", "finite", {"observation": [[np.nan]]}, {"sequence_id": 9, "sequence_start": True}),
        ("INVALID_ARGUMENT", "must specify the START flag", {"observation": [[0.5]]}, {"sequence_id": 9}),
        (
            "INVALID_ARGUMENT",
            "may be absent or zeros",
            {"observation": [[0.5]], "prev_reward": [[1.0]]},
            {"sequence_id": 9, "sequence_start": True},
        ),
        ("INVALID_ARGUMENT", "'sequence_id'", {"observation": [[0.5]]}, {"sequence_id": "x" * 129}),
        ("NOT_FOUND", "unknown model: 'none'", {"observation": [[0.5]]}, {"model_name": "none"}),
        ("NOT_FOUND", "version 2 is not found", {"observation": [[0.5]]}, {"model_version": "2"}),
        ("RESOURCE_EXHAUSTED", "larger than max", {"observation": np.zeros((300_000, 1))}, {}),
    ],
)
def test_refusals_have_triton_s_status(triton, code, message, arrays, options):
    assert_refused(code, message, triton.infer, **{"model_name": "tiny", "inputs": tensors(**arrays), **options})


def test_a_small_request_that_unpacks_to_a_large_one_is_refused(server, triton):
    bomb = tensors(observation=np.zeros((50_000_000, 1)))
    before = resident(server.process.pid)
    assert_refused("RESOURCE_EXHAUSTED", "max", triton.infer, "tiny", bomb, compression_algorithm="gzip")
    assert resident(server.process.pid) - before < 50_000_000
    assert len(gzip.compress(bytes(200_000_000), 1)) < 2**20


def resident(pid):
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read())[1]) * 1024


def test_what_is_not_done_is_said_and_what_is_read_is_answered(triton):
    for call, args in [
        (triton.load_model, ("tiny",)),
        (triton.unload_model, ("tiny",)),
        (triton.register_system_shared_memory, ("region", "/key", 8)),
        (triton.register_cuda_shared_memory, ("region", b"aGFuZGxl", 0, 8)),
        (triton.update_trace_settings, ("tiny", {"trace_level": ["TIMESTAMPS"]})),
        (triton.update_log_settings, ({"log_info": True},)),
    ]:
        assert_refused("UNIMPLEMENTED", "not supported|server runs|started with", call, *args)
    shared = InferInput("observation", [1, 1], "FP32")
    shared.set_shared_memory("region", 4)
    assert_refused("UNIMPLEMENTED", "shared memory", triton.infer, "tiny", [shared], sequence_id=1, sequence_start=True)
    assert not triton.get_system_shared_memory_status().regions and not triton.get_cuda_shared_memory_status().regions
    assert_refused("NOT_FOUND", "'region'", triton.get_system_shared_memory_status, "region")
    triton.unregister_system_shared_memory()
    triton.unregister_cuda_shared_memory("region")
    assert triton.get_trace_settings().settings["trace_level"].value == ["OFF"]
    assert not triton.get_log_settings().settings["log_info"].bool_param


def test_a_stream_answers_in_order_and_goes_on_after_a_refusal(server):
    with InferenceServerClient(server.grpc) as client:
        stream = Streamed(client)
        observation = tensors(observation=[[0.5]])
        for sequence in range(100, 140):
            stream.send("tiny", observation, sequence_id=sequence, sequence_start=True, request_id=str(sequence))
        stream.send("tiny", observation, sequence_id=99, request_id="no start")
        stream.send("tiny", tensors(observation=[[0.1]], prev_reward=[[1.0]]), sequence_id=100, request_id="second")
        answers = [stream.answer() for _ in range(42)]
        assert [result.get_response().id for result, _ in answers[:40]] == [str(number) for number in range(100, 140)]
        assert answers[0][0].get_response().parameters["triton_final_response"].bool_param
        assert answers[40][0] is None and "must specify the START flag" in answers[40][1].message()
        assert answers[41][0].get_response().id == "second"
        client.stop_stream()
        ending = Streamed(client, headers={"triton_grpc_error": "true"})
        ending.send("tiny", observation, sequence_id=99)
        result, error = ending.answer()
        assert result is None and error.status() == "StatusCode.INVALID_ARGUMENT"
        client.stop_stream()


def test_a_stream_that_is_cancelled_leaves_its_sequence_whole(server):
    with InferenceServerClient(server.grpc) as client:
        stream = Streamed(client)
        stream.send("tiny", tensors(observation=[[0.5]]), sequence_id=555, sequence_start=True)
        stream.answer()
        for _ in range(30):
            stream.send("tiny", tensors(observation=[[0.1]], prev_reward=[[0.0]]), sequence_id=555)
        client.stop_stream(cancel_requests=True)
        result = client.infer("tiny", tensors(observation=[[0.1]], prev_reward=[[0.0]]), sequence_id=555)
        assert np.isfinite(result.as_numpy("action")).all()


# The bare protocol


@pytest.fixture(scope="module")
def bare(server):
    """Stubs made of our .proto file's description alone, as any client's are made of the protocol's."""
    with grpc.insecure_channel(server.grpc) as channel:

        class Bare:
            def __getattr__(self, name):
                (method,) = [each for each in schema.methods(schema.SERVICE) if each.name == name]
                taken, given = (schema.message(t.full_name) for t in (method.input_type, method.output_type))
                path = f"/{schema.SERVICE}/{name}"
                call = channel.unary_unary(path, taken.SerializeToString, given.FromString)
                return lambda message=None: call(json_format.ParseDict(message or {}, taken()))

        yield Bare()


def one(name, value, **more):
    return {"name": name, "datatype": "FP32", "shape": [1, 1], "contents": {"fp32_contents": [value]}, **more}


def started(*inputs, **more):
    flags = {"sequence_id": {"int64_param": 8}, "sequence_start": {"bool_param": True}}
    return {"model_name": "tiny", "inputs": [*inputs], "parameters": flags, **more}


def test_numbers_are_answered_by_numbers_and_bytes_by_bytes(bare, agents):
    inputs = [np.array([[value]], np.float32) for value in (0.5, 0.0, 0.0)] + [np.zeros((1, 6), np.float32)]
    expected = zoo.load("tiny", runtime="onnx", zoo=agents).step(*inputs)["action"]
    numbers = bare.ModelInfer(started(one("observation", 0.5)))
    assert [*numbers.outputs[0].contents.fp32_contents] == pytest.approx([expected[0, 0]], rel=1e-6)
    assert not numbers.raw_output_contents and numbers.outputs[0].shape == [1, 1]
    sent = json_format.MessageToDict(
        schema.message("inference.ModelInferRequest")(raw_input_contents=[np.float32(0.5).tobytes()])
    )
    bytes_ = bare.ModelInfer(started({"name": "observation", "datatype": "FP32", "shape": [1, 1]}, **sent))
    np.testing.assert_array_equal(np.frombuffer(bytes_.raw_output_contents[0], np.float32), expected[0])
    assert not bytes_.outputs[0].HasField("contents")
    asked = started(one("observation", 0.5))
    asked["parameters"]["binary_data_output"] = {"bool_param": True}
    assert bare.ModelInfer(asked).raw_output_contents[0] == bytes_.raw_output_contents[0]


@pytest.mark.parametrize(
    ("tensor", "more", "message"),
    [
        ({"contents": {}}, {}, "needs 1 numbers as fp32_contents"),
        ({"contents": {"fp32_contents": [1, 2]}}, {}, "Received: 2 numbers"),
        ({"contents": {"fp64_contents": [1]}}, {}, "Received: 0 numbers"),
        ({"datatype": "FP64"}, {}, "must be of datatype FP32. Received: FP64"),
        ({"shape": [-1, -1]}, {}, "unexpected shape"),
        ({"shape": []}, {}, "unexpected shape"),
        ({"shape": [2**62, 2**62]}, {}, "unexpected shape"),
        ({"shape": [1] * 300}, {}, "unexpected shape"),
        ({"shape": [0, 1], "contents": {}}, {}, "unexpected shape"),
        ({}, {"raw_input_contents": ["AAAAAA=="]}, "contents field must not be specified"),
        ({}, {"raw_input_contents": ["AAAAAA==", "AAAAAA=="]}, "unexpected additional input data"),
        ({"contents": None}, {"raw_input_contents": ["AAAA"]}, "needs 4 bytes. Received: 3 bytes"),
        ({}, {"inputs": [one("observation", 1.0), one("observation", 1.0)]}, "given twice"),
        ({}, {"outputs": [{"name": "z"}, {"name": "z"}]}, "requested twice"),
        ({}, {"parameters": {"sequence_id": {"bool_param": True}}}, "Unable to parse 'sequence_id'"),
        ({}, {"parameters": {"sequence_id": {}}}, "Unable to parse 'sequence_id'"),
        ({}, {"parameters": {"sequence_id": {"int64_param": -1}}}, "Unable to parse 'sequence_id'"),
    ],
)
def test_bad_tensors_are_refused(bare, tensor, more, message):
    with pytest.raises(grpc.RpcError, match=re.escape(message)) as caught:
        bare.ModelInfer(started({**one("observation", 0.5), **tensor}, **more))
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_garbage_and_unknown_methods_break_nothing(server, bare):
    with grpc.insecure_channel(server.grpc) as channel:
        for path, content in [(f"/{schema.SERVICE}/ModelInfer", b"\xff" * 50), (f"/{schema.SERVICE}/Nothing", b"")]:
            with pytest.raises(grpc.RpcError) as caught:
                channel.unary_unary(path)(content)
            assert caught.value.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED)
    assert bare.ServerLive().live


# Operators


def test_a_health_check_of_any_client_knows_the_server(agents):
    with serving(agents, "--grpc-port", "0") as server, grpc.insecure_channel(server.grpc) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for service in ("", "inference.GRPCInferenceService"):
            assert stub.Check(health_pb2.HealthCheckRequest(service=service)).status == 1
        with pytest.raises(grpc.RpcError) as caught:
            stub.Check(health_pb2.HealthCheckRequest(service="other"))
        assert caught.value.code() == grpc.StatusCode.NOT_FOUND
        watched = stub.Watch(health_pb2.HealthCheckRequest())
        assert next(watched).status == 1
        unknown = stub.Watch(health_pb2.HealthCheckRequest(service="other"))
        assert next(unknown).status == 3
        server.process.send_signal(signal.SIGTERM)
        assert next(watched).status == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_streams_and_the_server(agents, number):
    with serving(agents, "--grpc-port", "0") as server, InferenceServerClient(server.grpc) as client:
        stream = Streamed(client)
        stream.send("tiny", tensors(observation=[[0.5]]), sequence_id=1, sequence_start=True)
        assert stream.answer()[1] is None
        server.process.send_signal(number)
        result, error = stream.answer()
        assert result is None and error.status() == "StatusCode.UNAVAILABLE" and "stopping" in error.message()
        assert server.process.wait(timeout=20) == 0


def test_keys_belong_to_their_sequences(agents, tmp_path):
    (tmp_path / "keys.txt").write_text(f"{KEY}\n{OTHER}\n")
    mine, others = ({"authorization": f"Bearer {key}"} for key in (KEY, OTHER))
    sent = {"model_name": "tiny", "inputs": tensors(observation=[[0.5]]), "sequence_id": 4}
    with serving(agents, "--grpc-port", "0", "--api-keys", str(tmp_path / "keys.txt")) as server:
        with InferenceServerClient(server.grpc) as client, HttpClient(server.url.removeprefix("http://")) as http:
            assert client.is_server_live() and client.is_server_ready()
            for headers in (None, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {KEY}"}):
                assert_refused("UNAUTHENTICATED", "API key", client.infer, **sent, headers=headers)
                assert_refused("UNAUTHENTICATED", "API key", client.get_model_metadata, "tiny", headers=headers)
            stream = Streamed(client)
            assert stream.answer()[1].status() == "StatusCode.UNAUTHENTICATED"
            client.stop_stream()
            client.infer(**sent, sequence_start=True, headers=mine)
            assert_refused("INVALID_ARGUMENT", "START", client.infer, **sent, headers=others)
            second = {"observation": [[0.1]], "prev_reward": [[0.0]]}
            with pytest.raises(InferenceServerException, match="START"):
                http.infer("tiny", tensors(HttpInput, **second), sequence_id=4, headers=others)
            http.infer("tiny", tensors(HttpInput, **second), sequence_id=4, headers=mine)


def test_what_is_counted_and_logged(agents):
    command = [sys.executable, "-m", "serve", "--port", "0", "--grpc-port", "0", "--zoo", str(agents), "--access-log"]
    process = subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    greeting = "".join(process.stdout.readline() for _ in range(3))
    url = re.search(r"http://[\d.:]+", greeting)[0]
    httpx.get(f"{url}/health/live")
    with InferenceServerClient(re.search(r"gRPC is at (\S+)\.", greeting)[1]) as client:
        client.infer("pair", tensors(observation=[[0.5, 0.5]] * 3), sequence_id=1, sequence_start=True)
        with pytest.raises(InferenceServerException):
            client.infer("pair", tensors(observation=[[0.5, 0.5]]), sequence_id=2)
        stream = Streamed(client)
        stream.send("pair", tensors(observation=[[0.5, 0.5]]), sequence_id=3, sequence_start=True)
        stream.answer()
        client.stop_stream()
        assert client.is_server_live()
        statistics = client.get_inference_statistics("pair").model_stats[0]
        assert len(client.get_inference_statistics().model_stats) == 3
    with httpx.Client(base_url=url) as http:
        counted = read_metrics(http)
    process.terminate()
    _, errors = process.communicate(timeout=20)
    assert (statistics.inference_count, statistics.execution_count) == (4, 2)
    stats = statistics.inference_stats
    assert (stats.success.count, stats.fail.count, stats.compute_infer.count) == (2, 1, 2)
    assert stats.success.ns > stats.compute_infer.ns > 0 and stats.fail.ns > 0
    assert abs(statistics.last_inference / 1000 - time.time()) < 60
    assert counted['nv_inference_request_success{model="pair",version="1"}'] == 2
    assert counted['nv_inference_request_failure{model="pair",version="1"}'] == 1
    of = "nmn_grpc_requests_total{"
    service = 'service="inference.GRPCInferenceService"'
    assert counted[f'{of}code="OK",method="ModelInfer",{service}}}'] == 1
    assert counted[f'{of}code="INVALID_ARGUMENT",method="ModelInfer",{service}}}'] == 1
    assert counted[f'{of}code="OK",method="ModelStreamInfer",{service}}}'] == 1
    lines = [line for line in map(json.loads, errors.splitlines()) if line["method"] == "gRPC"]
    assert [(line["route"].rpartition("/")[2], line["agent"], line["status"]) for line in lines[:4]] == [
        ("ModelInfer", "pair", "OK"),
        ("ModelInfer", "pair", "INVALID_ARGUMENT"),
        ("ModelStreamInfer", None, "OK"),
        ("ServerLive", None, "OK"),
    ]
    assert all(line["client"] == "127.0.0.1" and line["seconds"] > 0 for line in lines)


def test_workers_share_the_port_and_the_sequences(agents, tmp_path):
    flags = ("--workers", "2", "--store", f"sqlite:///{tmp_path}/sessions.db", "--grpc-port", "0")
    own = [("grpc.use_local_subchannel_pool", 1)]  # a connection, and so perhaps a worker, of its own
    agent = zoo.load("tiny", runtime="onnx", zoo=agents)
    with serving(agents, *flags) as server:
        address = server.grpc

        def ask(call):
            for _ in range(100):
                try:
                    with InferenceServerClient(address, channel_args=own) as client:
                        return call(client)
                except InferenceServerException as error:
                    if error.status() != "StatusCode.UNAVAILABLE":
                        raise
                    time.sleep(0.1)  # the other worker is still being started
            raise AssertionError("no worker answers")

        for taken, (sent, expected) in enumerate(played(agent, 20)):
            inputs = tensors(**sent)
            result = ask(
                lambda client, inputs=inputs, taken=taken: client.infer(
                    "tiny", inputs, sequence_id="shared", sequence_start=taken == 0
                )
            )
            np.testing.assert_array_equal(result.as_numpy("action"), expected["action"])
        with ThreadPoolExecutor(8) as pool:
            for _ in range(100):  # what the other worker counted is known after a second
                each = list(pool.map(lambda _: ask(lambda client: client.get_inference_statistics("tiny")), range(8)))
                if {found.model_stats[0].inference_stats.success.count for found in each} == {20}:
                    break
                time.sleep(0.1)
            else:
                raise AssertionError("The workers do not count together.")


def test_the_load_balancer_takes_calls_and_streams(agents, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from balancer import balancing, find_haproxy
    from servers import free_port

    if not find_haproxy():
        pytest.skip("haproxy is not installed: apt-get install haproxy")
    port = free_port()
    with serving(agents, "--grpc-port", "0") as server:
        ports = [int(address.rpartition(":")[2]) for address in (server.url, server.grpc)]
        with balancing(["127.0.0.1"], ports[0], port, ports[1]), InferenceServerClient(f"127.0.0.1:{port}") as client:
            for _ in range(100):
                try:
                    client.is_server_live()
                    break
                except InferenceServerException:  # it has not asked the server for its health yet
                    time.sleep(0.1)
            one = client.infer("tiny", tensors(observation=[[0.5]]), sequence_id=1, sequence_start=True)
            stream = Streamed(client)
            stream.send("tiny", tensors(observation=[[0.5]]), sequence_id=2, sequence_start=True)
            result, error = stream.answer()
            assert error is None
            np.testing.assert_array_equal(result.as_numpy("action"), one.as_numpy("action"))
            client.stop_stream()


def run_serve(*flags, **variables):
    command = [sys.executable, *variables.pop("before", ()), "-m", "serve", "--port", "0", *flags]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, env={**os.environ, **variables}
    )


def test_a_port_that_is_taken_is_said(server, agents):
    port = server.grpc.rpartition(":")[2]
    done = run_serve("--zoo", str(agents), "--grpc-port", port)
    assert done.returncode == 2 and "Choose another --grpc-port" in done.stderr and done.stderr.count("\n") == 1


def test_without_grpcio_the_server_runs_and_the_option_names_the_extra(agents, tmp_path):
    """As where it is not installed: no module `grpc` is found."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'grpc':\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Missing())\n"
    )
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    script = "import serve.app, serve.workers, sys; print('grpc' in sys.modules)"
    imported = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert imported.stdout == "False\n", imported.stderr
    done = run_serve("--zoo", str(agents), "--grpc-port", "0", PYTHONPATH=path)
    assert done.returncode == 2 and 'pip install "nmn_keras[grpc]"' in done.stderr and done.stderr.count("\n") == 1
