"""The native API: agents, sessions, steps. Each handler decodes, acts and encodes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from secrets import randbits
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nmn_keras.runtime import InvalidInput, OnnxAgent
from serve import messages, sessions, snapshots
from serve.bodies import decode, read_body, read_message
from serve.problems import Problem, invalid_input, unknown_agent
from serve.sessions import Session
from serve.store import SessionStore

CREATE = msgspec.json.Decoder(messages.Create)
EMPTY = msgspec.json.Decoder(messages.Empty)
ONE_STEP, MANY_STEPS = msgspec.json.Decoder(messages.OneStep), msgspec.json.Decoder(messages.ManySteps)
SNAPSHOT = msgspec.json.Decoder(messages.Snapshot)
INCLUDABLE = ("z", "action_mean", "action_log_std")
MEMBERS = {name: name for name in ("observation", "prev_action", "prev_reward", "state")}
STATELESS_STEP = msgspec.json.Decoder(messages.StatelessStep)


def answer(message: msgspec.Struct, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a message as JSON."""
    return Response(msgspec.json.encode(message), status, headers, media_type="application/json")


@dataclass(frozen=True)
class Native:
    """The routes under /v1.

    Args:
        agents: by the name they are served as.
        store: where sessions are kept.
        ttl_seconds: how long a session is kept after its last use, unless its client asks for less.
        max_body_bytes: how large a request's body may be.
    """

    agents: Mapping[str, OnnxAgent]
    store: SessionStore
    ttl_seconds: float
    max_body_bytes: int

    def routes(self) -> list[Route]:
        """Return the route table."""
        return [
            Route("/v1/agents", self.list_agents),
            Route("/v1/agents/{agent}", self.show_agent),
            Route("/v1/agents/{agent}/sessions", self.create_session, methods=["POST"]),
            Route("/v1/agents/{agent}/step", self.step_stateless, methods=["POST"]),
            Route("/v1/sessions/{session}/step", self.step_session, methods=["POST"]),
            Route("/v1/sessions/{session}/episode", self.begin_episode, methods=["POST"]),
            Route("/v1/sessions/{session}/reset", self.reset_session, methods=["POST"]),
            Route("/v1/sessions/{session}/lock", self.lock_session, methods=["POST"]),
            Route("/v1/sessions/{session}/unlock", self.unlock_session, methods=["POST"]),
            Route("/v1/sessions/{session}/fork", self.fork_session, methods=["POST"]),
            Route("/v1/sessions/{session}/state", self.get_state),
            Route("/v1/sessions/{session}/state", self.put_state, methods=["PUT"]),
            Route("/v1/sessions/{session}", self.show_session),
            Route("/v1/sessions/{session}", self.delete_session, methods=["DELETE"]),
        ]

    async def list_agents(self, request: Request) -> Response:
        """GET /v1/agents."""
        cards = [messages.describe(name, agent) for name, agent in self.agents.items()]
        return answer(messages.AgentList(cards))

    async def show_agent(self, request: Request) -> Response:
        """GET /v1/agents/{agent}."""
        name, agent = self._find_agent(request)
        return answer(messages.describe(name, agent))

    async def create_session(self, request: Request) -> Response:
        """POST /v1/agents/{agent}/sessions."""
        name, _ = self._find_agent(request)
        message = await read_message(request, CREATE, self.max_body_bytes)
        return self._created(self.open(name, message))

    async def show_session(self, request: Request) -> Response:
        """GET /v1/sessions/{session}."""
        session_id = request.path_params["session"]
        return answer(self.describe(session_id))

    async def step_session(self, request: Request) -> Response:
        """POST /v1/sessions/{session}/step."""
        included = included_outputs(request.query_params)
        session_id = request.path_params["session"]
        self.store.get(session_id)  # before its body is read
        body = await read_body(request, self.max_body_bytes)
        return answer(self.step(session_id, body, included))

    async def begin_episode(self, request: Request) -> Response:
        """POST /v1/sessions/{session}/episode."""
        return await self._change(request, lambda session, agent: sessions.begin_episode(session))

    async def reset_session(self, request: Request) -> Response:
        """POST /v1/sessions/{session}/reset."""
        return await self._change(request, sessions.reset_session)

    async def lock_session(self, request: Request) -> Response:
        """POST /v1/sessions/{session}/lock."""
        return await self._change(request, sessions.lock_session)

    async def unlock_session(self, request: Request) -> Response:
        """POST /v1/sessions/{session}/unlock."""
        return await self._change(request, lambda session, agent: sessions.unlock_session(session))

    async def fork_session(self, request: Request) -> Response:
        """POST /v1/sessions/{session}/fork."""
        await read_message(request, EMPTY, self.max_body_bytes)
        return self._created(self.store.add(self.store.get(request.path_params["session"])))

    async def get_state(self, request: Request) -> Response:
        """GET /v1/sessions/{session}/state."""
        session = self.store.get(request.path_params["session"])
        return answer(snapshots.take(session, self.agents[session.agent]))

    async def put_state(self, request: Request) -> Response:
        """PUT /v1/sessions/{session}/state."""
        message = await read_message(request, SNAPSHOT, self.max_body_bytes)
        session_id = request.path_params["session"]
        session = self.store.get(session_id)
        after = snapshots.restore(session, self.agents[session.agent], message)
        self.store.put(session_id, after)
        return answer(self.describe(session_id))

    async def delete_session(self, request: Request) -> Response:
        """DELETE /v1/sessions/{session}."""
        self.store.delete(request.path_params["session"])
        return Response(status_code=204)

    async def step_stateless(self, request: Request) -> Response:
        """POST /v1/agents/{agent}/step."""
        _, agent = self._find_agent(request)
        message = await read_message(request, STATELESS_STEP, self.max_body_bytes)
        try:
            action, state = agent.act([message.observation], *_memory(message, agent))
        except InvalidInput as error:
            raise invalid_input(error, MEMBERS) from error
        return answer(messages.StatelessStepAnswer(action[0].tolist(), state[0].tolist()))

    async def _change(self, request: Request, change: Callable[[Session, OnnxAgent], Session]) -> Response:
        """Answer a request without members that makes another session of one."""
        await read_message(request, EMPTY, self.max_body_bytes)
        session_id = request.path_params["session"]
        session = self.store.get(session_id)
        after = change(session, self.agents[session.agent])
        self.store.put(session_id, after)
        return answer(self.describe(session_id))

    def open(self, name: str, message: messages.Create) -> str:
        """Open a session and return its id."""
        return self.store.add(self.fresh(name, message))

    def fresh(self, name: str, message: messages.Create) -> Session:
        """Return a session with a fresh memory, not yet kept."""
        seed = randbits(63) if message.seed is None else message.seed
        ttl = self.ttl_seconds if message.ttl_seconds is None else min(message.ttl_seconds, self.ttl_seconds)
        return sessions.open_session(
            name,
            self.agents[name],
            None if message.deterministic else seed,
            batch=message.batch,
            ttl_seconds=ttl,
        )

    def step(self, session_id: str, body: bytes, included: Sequence[str]) -> messages.StepAnswer[Any]:
        """Take one step of a session and return what is answered."""
        session = self.store.get(session_id)
        decoder: Any = ONE_STEP if session.batch == 1 else MANY_STEPS
        after = sessions.step_session(session, self.agents[session.agent], decode(lambda: decoder.decode(body)))
        self.store.put(session_id, after)
        return _step_answer(after, included)

    def describe(self, session_id: str) -> messages.SessionAnswer:
        """Return what is said of a session."""
        session = self.store.get(session_id)
        left = round(self.store.seconds_left(session_id), 3)
        return messages.SessionAnswer(
            session_id, session.agent, session.batch, session.step, session.episode, session.locked, left
        )

    def find_agent(self, name: str) -> tuple[str, OnnxAgent]:
        """Return a served agent and its name."""
        if name not in self.agents:
            raise unknown_agent(name, self.agents)
        return name, self.agents[name]

    def _created(self, session_id: str) -> Response:
        return answer(self.describe(session_id), 201, {"Location": f"/v1/sessions/{session_id}"})

    def _find_agent(self, request: Request) -> tuple[str, OnnxAgent]:
        return self.find_agent(request.path_params["agent"])


