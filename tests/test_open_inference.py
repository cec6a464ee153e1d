"""The Open Inference Protocol, by an unmodified Triton client against a real server."""

import asyncio
import json

import httpx
import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from server_process import serving
from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput
from tritonclient.utils import InferenceServerException

from nmn_keras import zoo

OUTPUTS = ("action", "action_mean", "action_log_std", "z", "state_out")


@pytest.fixture(scope="module")
def url(agents):
    with serving(agents, "--max-sessions", "200") as server:
        yield server.url


@pytest.fixture(scope="module")
def triton(url):
    with InferenceServerClient(url.removeprefix("http://")) as client:
        yield client


@pytest.fixture(scope="module")
def pair(agents):
    return zoo.load("pair", runtime="onnx", zoo=agents)


def tensors(binary=True, **arrays):
    inputs = []
    for name, array in arrays.items():
        array = np.asarray(array, np.float32)
        inputs.append(InferInput(name, list(array.shape), "FP32"))
        inputs[-1].set_data_from_numpy(array, binary_data=binary)
    return inputs


def test_health_and_metadata(triton, agents):
    assert triton.is_server_live() and triton.is_server_ready() and triton.is_model_ready("tiny")
    assert not triton.is_model_ready("none")
    assert {"sequence", "sequence(string_id)", "binary_tensor_data"} <= {*triton.get_server_metadata()["extensions"]}
    metadata = triton.get_model_metadata("pair")
    assert metadata["inputs"][0] == {"name": "observation", "datatype": "FP32", "shape": [-1, 2]}
    assert [output["name"] for output in metadata["outputs"]] == [*OUTPUTS]
    assert triton.get_model_metadata("pair", model_version="1") == metadata


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("rows", [1, 3])
def test_a_stateless_inference_is_a_step_in_process(triton, pair, binary, rows):
    rng = np.random.default_rng(rows)
    state = pair.initial_state(rows)
    for _ in range(5):
        inputs = [rng.standard_normal((rows, size)).astype("float32") for size in (2, 2, 1)]
        expected = pair.step(*inputs, state)
        sent = dict(zip(("observation", "prev_action", "prev_reward", "state_in"), (*inputs, state), strict=True))
        result = triton.infer("pair", tensors(binary, **sent), request_id="r7")
        assert result.get_response()["id"] == "r7"
        for name in OUTPUTS:
            np.testing.assert_array_equal(result.as_numpy(name), expected[name])
        state = result.as_numpy("state_out")


def test_only_the_wanted_outputs_come(triton):
    wanted = [InferRequestedOutput("z", binary_data=False), InferRequestedOutput("action", binary_data=True)]
    result = triton.infer("tiny", tensors(observation=[[0.5]]), outputs=wanted, sequence_id=77, sequence_start=True)
    assert [output["name"] for output in result.get_response()["outputs"]] == ["z", "action"]
    assert result.as_numpy("z").shape == (1, 3) and result.as_numpy("action").shape == (1, 1)
    assert result.as_numpy("action_mean") is None


@pytest.mark.parametrize("sequence", [42, 2**64 - 1, "robot 7"])
@pytest.mark.parametrize("rows", [1, 2])
def test_a_sequence_is_an_episode_in_process(triton, pair, sequence, rows):
    rng, state = np.random.default_rng(3), pair.initial_state(rows)
    action, reward, sent = np.zeros((rows, 2), "float32"), np.zeros((rows, 1), "float32"), {}
    for taken in range(20):
        sent["observation"] = observation = rng.standard_normal((rows, 2)).astype("float32")
        expected = pair.step(observation, action, reward, state)
        flags = {"sequence_id": sequence, "sequence_start": taken == 0, "sequence_end": taken == 19}
        result = triton.infer("pair", tensors(**sent), **flags)
        for name in OUTPUTS:
            np.testing.assert_array_equal(result.as_numpy(name), expected[name])
        action, state = expected["action"], expected["state_out"]
        reward = rng.standard_normal((rows, 1)).astype("float32")
        sent = {"prev_reward": reward}
        if taken % 3 == 0:  # another action was played
            action = rng.standard_normal((rows, 2)).astype("float32")
            sent["prev_action"] = action
    with pytest.raises(InferenceServerException, match="must specify the START flag"):
        triton.infer("pair", tensors(**sent, observation=observation), sequence_id=sequence)


@pytest.mark.parametrize("rows", [1, 2])
def test_a_client_may_send_all_inputs_always(triton, pair, rows):
    rng = np.random.default_rng(4)
    sizes = {"observation": 2, "prev_action": 2, "prev_reward": 1, "state_in": len(pair.initial_state(1)[0])}
    sent = {name: np.zeros((rows, size), "float32") for name, size in sizes.items()}
    for taken in range(8):
        flags = {"sequence_id": 71, "sequence_start": taken == 0}
        if taken in (3, 5):
            for name, wrong in (("state_in", sent["state_in"] + 1), ("state_in", sent["state_in"][:, :-1])):
                with pytest.raises(InferenceServerException, match="state_in"):
                    triton.infer("pair", tensors(**{**sent, name: wrong}), **flags)
        expected = triton.infer("pair", tensors(**sent))
        told = {**sent, "state_in": 0 * sent["state_in"]} if taken % 2 else sent
        result = triton.infer("pair", tensors(**told), **flags)
        for name in OUTPUTS:
            np.testing.assert_array_equal(result.as_numpy(name), expected.as_numpy(name))
        sent["prev_action"], sent["state_in"] = result.as_numpy("action"), result.as_numpy("state_out")
        sent["observation"] = rng.standard_normal((rows, 2)).astype("float32")
        sent["prev_reward"] = rng.standard_normal((rows, 1)).astype("float32")


