"""`python -m serve` with more routes, which do nothing: what the server's stack costs without the server's work.

    python benchmarks/served.py --agents b3-nmn --port 8000

`POST /noop` decodes the message of a step and answers as much JSON as a step does; `WS /echo` sends back what it gets.
They are appended to the application that the server makes of itself; all else is `python -m serve`. Routes are tried in
their order, so `POST /noop-first`, which does the same, stands before all others: no route can be cheaper.
"""

from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

import serve.app
from serve.__main__ import main


class Step(msgspec.Struct, forbid_unknown_fields=True):
    """A step's message, as a client of one environment sends it."""

    observation: list[float]
    reward: float | None = None
    action: list[float] | None = None
    step: int | None = None


class Answer(msgspec.Struct):
    """A step's answer."""

    action: list[float]
    step: int


DECODER = msgspec.json.Decoder(Step)
ANSWER = Answer([-0.5385156869888306], 1234)


async def noop(request: Request) -> Response:
    DECODER.decode(await request.body())
    return Response(msgspec.json.encode(ANSWER), media_type="application/json")


async def echo(socket: WebSocket) -> None:
    await socket.accept()
    try:
        while True:
            await socket.send_text(await socket.receive_text())
    except WebSocketDisconnect:
        pass


def with_more_routes(*args: Any, **kwargs: Any) -> Starlette:
    """`serve.app.create_app`, and the routes that do nothing."""
    app = create_app(*args, **kwargs)
    app.router.routes.insert(0, Route("/noop-first", noop, methods=["POST"]))
    app.router.routes.append(Route("/noop", noop, methods=["POST"]))
    app.router.routes.append(WebSocketRoute("/echo", echo))
    return app


create_app, serve.app.create_app = serve.app.create_app, with_more_routes  # where `python -m serve` looks for it

if __name__ == "__main__":
    main()
