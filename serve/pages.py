"""The live page and the published files that it shows."""

import gzip
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from nmn_keras import zoo
from nmn_keras.runtime import OnnxAgent
from serve.answers import answer
from serve.operations import Operation
from serve.problems import Problem

FOLDER = Path(__file__).parent / "page"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".LICENSE": "text/plain; charset=utf-8",
}
"""What is served of the folder; a file of another kind in it is not."""
POLICY = (
    "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
GUARDED = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}


class PageFile(NamedTuple):
    """A file of the page, ready to be sent."""

    content: bytes
    compressed: bytes
    media_type: str
    tag: str


class Published(msgspec.Struct):
    """What the zoo's index says of the served agents, in its own form."""

    version: int
    agents: dict[str, Any]


class Page:
    """The page at `/`, its files under `/page/`, and the published files of served agents under `/zoo/`.

    The page's own files hold no secret and need no key. They are read once and sent from memory, so that no address
    reaches another file.

    Args:
        agents: by the name they are served as.
        directory: of the published agents, see `nmn_keras.zoo.directory`.
    """

    def __init__(self, agents: Mapping[str, OnnxAgent], directory: zoo.Location = None):
        self._agents = agents
        self._zoo = directory
        self._files = _read_files()

    def operations(self) -> list[Operation]:
        """Return what can be asked."""
        return [
            Operation("GET", "/", self.show_live_page, None, str, gives=("text/html",), public=True),
            Operation("GET", "/zoo/index.json", self.list_published, None, Published),
            Operation(
                "GET",
                "/zoo/{agent}/{file}",
                self.get_published_file,
                None,
                bytes,
                gives=("application/octet-stream",),
                refusals=(404,),
            ),
        ]

    def files(self) -> Mount:
        """Return the route of the page's files."""
        return Mount("/page", routes=[Route("/{file:path}", self.show_file)])

    async def show_live_page(self, request: Request) -> Response:
        """Return the live page, on which an agent can be watched and its world be changed."""
        return self._send(request, "index.html")

    async def show_file(self, request: Request) -> Response:
        """Return a file of the page."""
        return self._send(request, request.path_params["file"])

    async def list_published(self, request: Request) -> Response:
        """Return what the zoo's index says of the served agents."""
        cards = {name: card for name in self._agents if (card := self._card(name))}
        return answer(Published(zoo.INDEX_VERSION, cards))

    async def get_published_file(self, request: Request) -> Response:
        """Return a published file of a served agent, checked against its sha256."""
        name, file = request.path_params["agent"], request.path_params["file"]
        known = self._card(name).get("files", {})
        if file not in known:
            raise Problem(
                404,
                "unknown-file",
                f"No such file of a served agent is published. Of {name!r}: {', '.join(known) or 'none'}. "
                f"Received: {file!r}",
            )
        tag = f'"{known[file]["sha256"]}"'
        headers = {"ETag": tag, "Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        content = await run_in_threadpool(self._read, name, file)
        disposition = {"Content-Disposition": f'attachment; filename="{name}-{file}"'}
        return Response(content, headers={**headers, **disposition}, media_type="application/octet-stream")

    def _send(self, request: Request, name: str) -> Response:
        file = self._files.get(name)
        if file is None:
            raise Problem(404, "unknown-file", f"The page has no such file. Received: {name!r}")
        headers = {**GUARDED, "ETag": file.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if file.tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(file.content, headers=headers, media_type=file.media_type)
        return Response(file.compressed, headers={**headers, "Content-Encoding": "gzip"}, media_type=file.media_type)

    def _card(self, name: str) -> dict[str, Any]:
        """What is published of a served agent; nothing if it is another version of it that is served."""
        try:
            card = zoo.card(name, self._zoo) if name in self._agents else {}
        except (OSError, ValueError):
            return {}
        same = card and card["files"]["policy.onnx"]["sha256"] == self._agents[name].sha256
        return card if same else {}

    def _read(self, name: str, file: str) -> bytes:
        try:
            return zoo.path(name, file, self._zoo).read_bytes()
        except (OSError, ValueError) as error:
            raise Problem(404, "altered-file", f"{file!r} of {name!r} is missing or not the published one.") from error


def _read_files() -> dict[str, PageFile]:
    paths = [path for path in FOLDER.rglob("*") if path.suffix in TYPES]
    return {path.relative_to(FOLDER).as_posix(): _read_file(path) for path in paths}


def _read_file(path: Path) -> PageFile:
    content = path.read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()}"'
    return PageFile(content, gzip.compress(content, mtime=0), TYPES[path.suffix], tag)
