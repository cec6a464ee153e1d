"""Tensors of the Open Inference Protocol: JSON, or bytes behind it (Triton's binary_tensor_data)."""

import math
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import numpy as np
from starlette.responses import Response

from serve.compression import pack
from serve.problems import Problem

HEADER = "inference-header-content-length"
WIRE = np.dtype("<f4")


class Refused(Problem):
    """A request that the protocol answers with `{"error": ...}`."""

    def __init__(self, reason: str, status: int = 400):
        super().__init__(status, "refused", reason)


Size = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
# An array of numpy has at most 64 dimensions, and the product of very many sizes takes long to compute.
Shape = Annotated[list[Size], msgspec.Meta(min_length=1, max_length=8)]


class InferInput(msgspec.Struct):
    """An input tensor; its data follow the JSON where `parameters` holds `binary_data_size`."""

    name: str
    shape: Shape
    datatype: str
    parameters: dict[str, Any] = {}
    data: Any = None


class RequestedOutput(msgspec.Struct):
    """An output that is wanted."""

    name: str
    parameters: dict[str, Any] = {}


class InferRequest(msgspec.Struct):
    """An inference."""

    inputs: list[InferInput]
    id: str | None = None
    parameters: dict[str, Any] = {}
    outputs: list[RequestedOutput] = []


class InferOutput(msgspec.Struct, omit_defaults=True):
    """An output tensor; its data follow the JSON where `parameters` holds `binary_data_size`."""

    name: str
    datatype: str
    shape: list[int]
    parameters: dict[str, Any] = {}
    data: list[float] | None = None


class InferAnswer(msgspec.Struct, omit_defaults=True):
    """The outputs of an inference."""

    model_name: str
    model_version: str
    outputs: list[InferOutput]
    id: str | None = None


REQUEST = msgspec.json.Decoder(InferRequest)


def read(body: bytes, headers: Mapping[str, str]) -> tuple[InferRequest, dict[str, np.ndarray]]:
    """Read a request and its tensors.

    Raises:
        Refused: it is no such request.
    """
    length = _header_length(headers.get(HEADER), len(body))
    try:
        message = REQUEST.decode(body[:length])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(f"failed to parse the request JSON buffer: {error}") from error
    arrays: dict[str, np.ndarray] = {}
    binary = memoryview(body)[length:]
    for tensor in message.inputs:
        if tensor.name in arrays:
            raise Refused(f"input '{tensor.name}' is given twice")
        size = tensor.parameters.get("binary_data_size")
        arrays[tensor.name], taken = _array(tensor, size, binary)
        binary = binary[taken:]
    if len(binary):
        raise Refused(f"unexpected additional input data of {len(binary)} bytes")
    check_outputs(message)
    return message, arrays


def write(
    name: str, version: str, message: InferRequest, outputs: Mapping[str, np.ndarray], accepted: str = ""
) -> Response:
    """Return the answer: all outputs, or those that were wanted, each as JSON or binary as was asked for.

    Args:
        name: of the agent.
        version: of it.
        message: the request.
        outputs: by name.
        accepted: the request's Accept-Encoding, by which the answer is packed if it is large.
    """
    every = message.parameters.get("binary_data_output") is True
    wanted = message.outputs or [RequestedOutput(output) for output in outputs]
    described, blobs = [], []
    for output in wanted:
        array = np.ascontiguousarray(outputs[output.name], WIRE)
        about = InferOutput(output.name, "FP32", list(array.shape))
        if output.parameters.get("binary_data", every) is True:
            blobs.append(array.tobytes())
            about.parameters = {"binary_data_size": array.nbytes}
        else:
            about.data = array.ravel().tolist()
        described.append(about)
    head = msgspec.json.encode(InferAnswer(name, version, described, message.id))
    body, headers = pack(b"".join([head, *blobs]), accepted)
    if not blobs:
        return Response(body, 200, headers, "application/json")
    return Response(body, 200, {HEADER: str(len(head)), **headers}, "application/octet-stream")


def check_outputs(message: InferRequest) -> None:
    """Whether each is wanted once: a small request for one output very often would have a huge answer."""
    wanted: set[str] = set()
    for output in message.outputs:
        if output.name in wanted:
            raise Refused(f"output '{output.name}' is requested twice")
        wanted.add(output.name)


def _header_length(text: str | None, available: int) -> int:
    """Length of the JSON at the start of the body."""
    if text is None:
        return available
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= available):
        raise Refused(
            f"Inference-Header-Content-Length must be a number of bytes within the body ({available}). "
            f"Received: {text!r}"
        )
    return int(text)


def _array(tensor: InferInput, size: Any, binary: memoryview) -> tuple[np.ndarray, int]:
    """The tensor's array, and how many bytes of `binary` it took."""
    if tensor.datatype != "FP32":
        raise Refused(f"input '{tensor.name}' must be of datatype FP32. Received: {tensor.datatype}")
    count = math.prod(tensor.shape)
    if size is None:
        return _from_json(tensor, count), 0
    if type(size) is not int or size != count * WIRE.itemsize or size > len(binary):  # 4.0 equals 4
        raise Refused(
            f"input '{tensor.name}' of shape {tensor.shape} needs {count * WIRE.itemsize} bytes of binary data. "
            f"Received: binary_data_size {size!r}, {len(binary)} bytes"
        )
    return np.frombuffer(binary[:size], WIRE).reshape(tensor.shape), size


def _from_json(tensor: InferInput, count: int) -> np.ndarray:
    """The numbers of a flat or nested list."""
    try:
        array = np.asarray(tensor.data)
    except (ValueError, RecursionError):  # rows of different lengths
        array = np.asarray(None)
    if array.dtype.kind in "iuf" and array.size == count:
        with np.errstate(over="ignore"):  # what overflows is refused as not finite
            return array.astype(WIRE).reshape(tensor.shape)
    raise Refused(f"input '{tensor.name}' needs {count} numbers as `data`, for its shape {tensor.shape}")
