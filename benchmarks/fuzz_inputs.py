"""Inputs for the binary protocol's infer route that nobody should send: requests of Triton's client, altered.

Input number n of a seed is always the same, whatever was drawn before.
"""

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput

from nmn_keras.runtime import OnnxAgent

LENGTH = "Inference-Header-Content-Length"
NASTY: list[Any] = [
    *(None, True, False, 0, 1, -1, 3, 4, 4.0, 8.0, 0.5, -0.0, 1e308, 2**31, 2**32 + 4, 2**53, 2**63, 2**64 - 1, 2**64),
    *(
        10**40,
        "",
        "4",
        "FP32",
        "observation",
        "\x00",
        "é" * 100,
        "x" * 200,
        [],
        {},
        [[]],
        [None],
        {"binary_data_size": 4},
    ),
    *(
        [1, 1],
        [-1, -1],
        [0, 1],
        [1, -4],
        [2**31, 2**31],
        [2**62, 2**62],
        [2**62] * 300,
        [1] * 100,
        [1.0, 1.0],
        [[1, 1]],
    ),
    *("@deep 50@", "@deep 300@", "@deep 900@", "@deep 5000@"),
    *([1.5], ["1"], [True, True], [10**30], [1, 2**63], [[1.0], [1.0, 2.0]], [{}], [1e999], [-1e39, 1.0]),
]
LENGTHS = [
    "",
    "-1",
    "+5",
    "0",
    "1",
    "1e3",
    "0x10",
    "12.0",
    " 12",
    "1_0",
    "٣",
    "9" * 18,
    "9" * 19,
    "9" * 5000,
    "nan",
    "5, 5",
]
NUMBERS = [np.nan, np.inf, -np.inf, 3.4e38, -3.4e38, 1e-45, 0.0, 1.0]


