"""Slow requests: a connection whose request does not arrive in time is ended.

uvicorn waits for headers and bodies for ever, so that a few hundred clients which never finish theirs would hold all
connections that the process may have. Here the protocol that it would use anyway is given a clock.
"""

import asyncio
from typing import Any

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from serve.problems import Problem


class Deadline:
    """Mixed into a protocol of uvicorn: from its first byte on a request has `request_seconds` to arrive whole."""

    config: Any
    cycle: Any
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport

    _timer: asyncio.TimerHandle | None = None
    _begun = False
    """Whether anything of the request has come."""

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request."""
        super().connection_made(transport)  # type: ignore[misc]
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take what has come, and see whether the request is complete."""
        before = self.cycle
        arriving = before is not None and before.more_body
        super().data_received(data)  # type: ignore[misc]
        new = self.cycle is not before
        if self.cycle is not None and not self.cycle.more_body and (new or arriving):
            self._stop()
        else:  # headers or a body, of which more is to come
            self._begun = True
            self._wait()

    def handle_websocket_upgrade(self, *arguments: Any) -> None:
        """Leave the connection to the WebSocket's protocol."""
        self._stop()
        super().handle_websocket_upgrade(*arguments)  # type: ignore[misc]

    def connection_lost(self, error: Exception | None) -> None:
        """Wait no longer."""
        self._stop()
        super().connection_lost(error)  # type: ignore[misc]

    def _wait(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(self.config.request_seconds, self._end)

    def _stop(self) -> None:
        self._begun = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self) -> None:
        """Say what was wrong, if nothing else was said, and close."""
        self._timer = None
        if self.transport.is_closing() or self.transport.get_protocol() is not self:
            return
        answered = self.cycle is not None and self.cycle.more_body and self.cycle.response_started
        if self._begun and not answered:
            self.transport.write(_too_slow(self.config.request_seconds))
        self.transport.close()


def _too_slow(seconds: float) -> bytes:
    response = Problem(
        408, "slow-request", f"The request did not arrive within {seconds:g} seconds, headers and body."
    ).response()
    head = b"".join(b"%s: %s\r\n" % header for header in response.raw_headers)
    return b"HTTP/1.1 408 Request Timeout\r\n%sconnection: close\r\n\r\n%s" % (head, bytes(response.body))


class BoundedProtocol(Deadline, AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """The protocol that uvicorn would choose, with a deadline."""


class BoundedConfig(uvicorn.Config):
    """How uvicorn runs an application, and how long it waits for a request.

    Args:
        app: as uvicorn takes it.
        request_seconds: in which a request must have arrived.
        **told: what else uvicorn is told.
    """

    def __init__(self, app: Any, request_seconds: float, **told: Any):
        super().__init__(app, http=BoundedProtocol, **told)
        self.request_seconds = request_seconds
