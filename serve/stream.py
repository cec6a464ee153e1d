"""The WebSocket: one session per connection, one message per step."""

import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from serve import messages
from serve.access import SUBPROTOCOL, Access
from serve.bodies import invalid_message, too_large
from serve.native import Native, included_outputs
from serve.operations import Observer
from serve.problems import Problem
from serve.sessions import Session

PATH = "/v1/agents/{agent}/stream"
SWITCHING = HTTPStatus.SWITCHING_PROTOCOLS.value
"""The status of a connection that is taken."""
CLEAN_CLOSE = 1000


@dataclass(frozen=True)
class Stream:
    """The stream of each agent, a WebSocket over the sessions of the native API.

    `/v1/agents/{agent}/stream` opens a session as its query says (`batch`, `deterministic`, `seed`, `ttl_seconds`) or
    goes on with one (`session`); `include` asks for further outputs. The first message from the server describes the
    session. Each message from the client is then a step, answered by its action, or by a problem that changed nothing.
    A client that closes with code 1000 is done with its session; after any other end it waits to be resumed.
    """

    native: Native
    access: Access
    observer: Observer

    def routes(self) -> list[WebSocketRoute]:
        """Return the route table."""
        return [WebSocketRoute(PATH, self.connect)]

    async def connect(self, socket: WebSocket) -> None:
        """WS /v1/agents/{agent}/stream."""
        begun = time.perf_counter()
        try:
            owner = socket.scope["owner"] = self.access.owner(socket)
            self.access.check_origin(socket)
            included = included_outputs(socket.query_params)
            session_id, session = await self._session(socket, owner)
        except Problem as problem:
            self.observer.observe(socket.scope, PATH, problem.details.status, time.perf_counter() - begun)
            await socket.send_denial_response(problem.response())
            return
        self.observer.observe(socket.scope, PATH, SWITCHING, time.perf_counter() - begun)
        await socket.accept(SUBPROTOCOL if SUBPROTOCOL in socket.scope["subprotocols"] else None)
        await _send(socket, self.native.describe(session_id, session))
        try:
            while True:
                await self._answer(socket, session_id, owner, included, await _receive(socket))
        except WebSocketDisconnect as end:
            if end.code == CLEAN_CLOSE:
                await self.native.discard(session_id, owner)

    async def _session(self, socket: WebSocket, owner: str) -> tuple[str, Session]:
        """The session that the connection steps, and its id."""
        name, _ = self.native.find_agent(socket.path_params["agent"])
        query = {key: value for key, value in socket.query_params.items() if key != "include"}
        session_id = query.pop("session", None)
        if session_id is None:
            try:
                message = msgspec.convert(query, messages.Create, strict=False)
            except msgspec.ValidationError as error:
                raise invalid_message(error) from error
            return await self.native.open(name, message, owner)
        session = await self.native.find_session(session_id, owner)
        if query or session.agent != name:
            raise Problem(
                422,
                "invalid-message",
                f"A session is resumed at its own agent and without other settings. Received: agent {name!r}, "
                f"settings {sorted(query)}",
            )
        return session_id, session

    async def _answer(self, socket: WebSocket, session_id: str, owner: str, included: list[str], text: bytes) -> None:
        try:
            if len(text) > self.native.max_body_bytes:  # our own server has closed the socket; Ray's proxy takes more
                raise too_large(self.native.max_body_bytes)
            reply: Any = await self.native.step(session_id, owner, text, included)
        except Problem as problem:
            reply = problem.details
        await _send(socket, reply)


async def _receive(socket: WebSocket) -> bytes:
    message = await socket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1006))
    return message.get("bytes") or (message.get("text") or "").encode()


async def _send(socket: WebSocket, message: msgspec.Struct) -> None:
    await socket.send_text(msgspec.json.encode(message).decode())