@dataclass
class Input:
    """A request: its headers and its body, which may come in pieces, or break off."""

    headers: dict[str, str]
    body: bytes
    pieces: int = 1
    """In how many it is sent."""
    breaks_off: bool = False
    """Whether the last one never comes."""

    def split(self) -> list[bytes]:
        """Return the pieces that are sent."""
        size = max(1, -(-len(self.body) // self.pieces))
        pieces = [self.body[at : at + size] for at in range(0, len(self.body), size)]
        return pieces[:-1] if self.breaks_off else pieces

    def __str__(self) -> str:
        more = f"... ({len(self.body):,} bytes)" if len(self.body) > 2000 else ""
        return f"{self.headers} {self.pieces} pieces, breaks off: {self.breaks_off}\n{self.body[:2000]!r}{more}"


@dataclass
class Draft:
    """A request that is being altered."""

    message: Any
    binary: bytes
    headers: dict[str, str]
    length: str | None = None
    """Of the JSON, if the header is not to say what is true."""


def draw_input(agent: OnnxAgent, seed: int, number: int) -> Input:
    """Return an input: a request of Triton's client, altered in no, one or several ways."""
    rng = random.Random(f"{seed} {number}")
    draft = draw_request(agent, rng)
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
        rng.choice(ALTERATIONS)(draft, rng)
    body = write_out(draft)
    if rng.random() < 0.15:
        body = rng.choice(DAMAGES)(body, rng)
    pieces = rng.choice([1, 1, 1, 2, 7, max(1, len(body) // 3)])
    return Input(draft.headers, body, min(pieces, 300), rng.random() < 0.03)


def draw_request(agent: OnnxAgent, rng: random.Random) -> Draft:
    """Return what Triton's client sends for a step, stateless or of a sequence of its own."""
    rows, stateless = rng.choice([1, 1, 1, 2, 5]), rng.random() < 0.3
    sizes = {"observation": agent.observation_size, "prev_reward": 1, "prev_action": agent.action_size}
    if stateless:
        sizes["state_in"] = agent.state_size
    elif rng.random() < 0.5:
        del sizes["prev_action"]
    flags: dict[str, Any] = {}
    if not stateless:
        flags["sequence_id"] = rng.choice([rng.randrange(1, 20), f"fuzz {rng.randrange(20)}"])
        flags["sequence_start"], flags["sequence_end"] = rng.random() < 0.5, rng.random() < 0.2
        if flags["sequence_start"]:
            del sizes["prev_reward"]
            sizes.pop("prev_action", None)
    inputs = []
    for name, size in sizes.items():
        inputs.append(InferInput(name, [rows, size], "FP32"))
        array = np.array([[rng.gauss(0, 1) for _ in range(size)] for _ in range(rows)], np.float32)
        inputs[-1].set_data_from_numpy(array, binary_data=rng.random() < 0.8)
    names = ["action", "action_mean", "state_out"]
    outputs = [InferRequestedOutput(name, binary_data=rng.random() < 0.7) for name in rng.sample(names, 2)]
    body, length = InferenceServerClient.generate_request_body(inputs, outputs=rng.choice([outputs, None]), **flags)
    headers = {} if length is None else {LENGTH: str(length)}
    return Draft(json.loads(body[:length]), body[length:] if length else b"", headers)


def write_out(draft: Draft) -> bytes:
    """Return the body, and see to the header that says where its JSON ends."""
    head = re.sub(rb'"@deep (\d+)@"', _nested, json.dumps(draft.message).encode())
    if LENGTH in draft.headers:
        draft.headers[LENGTH] = str(len(head)) if draft.length is None else draft.length
    return head + draft.binary


def _nested(match: re.Match[bytes]) -> bytes:
    """Lists in lists, which Python's own encoder would not write so deep."""
    depth = int(match[1])
    return depth * b"[" + b"1" + depth * b"]"


def alter_anything(draft: Draft, rng: random.Random) -> None:
    """Put something strange, or nothing, in any place of the JSON."""
    places = list(_places(draft.message))
    if not places:
        return
    parent, key = rng.choice(places)
    if rng.random() < 0.2:
        del parent[key]
    else:
        parent[key] = _nasty(rng)


def alter_tensor(draft: Draft, rng: random.Random) -> None:
    """Alter what a tensor says of itself."""
    tensor = _any_input(draft, rng)
    if tensor is None:
        return
    member = rng.choice(["shape", "shape", "datatype", "name", "data", "binary_data_size", "rows"])
    if member == "binary_data_size":
        true = _as_dict(tensor.get("parameters")).get(member)
        almost = [float(true), str(true), [true]] if isinstance(true, int) else []  # the right number, but no integer
        tensor["parameters"] = {member: rng.choice([*almost, _nasty(rng)])}
    elif member == "rows":  # another number of them than the other tensors have
        tensor["shape"] = [rng.choice([1, 2, 3, 4]), *_as_list(tensor.get("shape"))[1:]]
    else:
        tensor[member] = _nasty(rng)


def alter_inputs(draft: Draft, rng: random.Random) -> None:
    """Leave a tensor out, give one twice, or change their order."""
    inputs = draft.message.get("inputs") if isinstance(draft.message, dict) else None
    if not isinstance(inputs, list) or not inputs:
        return
    change = rng.randrange(3)
    if change == 0:
        inputs.pop(rng.randrange(len(inputs)))
    elif change == 1:
        inputs.append(json.loads(json.dumps(rng.choice(inputs))))
    else:
        rng.shuffle(inputs)


def alter_parameters(draft: Draft, rng: random.Random) -> None:
    """Put something strange into the parameters of the request."""
    if isinstance(draft.message, dict):
        names = [
            "sequence_id",
            "sequence_start",
            "sequence_end",
            "deterministic",
            "seed",
            "priority",
            "binary_data_output",
        ]
        parameters = draft.message.get("parameters")
        draft.message["parameters"] = {
            **(parameters if isinstance(parameters, dict) else {}),
            rng.choice(names): rng.choice([_nasty(rng), True]),
        }


def alter_outputs(draft: Draft, rng: random.Random) -> None:
    """Ask for strange outputs, or for very many."""
    if isinstance(draft.message, dict):
        wanted = {"name": rng.choice(["action", "state_out", "z", "none", _nasty(rng)])}
        if rng.random() < 0.3:
            wanted["parameters"] = rng.choice([{"binary_data": _nasty(rng)}, {"classification": 3}, _nasty(rng)])
        draft.message["outputs"] = [wanted] * rng.choice([1, 2, 2, 300, 20_000 if rng.random() < 0.1 else 3])


def alter_numbers(draft: Draft, rng: random.Random) -> None:
    """Put numbers that are not finite, or hardly, into the binary data."""
    count = len(draft.binary) // 4
    if count:
        array = np.frombuffer(draft.binary, "<f4", count).copy()
        array[rng.randrange(count)] = rng.choice(NUMBERS)
        draft.binary = array.tobytes() + draft.binary[4 * count :]


def alter_length(draft: Draft, rng: random.Random) -> None:
    """Say something else about the length of the JSON."""
    draft.headers[LENGTH] = ""
    draft.length = rng.choice([rng.choice(LENGTHS), str(rng.randrange(400))])


def alter_binary(draft: Draft, rng: random.Random) -> None:
    """Cut the binary data, or add to them."""
    if rng.random() < 0.5:
        draft.binary = draft.binary[: rng.randrange(len(draft.binary) + 1)]
    else:
        draft.binary += rng.randbytes(rng.choice([1, 3, 4, 8, 400]))


def alter_shape_at_length(draft: Draft, rng: random.Random) -> None:
    """Give a tensor a shape of very many numbers."""
    tensor = _any_input(draft, rng)
    if tensor is not None:
        tensor["shape"] = [rng.choice([1, 2, 2**62])] * rng.choice([3, 64, 300, 45_000 if rng.random() < 0.02 else 30])


def alter_rows(draft: Draft, rng: random.Random) -> None:
    """Give a tensor more or fewer rows, with numbers for all of them."""
    tensor = _any_input(draft, rng)
    shape = _as_list(tensor.get("shape")) if tensor else []
    if tensor is not None and len(shape) == 2 and isinstance(shape[1], int) and 0 < shape[1] < 1000:
        rows = rng.choice([1, 2, 3, 6, 40, rng.choice([1024, 1025]) if rng.random() < 0.05 else 7])
        tensor["shape"], tensor["data"] = [rows, shape[1]], [0.5] * (rows * shape[1])
        tensor.pop("parameters", None)
        draft.binary = b""


def alter_headers(draft: Draft, rng: random.Random) -> None:
    """Send other headers."""
    name, values = rng.choice(
        [("Content-Encoding", ["gzip", "identity", ""]), ("Content-Type", ["text/plain", "application/json", ""])]
    )
    draft.headers[name] = rng.choice(values)


ALTERATIONS: list[Callable[[Draft, random.Random], None]] = [
    *(alter_anything, alter_anything, alter_tensor, alter_tensor, alter_inputs, alter_parameters, alter_parameters),
    *(alter_outputs, alter_numbers, alter_length, alter_binary, alter_shape_at_length, alter_rows, alter_headers),
]


def flip(body: bytes, rng: random.Random) -> bytes:
    """Change some bytes."""
    changed = bytearray(body)
    for _ in range(rng.randrange(1, 5)):
        if changed:
            changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def cut(body: bytes, rng: random.Random) -> bytes:
    """Leave out a part."""
    at, length = rng.randrange(len(body) + 1), rng.randrange(60)
    return body[:at] + body[at + length :]


def nest(body: bytes, rng: random.Random) -> bytes:
    """Nest JSON deeply somewhere in it."""
    depth, at = rng.choice([20, 70, 2000, 100_000 if rng.random() < 0.02 else 500]), body.find(b"[") + 1
    opened, closed = rng.choice([(b"[", b"]"), (b'{"a":', b"}")])
    return body[:at] + depth * opened + b"1" + depth * closed + rng.choice([b",", b""]) + body[at:]


def noise(body: bytes, rng: random.Random) -> bytes:
    """Return nothing of it."""
    return rng.randbytes(rng.choice([0, 1, 50, 3000]))


DAMAGES: list[Callable[[bytes, random.Random], bytes]] = [flip, flip, cut, cut, nest, noise]


def _places(node: Any) -> Any:
    """Yield every place of a JSON value, as what it is in and its key there."""
    keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else []
    for key in list(keys)[:40]:
        yield node, key
        yield from _places(node[key])


def _any_input(draft: Draft, rng: random.Random) -> dict[str, Any] | None:
    inputs = draft.message.get("inputs") if isinstance(draft.message, dict) else None
    tensors = [tensor for tensor in _as_list(inputs) if isinstance(tensor, dict)]
    return rng.choice(tensors) if tensors else None


def _as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _nasty(rng: random.Random) -> Any:
    return json.loads(json.dumps(rng.choice(NASTY)))  # a copy: alterations change values in place
