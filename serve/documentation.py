"""The documentation that the server gives of itself: a document for programs, a page for people."""

import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from serve import manual
from serve.openapi import Group, describe
from serve.operations import Operation

if TYPE_CHECKING:
    from nmn_keras.runtime import OnnxAgent

GROUP = Group("documentation", "What you are reading.")
STYLE = Path(__file__).with_name("manual.css")
HEADERS = {
    # Nothing but our own stylesheet is loaded, and no page may frame this one.
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def exemplary(agents: "Mapping[str, OnnxAgent]") -> str:
    """Name the agent to show examples with: as on the page a benchmark's NMN, else another, else the first."""
    return min(agents, key=lambda name: (not name.endswith("-nmn"), agents[name].kind != "nmn"), default="AGENT")


class Documentation:
    """The routes of the documentation, written once.

    Args:
        groups: every other operation.
        keyed: whether operations need an API key.
        agent: name of one that is served, for the examples.
    """

    def __init__(self, groups: Sequence[Group], *, keyed: bool, agent: str):
        own = Group(GROUP.name, GROUP.description, self.operations())
        examples = {"agent": agent, "file": "policy.onnx", "model": agent, "version": "1"}
        document = describe([*groups, own], examples, keyed=keyed)
        self._described = document
        self._document = msgspec.json.encode(document)
        self._page = manual.write(document)
        self._style = STYLE.read_bytes()

    def operations(self) -> list[Operation]:
        """Return what can be asked."""
        return [
            Operation("GET", "/openapi.json", self.show_document, None, dict, public=True),
            Operation("GET", "/docs", self.show_page, None, str, gives=("text/html",), public=True),
            Operation("GET", "/docs/style.css", self.show_style, None, str, gives=("text/css",), public=True),
        ]

    async def show_document(self, request: Request) -> Response:
        """Return this document."""
        prefix = request.scope.get("root_path", "")
        document = {**self._described, "servers": [{"url": prefix}]} if prefix else None
        return Response(msgspec.json.encode(document) if document else self._document, media_type="application/json")

    async def show_page(self, request: Request) -> Response:
        """Return this document as a page to read."""
        base = str(request.base_url).rstrip("/")
        # The address goes into commands to be copied: one with any other character is left out.
        known = re.fullmatch(r"https?://[\w.:\[\]-]+(/[\w./~-]+)?", base, re.ASCII)
        text = self._page.replace(manual.SERVER, base) if known else self._page
        if prefix := request.scope.get("root_path", ""):
            text = text.replace(' href="/', f' href="{escape(prefix)}/')
        return Response(text, headers=HEADERS, media_type="text/html")

    async def show_style(self, request: Request) -> Response:
        """Return the page's stylesheet."""
        return Response(self._style, headers=HEADERS, media_type="text/css")
