"""What the client asks of a connection, whoever waits: the calling thread or an event loop.

The client is written once, as coroutines. A blocking connection has coroutines too, which never suspend, so that `run`
carries a whole call through at once, without an event loop.
"""

from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True)
class Reply:
    """An answer."""

    status: int
    """The HTTP status; over a WebSocket that of the problem, or 200."""
    body: bytes
    retry_after: float | None = None
    """Seconds after which the server asks to try again."""


class Http(Protocol):
    """Sends requests. Every method raises `NoAnswer` if there is none."""

    async def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Send one request."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""

    async def close(self) -> None:
        """Give the connections back."""


class Stream(Protocol):
    """Sends steps over a WebSocket, connected when first needed."""

    async def ask(self, path: str, body: bytes) -> Reply:
        """Send one message over the WebSocket at `path` and return its answer."""

    async def hang_up(self) -> None:
        """Leave the connection, so that the session waits to be resumed."""


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    coroutine.close()
    raise RuntimeError("A blocking connection waited for an event loop.")


def retry_after(header: str | None) -> float | None:
    """Return the seconds of a Retry-After header. A date, which our server never sends, counts as none."""
    return float(header) if header and header.isdecimal() else None