@pytest.mark.parametrize("name", ["prev_action", "prev_reward", "state_in"])
def test_what_is_not_zero_comes_from_nowhere_at_the_start(triton, pair, name):
    size = {"prev_action": 2, "prev_reward": 1, "state_in": len(pair.initial_state(1)[0])}[name]
    arrays = {"observation": [[0.5, 0.5]], name: [[0.25] * size]}
    with pytest.raises(InferenceServerException, match="zeros"):
        triton.infer("pair", tensors(**arrays), sequence_id=72, sequence_start=True)


def test_a_sequence_that_starts_again_starts_anew(triton):
    first = triton.infer("tiny", tensors(observation=[[0.5]]), sequence_id=5, sequence_start=True)
    triton.infer("tiny", tensors(observation=[[0.7]], prev_reward=[[1.0]]), sequence_id=5)
    again = triton.infer("tiny", tensors(observation=[[0.5]]), sequence_id=5, sequence_start=True, sequence_end=True)
    np.testing.assert_array_equal(first.as_numpy("action"), again.as_numpy("action"))


def test_sampled_sequences_repeat_with_their_seed(triton):
    def act(sequence, seed):
        chosen = {"deterministic": False, "seed": seed}
        flags = {"sequence_id": sequence, "sequence_start": True, "parameters": chosen}
        return triton.infer("tiny", tensors(observation=[[0.5]]), **flags).as_numpy("action")[0, 0]

    assert act(1, 3) == act("one", 3) != act(2, 4)


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        ({"observation": [[0.5]]}, {}, "missing required input.*prev_action"),
        ({"obs": [[0.5]]}, {}, "unexpected inference input 'obs' for model 'tiny'"),
        ({"observation": [[0.5, 0.5]]}, {}, r"Expected \[-1, 1\], got \[1, 2\]"),
        ({"observation": [[np.nan]]}, {"sequence_id": 9, "sequence_start": True}, "finite"),
        (
            {"observation": [[0.5]]},
            {"sequence_id": 9},
            "inference request for sequence 9 to model 'tiny' must specify the START flag on the first request of the "
            "sequence",
        ),
        ({"state_in": [[0.0] * 6]}, {"sequence_id": 9, "sequence_start": True}, "takes the input 'observation'"),
        ({"observation": [[0.5]]}, {"sequence_id": "x" * 129, "sequence_start": True}, "Unable to parse 'sequence_id'"),
        (
            {"observation": [[0.5]]},
            {"sequence_id": 9, "sequence_start": True, "parameters": {"seed": -1}},
            "Unable to parse the parameters",
        ),
    ],
)
def test_refusals_have_triton_s_form(triton, arrays, options, message):
    with pytest.raises(InferenceServerException, match=message) as caught:
        triton.infer("tiny", tensors(**arrays), **options)
    assert caught.value.status() == "400"


def test_a_refused_step_leaves_the_sequence_as_it_was(triton):
    triton.infer("tiny", tensors(observation=[[0.5]]), sequence_id=11, sequence_start=True)
    triton.infer("tiny", tensors(observation=[[0.5]]), sequence_id=12, sequence_start=True)
    for bad in ({"observation": [[0.1]]}, {"observation": [[np.inf]], "prev_reward": [[0.0]]}):
        with pytest.raises(InferenceServerException):
            triton.infer("tiny", tensors(**bad), sequence_id=11)
    actions = [
        triton.infer("tiny", tensors(observation=[[0.3]], prev_reward=[[2.0]]), sequence_id=i).as_numpy("action")
        for i in (11, 12)
    ]
    np.testing.assert_array_equal(*actions)


def test_as_many_rows_come_as_the_sequence_began_with_and_nobody_else_is_harmed(triton, url):
    triton.infer("pair", tensors(observation=[[0.5, 0.5]]), sequence_id=31, sequence_start=True)
    session = httpx.post(f"{url}/v1/agents/tiny/sessions").json()["session"]
    two = {
        "inputs": [
            {"name": name, "shape": [2, size], "datatype": "FP32", "data": [0.5] * 2 * size}
            for name, size in (("observation", 2), ("prev_reward", 1))
        ],
        "parameters": {"sequence_id": 31},
    }

    async def send_both():
        async with httpx.AsyncClient(base_url=url) as client:
            wrong = [client.post("/v2/models/pair/infer", json=two) for _ in range(4)]
            right = client.post(f"/v1/sessions/{session}/step", json={"observation": [0.5], "reward": 0.0})
            return await asyncio.gather(*wrong, right)

    for _ in range(5):  # whichever of them share a round
        *wrong, right = asyncio.run(send_both())
        assert right.status_code == 200, right.text
        assert {answer.status_code for answer in wrong} == {400}
        assert "as many rows as the sequence began with" in wrong[0].json()["error"]
    one = tensors(observation=[[0.5, 0.5]], prev_reward=[[0.0]])
    assert triton.infer("pair", one, sequence_id=31).as_numpy("action").shape == (1, 2)


