"""Pages of other origins, which a browser lets post to any address."""

from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from serve.problems import Problem


def check_origin(connection: HTTPConnection) -> None:
    """Refuse what a page of another origin sends.

    Raises:
        Problem: 403, the request says that it comes from such a page.
    """
    origin = connection.headers.get("origin")
    if origin and urlsplit(origin).netloc != connection.headers.get("host"):
        raise Problem(403, "foreign-origin", f"Pages of another origin may not connect. Received: {origin!r}")
