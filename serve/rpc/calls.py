"""Calls: whose an RPC is, what it is answered if it is refused, and that it is counted and logged."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import unquote

import grpc

from serve.access import Access, bearer_of
from serve.operations import Observer
from serve.problems import Problem

CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    404: grpc.StatusCode.NOT_FOUND,
    409: grpc.StatusCode.FAILED_PRECONDITION,
    410: grpc.StatusCode.NOT_FOUND,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    422: grpc.StatusCode.INVALID_ARGUMENT,
    501: grpc.StatusCode.UNIMPLEMENTED,
    503: grpc.StatusCode.UNAVAILABLE,
}
"""What HTTP's statuses are over gRPC."""

Handler = Callable[[Any, "Call"], Awaitable[Any]]


class Call:
    """One RPC.

    Attributes:
        context: gRPC's own.
        owner: whose it is, see `Access`.
        metadata: that came with it.
    """

    def __init__(self, context: grpc.aio.ServicerContext):
        self.context = context
        self.metadata = dict(context.invocation_metadata() or ())
        self.owner = ""

    @property
    def client(self) -> str:
        """The client's address without its port."""
        kind, _, address = unquote(self.context.peer()).partition(":")
        return address.rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else ""


class Calls:
    """Makes gRPC's handlers of ours.

    Args:
        access: decides whose a call is.
        observer: told of every answer.
    """

    def __init__(self, access: Access, observer: Observer):
        self._access = access
        self._observer = observer

    def answering(self, service: str, method: str, handler: Handler, public: bool) -> Callable[[Any, Any], Any]:
        """Return what gRPC calls with the request, or the requests' iterator, and its context."""

        async def answer(request: Any, context: grpc.aio.ServicerContext) -> Any:
            begun, call, code = time.perf_counter(), Call(context), grpc.StatusCode.CANCELLED
            try:
                try:
                    if not public:
                        call.owner = self._access.owner_of(bearer_of(call.metadata.get("authorization", "")))
                    if isinstance(request, Problem):  # it could not be read
                        raise request
                    response = await handler(request, call)
                    code = grpc.StatusCode.OK
                    return response
                except Exception as error:
                    problem = problem_of(error)
                    code = code_of(problem)
                    await context.abort(code, text_of(problem), trailing(problem))
            finally:
                agent = getattr(request, "model_name", "") or getattr(request, "name", "") or None
                seconds = time.perf_counter() - begun
                self._observer.observe_call(service, method, agent, code.name, seconds, call.client, call.owner)

        return answer


def problem_of(error: Exception) -> Problem:
    """Return what a client is told of an error: nothing of the server's insides, which go to the log."""
    if isinstance(error, Problem):
        return error
    logging.getLogger("uvicorn.error").error("An RPC failed.", exc_info=error)
    return Problem(500, "internal-error", "The server failed. No session was changed.")


def code_of(problem: Problem) -> grpc.StatusCode:
    """Return a problem's status."""
    return CODES.get(problem.details.status, grpc.StatusCode.INTERNAL)


def text_of(problem: Problem) -> str:
    """Return a problem's text."""
    return problem.details.detail + (f" (at {problem.details.path})" if problem.details.path else "")


def trailing(problem: Problem) -> tuple[tuple[str, str], ...]:
    """Return the metadata that come with a problem: `retry-after`, in seconds, where waiting helps."""
    seconds = problem.details.retry_after
    return () if seconds is None else (("retry-after", str(seconds)),)


async def finish(work: Awaitable[Any]) -> Any:
    """Wait for work that goes on though the client has left: a round is not broken off halfway."""
    return await asyncio.shield(asyncio.ensure_future(work))