def included_outputs(query: Mapping[str, str]) -> list[str]:
    """Return the outputs that `?include=` asks for.

    Raises:
        Problem: 422, there is no such output.
    """
    names = [name for name in query.get("include", "").split(",") if name]
    if unknown := [name for name in names if name not in INCLUDABLE]:
        raise Problem(
            422,
            "unknown-output",
            f"`include` takes {', '.join(INCLUDABLE)}, separated by commas. Received: {', '.join(unknown)}",
        )
    return names


def _step_answer(session: Session, included: Sequence[str]) -> messages.StepAnswer[Any]:
    """What the last step gave; of outputs that the agent does not have (z of an RNN) nothing."""
    outputs = session.answer or {}
    rows = {name: outputs[name].tolist() for name in ("action", *included) if name in outputs}
    rows = {name: value[0] for name, value in rows.items()} if session.batch == 1 else rows
    return messages.StepAnswer(step=session.step, **rows)


def _memory(message: messages.StatelessStep, agent: OnnxAgent) -> tuple[list, list, list]:
    """Return the previous action, the previous reward and the state, each as one row."""
    sent = {
        "prev_action": message.prev_action,
        "prev_reward": message.prev_reward,
        "state": message.state,
    }
    missing = [name for name, value in sent.items() if value is None]
    if missing and len(missing) < len(sent):
        raise Problem(
            422,
            "incomplete-memory",
            "Send prev_action, prev_reward and state together, or none of them at the start. "
            f"Missing: {', '.join(missing)}",
            f"$.{missing[0]}",
        )
    if missing:
        return [[0.0] * agent.action_size], [[0.0]], agent.initial_state(1).tolist()
    return [message.prev_action], [[message.prev_reward]], [message.state]
