"""What the Open Inference Protocol answers beside inferences."""

import msgspec


class ServerMetadata(msgspec.Struct):
    """The server's name and version, and the extensions it speaks."""

    name: str
    version: str
    extensions: list[str]


class ServerLive(msgspec.Struct):
    """Whether the process answers."""

    live: bool


class ServerReady(msgspec.Struct):
    """Whether agents can be stepped."""

    ready: bool


class ModelReady(msgspec.Struct):
    """Whether an agent can be stepped."""

    name: str
    ready: bool


class TensorMetadata(msgspec.Struct):
    """An input or output of an agent; -1 in its shape is any number of rows."""

    name: str
    datatype: str
    shape: list[int]


class ModelMetadata(msgspec.Struct):
    """An agent, its inputs and its outputs."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


class Failure(msgspec.Struct):
    """Why a request was refused."""

    error: str
