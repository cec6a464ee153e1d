"""Who may use the server: API keys, and the pages whose origin is listed."""

import hashlib
import hmac
import re
from collections.abc import Iterable
from pathlib import Path

from starlette.requests import HTTPConnection

from serve.problems import Problem

SHORTEST_KEY = 16
SUBPROTOCOL = "nmn"
"""Of the stream."""
ANY = "*"
"""Every page."""


class Access:
    """Decides whose a request is.

    Args:
        keys: API keys; none, and everybody may do everything.
        origins: of pages that may connect beside the server's own, e.g. `https://example.org`; `*` for all pages.

    Raises:
        ValueError: an origin is none.
    """

    def __init__(self, keys: Iterable[str] = (), origins: Iterable[str] = ()):
        self._digests = [_digest(key) for key in keys]
        self._origins = frozenset(map(_checked_origin, origins))

    def owner(self, connection: HTTPConnection) -> str:
        """Return whose the request is: "" without keys, else the digest of its key.

        Raises:
            Problem: 401, it bears no key that is known.
        """
        return self.owner_of(_sent_key(connection)) if self._digests else ""

    def owner_of(self, key: str) -> str:
        """Return whose requests bear a key: "" without keys, else the digest of the key.

        Raises:
            Problem: 401, it is not known.
        """
        if not self._digests:
            return ""
        sent = _digest(key)
        # Every key is compared, each in constant time: the answer's delay tells nothing.
        if not sum([hmac.compare_digest(sent, known) for known in self._digests]):
            raise Problem(
                401,
                "unauthorized",
                "This server needs an API key: send it as Authorization: Bearer KEY, or from a page's WebSocket as the "
                f"subprotocols {SUBPROTOCOL} and bearer.KEY.",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return sent

    def check_origin(self, connection: HTTPConnection) -> None:
        """Refuse what a page of another origin sends: a browser lets it post to any address.

        Raises:
            Problem: 403, the request says that it comes from such a page.
        """
        if not any(name == b"origin" for name, _ in connection.scope["headers"]):  # quick: it is asked of every step
            return
        origin, host = connection.headers["origin"], connection.headers.get("host")
        if not origin or {origin, ANY} & self._origins or origin in (f"http://{host}", f"https://{host}"):
            return
        if connection.headers.get("sec-fetch-site") == "same-origin":  # a proxy on the way has another name than ours
            return
        raise Problem(403, "foreign-origin", f"Pages of another origin may not connect. Received: {origin!r}")


def read_keys(path: str | Path) -> list[str]:
    """Read a file of API keys: one per line; empty lines and those that begin with `#` are skipped.

    Raises:
        OSError: the file cannot be read.
        ValueError: there is no key in it, or one is too short or has spaces.
    """
    lines = [line.strip() for line in Path(path).read_text().splitlines()]
    keys = [line for line in lines if line and not line.startswith("#")]
    if not keys:
        raise ValueError(f"There is no key in {path}: one per line is needed.")
    if any(len(key) < SHORTEST_KEY or not key.isascii() or len(key.split()) > 1 for key in keys):
        raise ValueError(f"A key in {path} is too short or has spaces: {SHORTEST_KEY} characters or more are needed.")
    return keys


def _checked_origin(origin: str) -> str:
    """The origin, if it is what a browser sends as one: nothing else would ever match."""
    if origin != ANY and not re.fullmatch(r"https?://[^/?#@\sA-Z]+", origin):
        raise ValueError(
            "An origin is scheme, host and port in small letters, as in https://example.org or http://127.0.0.1:3000, "
            f"without a path or a slash at its end; {ANY} is every page. Received: {origin!r}"
        )
    return origin


def _sent_key(connection: HTTPConnection) -> str:
    """The key that a request bears. A page cannot give its WebSocket headers, but subprotocols."""
    if key := bearer_of(connection.headers.get("authorization", "")):
        return key
    offered = connection.scope.get("subprotocols", ())
    return next((name.removeprefix("bearer.") for name in offered if name.startswith("bearer.")), "")


def bearer_of(authorization: str) -> str:
    """Return the key of `Bearer KEY`, else ""."""
    scheme, _, key = authorization.partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
