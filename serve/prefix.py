"""Serving under a path of another server: `--root-path`, or the header X-Forwarded-Prefix of a trusted proxy."""

import re
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

OWN = ("v1", "v2", "health", "metrics", "docs", "openapi.json", "page", "zoo")
"""First segments of our own paths."""
HEADER = "x-forwarded-prefix"


def check_prefix(prefix: str) -> str:
    """Return a prefix without the slash at its end.

    Raises:
        ValueError: it is none, or begins as our own paths do.
    """
    bare = prefix.rstrip("/")
    if bare and (not re.fullmatch(r"(/[\w.~-]+)+", bare, re.ASCII) or set(bare.split("/")) & {".", ".."}):
        raise ValueError(f"A root path looks like /agents, of letters, digits and -._~. Received: {prefix!r}")
    if bare and bare.split("/")[1] in OWN:
        raise ValueError(f"A root path begins otherwise than our own paths, {', '.join(OWN)}. Received: {prefix!r}")
    return bare


class Prefix:
    """Middleware that tells the application under which path its clients see it.

    A proxy may pass whole paths on, or cut the prefix off: both are understood.

    Args:
        app: what answers.
        root_path: the prefix; "" for what trusted proxies say.
        trusted: addresses of proxies whose header X-Forwarded-Prefix counts, `*` for all; over a Unix socket, where
            clients have none, it always counts.
    """

    def __init__(self, app: ASGIApp, root_path: str = "", trusted: Sequence[str] = ()):
        from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

        self._prefix = check_prefix(root_path)
        self._inner = ProxyHeadersMiddleware(app, list(trusted))  # type: ignore[arg-type]
        self._everybody = ProxyHeadersMiddleware(app, "*")  # type: ignore[arg-type]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)  # type: ignore[arg-type]
            return
        client = scope.get("client")
        trusted = client is None or client[0] in self._inner.trusted_hosts
        prefix = self._prefix or (self._forwarded(scope) if trusted else "")
        if prefix and not scope.get("root_path"):
            path = scope["path"]
            if path == prefix and scope["type"] == "http":  # relative links need the slash
                await RedirectResponse(prefix + "/", 307)(scope, receive, send)
                return
            scope["root_path"] = prefix
            if not path.startswith(prefix + "/"):
                scope["path"] = prefix + path
        inner = self._everybody if client is None else self._inner
        await inner(scope, receive, send)  # type: ignore[arg-type]

    def _forwarded(self, scope: Scope) -> str:
        if not any(name == b"x-forwarded-prefix" for name, _ in scope["headers"]):  # quick: it is asked of every step
            return ""
        try:
            return check_prefix(Headers(scope=scope)[HEADER].strip())
        except ValueError:
            return ""
