"""Operations: one request that the server answers, what it takes and gives, and the endpoint that carries it out."""

import time
from collections.abc import Awaitable, Callable, Iterable
from http import HTTPMethod
from typing import Any, TextIO

import msgspec
from starlette._utils import get_route_path
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from serve.access import Access
from serve.metrics import Metrics
from serve.problems import Problem, ProblemDetails

STEP = ("/v1/sessions/", "/step")
"""What the path of a step is between which its session's id stands."""

METHODS = {method.value for method in HTTPMethod}
"""That are counted by their names: clients may send any word."""

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

    def observe(self, scope: Scope, route: str | None, status: int, seconds: float) -> None:
        """Note one answer; None is the route of a request that no operation is for."""
        scope["observed"] = True
        method = scope.get("method", "GET")  # a WebSocket's handshake
        self._metrics.observe_request(method if method in METHODS else "other", route or "none", status)
        parameters = scope.get("path_params", {})
        agent = parameters.get("agent") or parameters.get("model")
        client = (scope.get("client") or ("", 0))[0]
        self._write(method, route, agent, status, seconds, client, scope.get("owner", ""))

    def observe_call(
        self, service: str, method: str, agent: str | None, code: str, seconds: float, client: str, owner: str
    ) -> None:
        """Note one answer over gRPC, whose status is a word."""
        self._metrics.observe_call(service, method, code)
        self._write("gRPC", f"/{service}/{method}", agent, code, seconds, client, owner)

    def _write(
        self,
        method: str,
        route: str | None,
        agent: str | None,
        status: int | str,
        seconds: float,
        client: str,
        owner: str,
    ) -> None:
        if self._log is None:
            return
        line = {
            "time": time.time(),
            "method": method,
            "route": route,
            "agent": agent,
            "status": status,
            "seconds": round(seconds, 6),
            "client": client,
            "key": owner[:8],
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
                if operation.method != "GET":
                    self._access.check_origin(request)
                response = await operation.handler(request)
            except Problem as problem:
                response = operation.refuse(problem)
            status = response.status_code
            await response(scope, receive, send)
        finally:
            self._observer.observe(scope, operation.path, status, time.perf_counter() - begun)


class Remainder:
    """Middleware that observes the answers to requests that no operation is for: unknown paths, preflights."""

    def __init__(self, app: ASGIApp, observer: Observer):
        self._app = app
        self._observer = observer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 500

        async def sending(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            if "observed" not in scope:
                self._observer.observe(scope, None, status, time.perf_counter() - begun)


class Shortcut:
    """Middleware that brings steps straight to their endpoint: routing them would cost as much as taking them.

    Args:
        app: what answers every other request.
        endpoint: of `POST /v1/sessions/{session}/step`.
    """

    def __init__(self, app: ASGIApp, endpoint: ASGIApp):
        self._app = app
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http" and scope["method"] == "POST":
            path = get_route_path(scope)
            if path.startswith(STEP[0]) and path.endswith(STEP[1]):
                session = path[len(STEP[0]) : -len(STEP[1])]
                if session and "/" not in session:
                    scope["path_params"] = {"session": session}
                    await self._endpoint(scope, receive, send)
                    return
        await self._app(scope, receive, send)


def make_routes(operations: Iterable[Operation], access: Access, observer: Observer) -> list[Route]:
    """Return the route table."""
    return [
        Route(operation.path, Endpoint(operation, access, observer), methods=[operation.method])
        for operation in operations
    ]
