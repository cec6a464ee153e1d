"""The WebSocket by websockets, for plain and for asynchronous code. Imported by those alone who ask for it."""

import asyncio
import contextlib
import json
from collections.abc import Mapping
from typing import Any

from nmn_keras.client.errors import NoAnswer
from nmn_keras.client.wire import Reply, retry_after

try:
    import websockets.asyncio.client
    import websockets.sync.client
    from websockets.exceptions import InvalidStatus, WebSocketException
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        'transport="websocket" needs websockets, which is not installed: pip install "nmn_keras[client]"',
        name="websockets",
    ) from error

FAILURES = (OSError, WebSocketException)
# The server ends the session of a connection that closes with 1000; whether it ends is said by the client elsewhere.
GOING_AWAY = 1001
CLOSE_SECONDS = 1.0


def _settings(headers: Mapping[str, str], timeout: float) -> dict[str, Any]:
    """How to connect: the messages are small, which compression would only delay."""
    return {
        "additional_headers": headers,
        "open_timeout": timeout,
        "close_timeout": CLOSE_SECONDS,
        "compression": None,
        "max_size": None,
    }


class BlockingStream:
    """A `wire.Stream` whose caller waits.

    Whatever comes between a message and its answer ends the connection: the next message must not be given an answer
    that was meant for the one before.

    Args:
        url: of the server, http or https.
        headers: of the handshake.
        timeout: seconds to wait, each, for the connection and for an answer.
    """

    def __init__(self, url: str, headers: Mapping[str, str], timeout: float):
        self._url = url.replace("http", "ws", 1)
        self._settings = _settings(headers, timeout)
        self._timeout = timeout
        self._socket: websockets.sync.client.ClientConnection | None = None

    async def ask(self, path: str, body: bytes) -> Reply:
        """Send one message over the WebSocket at `path` and return its answer."""
        sent = False
        try:
            self._socket = self._socket or self._connect(path)
            sent = True
            self._socket.send(body, text=True)
            return _reply(self._socket.recv(self._timeout))
        except InvalidStatus as refusal:
            return _refusal(refusal)
        except FAILURES as error:
            await self.hang_up()
            raise NoAnswer(str(error) or type(error).__name__, sent) from error
        except BaseException:  # Ctrl+C, a cancelled task
            await self.hang_up()
            raise

    def _connect(self, path: str) -> "websockets.sync.client.ClientConnection":
        connection = websockets.sync.client.connect(self._url + path, **self._settings)
        # Entered, because newer versions warn where `connect` is used without `with`; `hang_up` leaves it.
        socket = contextlib.ExitStack().enter_context(connection)
        try:
            socket.recv(self._timeout)  # what session it is
        except BaseException:
            socket.close(GOING_AWAY)
            raise
        return socket

    async def hang_up(self) -> None:
        """Leave the connection, so that the session waits to be resumed."""
        socket, self._socket = self._socket, None
        if socket:
            socket.close(GOING_AWAY)


class AsyncStream:
    """A `wire.Stream` that leaves the event loop to others meanwhile; `BlockingStream` tells the arguments."""

    def __init__(self, url: str, headers: Mapping[str, str], timeout: float):
        self._url = url.replace("http", "ws", 1)
        self._settings = _settings(headers, timeout)
        self._timeout = timeout
        self._socket: websockets.asyncio.client.ClientConnection | None = None

    async def ask(self, path: str, body: bytes) -> Reply:
        """Send one message over the WebSocket at `path` and return its answer."""
        sent = False
        try:
            self._socket = self._socket or await self._connect(path)
            sent = True
            async with asyncio.timeout(self._timeout):
                await self._socket.send(body, text=True)
                return _reply(await self._socket.recv())
        except InvalidStatus as refusal:
            return _refusal(refusal)
        except FAILURES as error:
            await self.hang_up()
            raise NoAnswer(str(error) or type(error).__name__, sent) from error
        except BaseException:  # Ctrl+C, a cancelled task
            await self.hang_up()
            raise

    async def _connect(self, path: str) -> "websockets.asyncio.client.ClientConnection":
        socket = await websockets.asyncio.client.connect(self._url + path, **self._settings)
        try:
            async with asyncio.timeout(self._timeout):
                await socket.recv()  # what session it is
        except BaseException:
            await socket.close(GOING_AWAY)
            raise
        return socket

    async def hang_up(self) -> None:
        """Leave the connection, so that the session waits to be resumed."""
        socket, self._socket = self._socket, None
        if socket:
            await socket.close(GOING_AWAY)


def _reply(text: str | bytes) -> Reply:
    """A message from the server: a step, or a problem, which alone has a status."""
    body = text.encode() if isinstance(text, str) else text
    message = json.loads(body)
    return Reply(message.get("status", 200), body, message.get("retry_after"))


def _refusal(refusal: InvalidStatus) -> Reply:
    response = refusal.response
    return Reply(response.status_code, bytes(response.body or b""), retry_after(response.headers.get("Retry-After")))