def test_a_sequence_is_no_session_of_the_native_api(triton, url):
    triton.infer("tiny", tensors(observation=[[0.5]]), sequence_id="mine", sequence_start=True)
    assert httpx.get(f"{url}/v1/sessions/mine").status_code == 404


def test_an_unknown_model_is_404_and_foreign_pages_are_kept_out(url):
    for path in ("none/infer", "tiny/versions/2/infer"):
        answer = httpx.post(f"{url}/v2/models/{path}", json={"inputs": []})
        assert answer.status_code == 404 and "unknown model" in answer.json()["error"]
    for origin in ("http://evil.example", "http://[", "null"):
        answer = httpx.post(f"{url}/v2/models/tiny/infer", json={"inputs": []}, headers={"Origin": origin})
        assert answer.status_code == 403


TENSOR = {"name": "observation", "shape": [1, 1], "datatype": "FP32"}
SEQUENCE = {"sequence_id": 9, "sequence_start": True}


@pytest.mark.parametrize(
    "tensor",
    [
        {"data": ["1.0"]},
        {"data": [True]},
        {"data": [[1.0, 2.0]]},
        {"data": [[1.0], [2.0, 3.0]]},
        {"data": [1e999]},
        {"data": [10**400]},
        {"data": {}},
        {},
        {"shape": [], "data": [1.0]},
        {"shape": [-1, -1], "data": [1.0]},
        {"shape": [0, 1], "data": []},
        {"shape": [2**62, 2**62], "data": [1.0]},
        {"datatype": "FP64", "data": [1.0]},
        {"parameters": {"binary_data_size": 4}},
        {"parameters": {"binary_data_size": -4}},
        {"parameters": {"binary_data_size": "4"}},
        {"parameters": {"binary_data_size": True}},
        {"shape": [2**62] * 300, "data": [1.0]},
        {"shape": [1] * 300, "data": [1.0]},
        {"shape": [10**4000] * 8, "data": [1.0]},
    ],
)
def test_bad_tensors_are_refused(url, tensor):
    body = {"parameters": SEQUENCE, "inputs": [{**TENSOR, **tensor}]}
    answer = httpx.post(f"{url}/v2/models/tiny/infer", content=json.dumps(body))
    assert answer.status_code == 400 and answer.json()["error"], answer.text


def test_a_size_of_binary_data_is_a_whole_number(url):
    tensor = {**TENSOR, "parameters": {"binary_data_size": 4.0}}
    head = json.dumps({"parameters": SEQUENCE, "inputs": [tensor]}).encode()
    sent = {"content": head + bytes(4), "headers": {"Inference-Header-Content-Length": str(len(head))}}
    answer = httpx.post(f"{url}/v2/models/tiny/infer", **sent)
    assert answer.status_code == 400 and "binary_data_size 4.0" in answer.json()["error"]


def test_an_output_is_given_once(url):
    body = {"parameters": SEQUENCE, "inputs": [{**TENSOR, "data": [0.5]}], "outputs": [{"name": "z"}, {"name": "z"}]}
    answer = httpx.post(f"{url}/v2/models/tiny/infer", json=body)
    assert answer.status_code == 400 and "'z'" in answer.json()["error"]


@pytest.mark.parametrize("rows", [1, 3])
def test_each_row_of_a_sequence_needs_its_reward(triton, rows):
    triton.infer("tiny", tensors(observation=[[0.5], [0.5]]), sequence_id=21, sequence_start=True)
    with pytest.raises(InferenceServerException, match="reward"):
        triton.infer("tiny", tensors(observation=[[0.5], [0.5]], prev_reward=[[1.0]] * rows), sequence_id=21)


@settings(max_examples=300, deadline=None)
@given(
    more=st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*TENSOR, "data"]), inner),
        max_leaves=12,
    ),
    length=st.none() | st.integers(-2, 300) | st.text("0123456789 -+eE.x", max_size=4),
    binary=st.binary(max_size=20),
    cut=st.integers(0, 200),
)
def test_no_bytes_break_the_binary_protocol(url, more, length, binary, cut):
    whole = msgspec.json.encode({"inputs": [{**TENSOR, "parameters": {"binary_data_size": len(binary)}}], "more": more})
    body = (whole + binary)[: -cut or None]
    headers = {} if length is None else {"Inference-Header-Content-Length": str(length).strip()}
    with httpx.Client() as client:
        answer = client.post(f"{url}/v2/models/tiny/infer", content=body, headers=headers)
    assert answer.status_code == 400 and answer.json()["error"]
