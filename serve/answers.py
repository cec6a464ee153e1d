"""Answers: messages as JSON."""

from collections.abc import Mapping

import msgspec
from starlette.responses import Response


class Answer(Response):
    """A response whose headers are written as they are sent.

    Args:
        body: what is sent.
        status: the HTTP status.
        headers: further headers.
        media_type: of the body.
    """

    def __init__(
        self,
        body: bytes,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        media_type: str = "application/json",
    ):
        self.status_code = status
        self.body = body
        self.background = None
        self.raw_headers = [
            (b"content-type", media_type.encode("latin-1")),
            (b"content-length", b"%d" % len(body)),
            *((key.lower().encode("latin-1"), value.encode("latin-1")) for key, value in (headers or {}).items()),
        ]


def answer(message: msgspec.Struct, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a message as JSON."""
    return Answer(msgspec.json.encode(message), status, headers)
