"""HTTP clients for the robustness benchmarks: they keep connections open, and know which requests were not answered."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from processes import HOST

ANSWER_SECONDS = 20.0
IDLE_SECONDS = 3.0
"""After which a connection is not used again: the server closes it after 5, perhaps just when a request is sent."""


class Unanswered(Exception):
    """No answer came, and nobody knows whether the request was carried out."""


class Client:
    """One connection to a server, opened when it is needed; one request at a time.

    Args:
        port: where the server listens.
    """

    def __init__(self, port: int):
        self._port = port
        self._connection: _Connection | None = None
        self._used = 0.0

    async def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
        """Send a request and return the answer's status and body.

        Raises:
            Unanswered: the server cannot be reached, closes the connection, or keeps silent.
        """
        return await self.send(request(method, path, body, **headers))

    async def ask_json(self, method: str, path: str, message: Any = None) -> tuple[int, Any]:
        """Send a message and return the answer's status and message."""
        status, body = await self.ask(method, path, b"" if message is None else json.dumps(message).encode())
        return status, json.loads(body) if body else None

    async def send(self, *pieces: bytes) -> tuple[int, bytes]:
        """Send a request that is written out, piece by piece, and return the answer's status and body."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await (await self._connected()).exchange(pieces)
        except OSError as error:  # of which a timeout is one
            self.close()
            raise Unanswered(repr(error)) from error

    async def break_off(self, *pieces: bytes) -> None:
        """Send the beginning of a request, and close the connection."""
        connection = await self._connected()
        await connection.write(pieces)
        connection.transport.close()

    async def _connected(self) -> "_Connection":
        loop = asyncio.get_running_loop()
        if self._connection is not None and loop.time() - self._used > IDLE_SECONDS:
            self.close()
        if self._connection is None or self._connection.lost:
            _, self._connection = await loop.create_connection(_Connection, HOST, self._port)
        self._used = loop.time()
        return self._connection

    def close(self) -> None:
        """Drop the connection."""
        if self._connection is not None:
            self._connection.transport.abort()
            self._connection = None


class StreamClient:
    """One WebSocket, connected when it is needed; one message at a time.

    Args:
        port: where the server listens.
        path: of the stream, with its query.
    """

    def __init__(self, port: int, path: str):
        self._url = f"ws://{HOST}:{port}{path}"
        self._socket: Any = None

    async def send(self, message: bytes) -> tuple[int, bytes]:
        """Send a message and return its answer and that's status.

        Raises:
            Unanswered: the server cannot be reached, closes the connection, or keeps silent.
        """
        from websockets.asyncio.client import connect
        from websockets.exceptions import WebSocketException

        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                if self._socket is None:
                    self._socket = await connect(self._url, compression=None)
                    await self._socket.recv()  # what session it is
                await self._socket.send(message, text=True)
                answer = (await self._socket.recv()).encode()
            return json.loads(answer).get("status", 200), answer
        except (OSError, WebSocketException) as error:
            self.close()
            raise Unanswered(repr(error)) from error

    def close(self) -> None:
        """Drop the connection without a word, so that the session waits to be resumed."""
        if self._socket is not None:
            self._socket.transport.abort()
            self._socket = None


def request(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """Write a request out; a header's `_` stands for `-`. Chunks are for the caller to write behind it."""
    fields = {"Host": HOST, "Content_Type": "application/json", **headers}
    if "Transfer_Encoding" not in headers:
        fields["Content-Length"] = str(len(body))
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body


class _Connection(asyncio.Protocol):
    """One request in flight; of an answer the status and Content-Length are read."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._received = b""
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self.lost = False

    async def exchange(self, pieces: Sequence[bytes]) -> tuple[int, bytes]:
        if self.lost:
            raise ConnectionResetError("the connection was closed")
        self._answer = asyncio.get_running_loop().create_future()
        await self.write(pieces)
        return await self._answer

    async def write(self, pieces: Sequence[bytes]) -> None:
        for piece in pieces[:-1]:
            self.transport.write(piece)
            await asyncio.sleep(0)  # each is written by itself
        self.transport.write(pieces[-1])

    def data_received(self, data: bytes) -> None:
        self._received += data
        parsed = parse_answer(self._received)
        if parsed is not None and self._answer is not None and not self._answer.done():
            self._received = b""
            self._answer.set_result(parsed)

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionResetError("the connection was closed"))


def parse_answer(data: bytes) -> tuple[int, bytes] | None:
    """Return an answer's status and body, None while it is not complete."""
    head, found, body = data.partition(b"\r\n\r\n")
    if not found:
        return None
    at = head.lower().find(b"\r\ncontent-length:")
    length = 0 if at < 0 else int(head[at + 17 :].partition(b"\r\n")[0])
    return (int(head[9:12]), body[:length]) if len(body) >= length else None
