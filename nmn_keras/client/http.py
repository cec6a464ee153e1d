"""HTTP by httpx, for plain and for asynchronous code."""

import asyncio
import contextlib
import time
from collections.abc import Iterator, Mapping

from nmn_keras.client.errors import NoAnswer
from nmn_keras.client.wire import Reply, retry_after

try:
    import httpx
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        'nmn_keras.client needs httpx, which is not installed: pip install "nmn_keras[client]"', name="httpx"
    ) from error

JSON = {"Content-Type": "application/json"}
# Before there is a connection nothing can have been sent.
UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class BlockingHttp:
    """A `wire.Http` whose caller waits.

    Args:
        url: of the server.
        headers: of every request.
        timeout: seconds to wait, each, for a connection, for the request to be taken and for the answer.
    """

    def __init__(self, url: str, headers: Mapping[str, str], timeout: float):
        self._client = httpx.Client(base_url=url, headers=headers, timeout=timeout)

    async def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Send one request."""
        with _failures():
            return _reply(self._client.request(method, path, content=body, headers=_headers(body, headers)))

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    async def close(self) -> None:
        """Give the connections back."""
        self._client.close()


class AsyncHttp:
    """A `wire.Http` that leaves the event loop to others meanwhile; `BlockingHttp` tells the arguments."""

    def __init__(self, url: str, headers: Mapping[str, str], timeout: float):
        self._client = httpx.AsyncClient(base_url=url, headers=headers, timeout=timeout)

    async def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Send one request."""
        with _failures():
            return _reply(await self._client.request(method, path, content=body, headers=_headers(body, headers)))

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        """Give the connections back."""
        await self._client.aclose()


def _headers(body: bytes | None, more: Mapping[str, str] | None) -> dict[str, str]:
    return {**(JSON if body else {}), **(more or {})}


def _reply(response: httpx.Response) -> Reply:
    return Reply(response.status_code, response.content, retry_after(response.headers.get("Retry-After")))


@contextlib.contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except httpx.TransportError as error:
        raise NoAnswer(str(error) or type(error).__name__, sent=not isinstance(error, UNSENT)) from error
