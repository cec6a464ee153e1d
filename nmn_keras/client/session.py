"""A session as its client sees it, written once for plain and asynchronous code (`wire` says how)."""

import contextlib
import json
import uuid
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np
from numpy.typing import ArrayLike

from nmn_keras.client.errors import NoAnswer, ServerError
from nmn_keras.client.retries import answered
from nmn_keras.client.settings import DEFAULT_AGENT, Reach, check_resumed, names
from nmn_keras.client.step import Step, numbers, read_step
from nmn_keras.client.wire import Http, Reply, Stream


class SessionClient(ABC):
    """What `AgentClient` and `AsyncAgentClient`, which document it, have in common."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        agent: str | None = None,
        *,
        transport: str = "http",
        api_key: str | None = None,
        batch: int = 1,
        deterministic: bool = True,
        seed: int | None = None,
        ttl_seconds: float | None = None,
        session: str | None = None,
        include: str | Sequence[str] = (),
        timeout: float = 10.0,
        retries: int = 5,
    ):
        self._reach = Reach(url.rstrip("/"), transport, api_key, names(include), timeout, retries)
        self._opening = {"batch": batch, "deterministic": deterministic, "seed": seed, "ttl_seconds": ttl_seconds}
        if session is not None:
            check_resumed(self._opening)
        self._asked = agent, session
        self._described: dict[str, Any] = {}
        self._card: dict[str, Any] = {}
        self._closed = False
        self.keep = session is not None
        self.steps = 0
        self.last: Step | None = None
        self._http, self._stream = self._connections(self._reach)
        self._begin()

    @abstractmethod
    def _connections(self, reach: Reach) -> tuple[Http, Stream | None]:
        """Return what sends requests, and what sends steps where the transport is a WebSocket."""

    @abstractmethod
    def _begin(self) -> None:
        """Open the session if that can be done here."""

    @property
    def session(self) -> str:
        """The session's id. It is a secret: who knows it can step it."""
        return self._opened()["session"]

    @property
    def agent(self) -> str:
        """The name of the agent."""
        return self._opened()["agent"]

    @property
    def batch(self) -> int:
        """N, environments stepped together."""
        return self._opened()["batch"]

    @property
    def card(self) -> dict[str, Any]:
        """What the server says of the agent: spaces, environment, scores, sha256."""
        self._opened()
        return self._card

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{self.steps} steps" if self._described else "not open yet"
        agent = self._described.get("agent", self._asked[0])
        return f"<{type(self).__name__} of {agent} at {self._reach.url}: {state}>"

    async def _open(self) -> None:
        """Open a session, or find the one to go on with."""
        agent, session = self._asked
        try:
            if session is None:
                found = await self._new(agent or DEFAULT_AGENT)
            else:
                found = await self._found(agent, session)
        except BaseException:
            await self._http.close()
            raise
        self._note(found)

    async def _new(self, agent: str) -> dict[str, Any]:
        path = f"/v1/agents/{quote(agent, safe='')}"
        self._card = await self._request("GET", path)
        opening = {name: value for name, value in self._opening.items() if value is not None}
        return await self._request("POST", f"{path}/sessions", opening, headers=_new_key())

    async def _found(self, agent: str | None, session: str) -> dict[str, Any]:
        found = _checked(await self._request("GET", _path(session)))
        if agent not in (None, found["agent"]):
            raise ValueError(f"The session to resume is of agent {found['agent']!r}. Received: agent={agent!r}")
        self._card = await self._request("GET", f"/v1/agents/{quote(found['agent'], safe='')}")
        return found

    async def _step(self, observation: ArrayLike, reward: ArrayLike | None, action: ArrayLike | None) -> np.ndarray:
        rows = () if self.batch == 1 else (self.batch,)
        size, actions = (len(self._card[space]["low"]) for space in ("observation", "action"))
        message = {"observation": numbers("observation", observation, (*rows, size))}
        if reward is not None:
            message["reward"] = numbers("reward", reward, rows)
        if action is not None:
            message["action"] = numbers("action", action, (*rows, actions))
        # By its number the server tells a step that is sent once more from the next one.
        last = read_step(await self._send_step({**message, "step": self.steps + 1}))
        self.last, self.steps = last, last.step
        return last.action

    async def _send_step(self, message: dict[str, Any]) -> Any:
        query = {"include": ",".join(self._reach.include)} if self._reach.include else {}
        if self._stream is None:
            return await self._request("POST", f"{_path(self.session)}/step?{urlencode(query)}", message)
        ask, body = self._stream.ask, _encode(message)
        path = f"/v1/agents/{quote(self.agent, safe='')}/stream?{urlencode({'session': self.session, **query})}"
        return await self._answered(lambda: ask(path, body))

    async def _change(self, what: str) -> None:
        """Send one of the requests that change the session and that can be repeated."""
        self._note(await self._request("POST", f"{_path(self.session)}/{what}"))

    async def _describe(self) -> dict[str, Any]:
        self._note(await self._request("GET", _path(self.session)))
        return dict(self._described)

    async def _fork(self) -> dict[str, Any]:
        """Make a fork and return the arguments of a client of it."""
        fork = await self._request("POST", f"{_path(self.session)}/fork", headers=_new_key())
        return {**vars(self._reach), "session": fork["session"]}

    async def _state(self) -> dict[str, Any]:
        return await self._request("GET", f"{_path(self.session)}/state")

    async def _restore(self, snapshot: Mapping[str, Any]) -> None:
        self._note(await self._request("PUT", f"{_path(self.session)}/state", dict(snapshot)))

    async def _detach(self) -> str:
        self.keep = True
        await self._close()
        return self.session

    async def _close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            if self._stream:
                await self._stream.hang_up()
            if self._described and not self.keep:
                await self._delete()
        finally:
            await self._http.close()

    async def _delete(self) -> None:
        # Whoever leaves is not held up for long: a session that cannot be deleted expires by itself.
        with contextlib.suppress(ServerError, NoAnswer):
            await answered(lambda: self._http.request("DELETE", _path(self.session)), self._http, retries=1)

    async def _request(
        self, method: str, path: str, message: Any = None, *, headers: Mapping[str, str] | None = None
    ) -> Any:
        body = None if message is None else _encode(message)
        return await self._answered(lambda: self._http.request(method, path, body, headers))

    async def _answered(self, attempt: Callable[[], Awaitable[Reply]]) -> Any:
        if self._closed:
            raise RuntimeError("The client is closed. Make another one; session=... goes on with a session.")
        try:
            return await answered(attempt, self._http, self._reach.retries)
        except NoAnswer as error:
            raise NoAnswer(f"No server answers at {self._reach.url} ({error}).", error.sent) from error

    def _opened(self) -> dict[str, Any]:
        if not self._described:
            raise RuntimeError("The client has no session yet: use it in `async with`, or await its open() first.")
        return self._described

    def _note(self, described: dict[str, Any]) -> None:
        """Remember what the server says of the session."""
        self._described, self.steps = _checked(described), described["step"]


def _checked(described: Any) -> dict[str, Any]:
    """What is said of a session, if it is."""
    if not isinstance(described, dict) or not {"session", "agent", "batch", "step"} <= described.keys():
        text = repr(described)[:200]
        raise ServerError(200, "", f"The answer describes no session: {text}. Is it nmn_keras that serves?")
    return described


def _new_key() -> dict[str, str]:
    """The header by which the server tells a request that is sent once more from another one."""
    return {"Idempotency-Key": f'"{uuid.uuid4()}"'}


def _path(session: str) -> str:
    return f"/v1/sessions/{quote(session, safe='')}"


def _encode(message: dict[str, Any]) -> bytes:
    return json.dumps(message, default=_plain, allow_nan=False).encode()


def _plain(value: Any) -> Any:
    """A number of numpy's, as a seed may be, as one of Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"Accepted are numbers, words and what JSON makes of them. Received: {value!r}")
