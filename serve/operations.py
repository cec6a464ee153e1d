"""Operations: one request that the server answers, what it takes and gives, and the endpoint that carries it out."""

import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TextIO

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from serve.access import Access
from serve.metrics import Metrics
from serve.problems import Problem, ProblemDetails

Handler = Callable[[Request], Awaitable[Response]]


class Operation(msgspec.Struct, frozen=True):
    """What stands in the route table and in the OpenAPI document."""

    method: str
    path: str
    handler: Handler
    """Its docstring says what the operation does."""
    body: Any = None
    """The message it takes, one of several if it is a union."""
    answer: Any = None
    """The message it gives."""
    status: int = 200
    query: dict[str, Any] = {}
    """Query parameters: their types, described."""
    headers: dict[str, Any] = {}
    """Request headers that say something of the body: their types, described."""
    takes: tuple[str, ...] = ("application/json",)
    """Media types of the body."""
    gives: tuple[str, ...] = ("application/json",)
    """Media types of the answer."""
    example: Any = None
    """A body that the first served agent takes."""
    refusals: tuple[int, ...] = ()
    """Statuses of its problems, beside those that follow from its body and from API keys."""
    public: bool = False
    """Whether it is answered without an API key."""
    refuse: Callable[[Problem], Response] = Problem.response
    """Puts a problem into the form of its protocol."""
    failure: Any = ProblemDetails
    """The message that `refuse` writes."""


class Observer:
    """Counts what was answered, and writes it to the access log if there is one.

    The log names routes instead of addresses, as a session's id is a secret.
    """

    def __init__(self, metrics: Metrics, log: TextIO | None = None):
        self._metrics = metrics
        self._log = log

    def observe(self, scope: Scope, route: str, status: int, seconds: float) -> None:
        """Note one answer."""
        self._metrics.observe_request(scope["method"], route, status)
        if self._log is not None:
            line = {
                "time": time.time(),
                "method": scope["method"],
                "route": route,
                "agent": scope.get("path_params", {}).get("agent"),
                "status": status,
                "seconds": round(seconds, 6),
                "client": (scope.get("client") or ("", 0))[0],
                "key": scope.get("owner", "")[:8],
            }
            self._log.write(msgspec.json.encode(line).decode() + "\n")
            self._log.flush()


class Endpoint:
    """An operation as an ASGI application."""

    def __init__(self, operation: Operation, access: Access, observer: Observer):
        self._operation = operation
        self._access = access
        self._observer = observer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; its owner is in the scope for the handler."""
        begun = time.perf_counter()
        operation, request, status = self._operation, Request(scope, receive), 500
        try:
            try:
                scope["owner"] = "" if operation.public else self._access.owner(request)
                response = await operation.handler(request)
            except Problem as problem:
                response = operation.refuse(problem)
            status = response.status_code
            await response(scope, receive, send)
        finally:
            self._observer.observe(scope, operation.path, status, time.perf_counter() - begun)


def make_routes(operations: Iterable[Operation], access: Access, observer: Observer) -> list[Route]:
    """Return the route table."""
    return [
        Route(operation.path, Endpoint(operation, access, observer), methods=[operation.method])
        for operation in operations
    ]
