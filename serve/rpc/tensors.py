"""Tensors of the protocol's messages: as bytes (`raw_*_contents`) or as numbers (`contents`)."""

import math
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from serve.rpc.schema import message
from serve.tensors import WIRE, InferInput, InferRequest, Refused, RequestedOutput, Shape, check_outputs

RESPONSE = message("inference.ModelInferResponse")
DATATYPE = "FP32"
SHARED = "shared_memory_region"


def read(request: Any) -> tuple[InferRequest, dict[str, np.ndarray]]:
    """Read a `ModelInferRequest` and its tensors.

    Raises:
        Refused: it is no such request.
    """
    raw = request.raw_input_contents
    asked = InferRequest(
        [InferInput(one.name, list(one.shape), one.datatype, parameters(one.parameters)) for one in request.inputs],
        request.id,
        parameters(request.parameters),
        [RequestedOutput(one.name, parameters(one.parameters)) for one in request.outputs],
    )
    for name, told in [(one.name, one.parameters) for one in (*request.inputs, *request.outputs)]:
        if SHARED in told:
            raise Refused(f"'{name}' is in shared memory, which this server does not use", 501)
    if len(raw) > len(asked.inputs):
        raise Refused(f"unexpected additional input data for model '{request.model_name}'")
    arrays: dict[str, np.ndarray] = {}
    for index, (tensor, sent) in enumerate(zip(asked.inputs, request.inputs, strict=True)):
        if tensor.name in arrays:
            raise Refused(f"input '{tensor.name}' is given twice")
        count = _count(tensor)
        array = _from_raw(tensor, count, sent, raw, index) if raw else _from_numbers(sent, count)
        arrays[tensor.name] = array.reshape(tensor.shape)
    check_outputs(asked)
    return asked, arrays


def write(name: str, version: str, asked: InferRequest, outputs: Mapping[str, np.ndarray], raw: bool) -> Any:
    """Return the `ModelInferResponse`: all outputs, or those that were wanted; as bytes if `raw`."""
    response = RESPONSE(model_name=name, model_version=version, id=asked.id or "")
    for wanted in [one.name for one in asked.outputs] or outputs:
        array = np.ascontiguousarray(outputs[wanted], WIRE)
        described = response.outputs.add(name=wanted, datatype=DATATYPE, shape=array.shape)
        if raw:
            response.raw_output_contents.append(array.tobytes())
        else:
            described.contents.fp32_contents.extend(array.ravel().tolist())
    return response


def wants_raw(request: Any, asked: InferRequest) -> bool:
    """Whether the answer's tensors come as bytes: as those of the request, if `binary_data_output` says nothing."""
    return bool(asked.parameters.get("binary_data_output", len(request.raw_input_contents) > 0))


def parameters(sent: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as Python's values; None for one that has none."""
    chosen = {name: (value, value.WhichOneof("parameter_choice")) for name, value in sent.items()}
    return {name: getattr(value, kind) if kind else None for name, (value, kind) in chosen.items()}


def _count(tensor: InferInput) -> int:
    """How many numbers the tensor has."""
    if tensor.datatype != DATATYPE:
        raise Refused(f"input '{tensor.name}' must be of datatype {DATATYPE}. Received: {tensor.datatype}")
    try:
        return math.prod(msgspec.convert(tensor.shape, Shape))
    except msgspec.ValidationError as error:
        raise Refused(f"unexpected shape for input '{tensor.name}': {error}. Received: {tensor.shape}") from error


def _from_raw(tensor: InferInput, count: int, sent: Any, raw: Any, index: int) -> np.ndarray:
    if sent.HasField("contents"):
        raise Refused(f"contents field must not be specified when using raw_input_contents for '{tensor.name}'")
    if index >= len(raw):
        raise Refused(f"unable to find data for input '{tensor.name}': {len(raw)} raw_input_contents for more inputs")
    if len(raw[index]) != count * WIRE.itemsize:
        raise Refused(
            f"input '{tensor.name}' of shape {tensor.shape} needs {count * WIRE.itemsize} bytes. "
            f"Received: {len(raw[index])} bytes"
        )
    return np.frombuffer(raw[index], WIRE)


def _from_numbers(sent: Any, count: int) -> np.ndarray:
    numbers = sent.contents.fp32_contents
    if len(numbers) != count:
        raise Refused(
            f"input '{sent.name}' of shape {list(sent.shape)} needs {count} numbers as fp32_contents, or bytes in "
            f"raw_input_contents. Received: {len(numbers)} numbers"
        )
    return np.array(numbers, WIRE)
