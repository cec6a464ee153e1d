"""What can go wrong between a client and its server, beside wrong arguments."""

import json
from typing import Any

from nmn_keras.client.wire import Reply


class NoAnswer(ConnectionError):
    """No answer came: the server cannot be reached, the connection broke, or it took too long.

    Attributes:
        sent: whether the server may have received the request.
    """

    def __init__(self, reason: str, sent: bool):
        super().__init__(reason, sent)
        self.sent = sent

    def __str__(self) -> str:
        return str(self.args[0])


class ServerError(Exception):
    """The server answered that it could not do what was asked; no session was changed.

    Attributes:
        status: the HTTP status.
        type: the problem's type, `urn:problem-type:nmn:...`; empty if it is not our server that answers.
        detail: the server's words: what was wrong, what is accepted, what came.
        path: the JSON path of the member at fault, or empty.
        retry_after: seconds after which the server asks to try again, or None.
    """

    def __init__(self, status: int, type: str, detail: str, path: str = "", retry_after: float | None = None):
        super().__init__(status, type, detail, path, retry_after)
        self.status = status
        self.type = type
        self.detail = detail
        self.path = path
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.detail} ({self.status}{' at ' if self.path else ''}{self.path})"


class UnknownSession(ServerError):
    """404: the session never was, or was deleted, or was lost with the server that kept it in its memory."""


class ExpiredSession(ServerError):
    """410: the session was idle for longer than its `ttl_seconds`, or older than the server keeps any."""


_CLASSES = {"unknown-session": UnknownSession, "expired-session": ExpiredSession}


def server_error(reply: Reply) -> ServerError:
    """Return the error that an answer is: problem details (RFC 9457), or whatever a proxy on the way has said."""
    try:
        problem: Any = json.loads(reply.body)
        type_, detail = str(problem["type"]), str(problem["detail"])
    except (ValueError, TypeError, KeyError):
        text = reply.body.decode(errors="replace").strip()[:200]
        return ServerError(reply.status, "", f"The answer has no problem details: {text!r}", "", reply.retry_after)
    kind = _CLASSES.get(type_.rpartition(":")[2], ServerError)
    return kind(reply.status, type_, detail, str(problem.get("path", "")), reply.retry_after)
