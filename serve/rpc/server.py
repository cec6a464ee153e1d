"""The gRPC server, in the event loop of the application over HTTP."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grpc
from google.protobuf import message_factory
from google.protobuf.message import DecodeError

from serve.access import Access
from serve.inspection import Inspection
from serve.operations import Observer
from serve.rpc import health, inference
from serve.rpc.calls import Calls
from serve.rpc.schema import HEALTH, SERVICE, methods
from serve.tensors import Refused

DRAIN_SECONDS = 2
"""How long calls in progress are waited for at the end, when HTTP's have been."""
KEEPALIVE_MS = 60_000
"""After so long without a word a client is asked whether it is there."""
PING_MS = 10_000
"""Clients may ask that often."""


class RpcServer:
    """Serves the agents of an application over gRPC.

    Args:
        address: host and port to listen on, as `127.0.0.1:8001` or `[::1]:8001`. Several processes may have the same.
        access: decides whose a call is.
        observer: told of every answer.
        inspection: with its `inference`, what answers over HTTP.
        check: raises `Problem` if the server is not ready.
    """

    def __init__(
        self,
        address: str,
        access: Access,
        observer: Observer,
        inspection: Inspection,
        check: Callable[[], Awaitable[None]],
    ):
        self._inference = inference.InferenceService(inspection, check)
        self._health = health.HealthService(check)
        self._server = grpc.aio.server(options=_options(inspection.inference.native.max_body_bytes))
        calls = Calls(access, observer)
        handlers = [
            _handler(SERVICE, self._inference, inference.PUBLIC, calls),
            _handler(HEALTH, self._health, health.PUBLIC, calls),
        ]
        self._server.add_generic_rpc_handlers(handlers)
        self._server.add_insecure_port(address)

    async def start(self) -> None:
        """Begin to answer."""
        await self._server.start()

    async def stop(self) -> None:
        """Take no more calls, finish those in progress, end streams."""
        ending = asyncio.ensure_future(self._server.stop(DRAIN_SECONDS))
        await asyncio.sleep(0)  # from here on no call is taken
        self._inference.stop()
        self._health.stop()
        await ending


def _options(max_bytes: int) -> list[tuple[str, int]]:
    return [
        ("grpc.so_reuseport", 1),
        ("grpc.max_receive_message_length", max_bytes),
        ("grpc.max_send_message_length", -1),  # what an answer has follows from its request
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        ("grpc.http2.min_ping_interval_without_data_ms", PING_MS),
        ("grpc.keepalive_permit_without_calls", 1),
    ]


def _handler(service: str, servicer: Any, public: Sequence[str], calls: Calls) -> grpc.GenericRpcHandler:
    """Return gRPC's handler of a service: each of its methods by the servicer's of that name."""
    handlers = {}
    for method in methods(service):
        answer = calls.answering(service, method.name, getattr(servicer, method.name), method.name in public)
        kind = f"{_word(method.client_streaming)}_{_word(method.server_streaming)}_rpc_method_handler"
        taken, given = (message_factory.GetMessageClass(type_) for type_ in (method.input_type, method.output_type))
        handlers[method.name] = getattr(grpc, kind)(answer, _decoder(taken), given.SerializeToString)
    return grpc.method_handlers_generic_handler(service, handlers)


def _decoder(kind: Any) -> Callable[[bytes], Any]:
    """Return what reads a message, or returns why it cannot: gRPC itself would log a traceback and send it."""

    def decode(content: bytes) -> Any:
        try:
            return kind.FromString(content)
        except DecodeError:
            return Refused(f"The message is no {kind.DESCRIPTOR.full_name}.")

    return decode


def _word(streaming: bool) -> str:
    return "stream" if streaming else "unary"
