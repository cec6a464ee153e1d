"""Errors as clients see them: RFC 9457 problem details."""

from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from starlette._utils import get_route_path
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from nmn_keras.runtime import InvalidInput

TYPE_PREFIX = "urn:problem-type:nmn:"


class ProblemDetails(msgspec.Struct, omit_defaults=True):
    """The body of an error.

    `path`: the JSON path of the member at fault, where there is one. `retry_after`: seconds to wait before asking
    again, where that helps; over HTTP the header Retry-After says the same.
    """

    type: str
    title: str
    status: int
    detail: str
    path: str = ""
    retry_after: int | None = None


class Problem(Exception):
    """A request that cannot be answered.

    Args:
        status: the HTTP status.
        kind: a stable word for programs; the problem's type is `urn:problem-type:nmn:<kind>`, its
            title the same word for people.
        detail: what was wrong, what is accepted, what came.
        path: the JSON path of the member at fault.
        headers: further headers of the answer.
        retry_after: seconds to wait before asking again.
    """

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        path: str = "",
        headers: Mapping[str, str] | None = None,
        retry_after: int | None = None,
    ):
        super().__init__(detail)
        title = kind.replace("-", " ").capitalize()
        self.details = ProblemDetails(TYPE_PREFIX + kind, title, status, detail, path, retry_after)
        waiting = {} if retry_after is None else {"Retry-After": str(retry_after)}
        self.headers = {**(headers or {}), **waiting}

    def response(self) -> Response:
        """Return the answer to send."""
        return Response(
            msgspec.json.encode(self.details),
            self.details.status,
            self.headers,
            media_type="application/problem+json",
        )


def unknown_agent(name: str, known: Iterable[str]) -> Problem:
    """404, listing the agents that are served."""
    served = ", ".join(known)
    return Problem(404, "unknown-agent", f"No such agent is served. Served: {served}. Received: {name!r}")


def unknown_session() -> Problem:
    """404. Sessions are never listed: an id is a secret, and is not sent back either."""
    return Problem(
        404,
        "unknown-session",
        "No such session is open: it never was, or was deleted. Open one with POST /v1/agents/{name}/sessions.",
    )


def expired_session() -> Problem:
    """410: there was such a session."""
    return Problem(
        410,
        "expired-session",
        "The session was idle for longer than its ttl_seconds, or older than the server keeps any. "
        "Open one with POST /v1/agents/{name}/sessions.",
    )


def another_version(agent: str) -> Problem:
    """410: the session is of an agent that is not served any more, or of another version of it."""
    return Problem(
        410,
        "another-version",
        f"The session is of another version of the agent {agent!r} than the one served now, which has another memory. "
        "Open one with POST /v1/agents/{name}/sessions.",
    )


def invalid_input(error: InvalidInput, members: Mapping[str, str]) -> Problem:
    """422, naming the member of the message behind the argument that was refused."""
    if error.field is None:
        return Problem(422, "invalid-input", error.reason, "$")
    member = members[error.field]
    return Problem(422, "invalid-input", f"`{member}` {error.reason}", f"$.{member}")


def install(app: Starlette, forms: Mapping[str, Callable[[Problem], Response]]) -> None:
    """Answer every error of `app` with problem details.

    Args:
        app: whose errors they are.
        forms: by the beginning of a path, how its protocol says that there is no such operation.
    """

    async def answer_http_exception(request: Request, error: Any) -> Response:
        path = get_route_path(request.scope)
        put = next((form for start, form in forms.items() if path.startswith(f"{start}/")), Problem.response)
        return put(_http_problem(request, error))

    app.add_exception_handler(Problem, _answer_problem)
    app.add_exception_handler(HTTPException, answer_http_exception)
    app.add_exception_handler(Exception, _answer_internal_error)


async def _answer_problem(request: Request, error: Any) -> Response:
    return error.response()


def _http_problem(request: Request, error: HTTPException) -> Problem:
    phrase = HTTPStatus(error.status_code).phrase
    detail = f"{phrase}: {request.method} {request.url.path}. Start at GET /v1/agents."
    kind = phrase.lower().replace(" ", "-")
    allowed = _allowed(request) if error.status_code == 405 else []
    headers = {"Allow": ", ".join(allowed)} if allowed else error.headers
    return Problem(error.status_code, kind, detail, headers=headers)


def _allowed(request: Request) -> list[str]:
    """The methods of all routes of the path; Starlette names the first one's. None within a mount."""
    matching = [route for route in request.app.routes if route.matches(request.scope)[0] is Match.PARTIAL]
    return sorted({method for route in matching for method in route.methods})


async def _answer_internal_error(request: Request, error: Any) -> Response:
    # The traceback goes to the log; a client learns nothing of the server's insides.
    return Problem(500, "internal-error", "The server failed. No session was changed.").response()
