"""The native API: agents, sessions, steps. Each handler decodes, acts and encodes."""

from collections.abc import Mapping
from dataclasses import dataclass
from secrets import randbits

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nmn_keras.runtime import InvalidInput, OnnxAgent
from serve import messages
from serve.bodies import read_message
from serve.problems import Problem, invalid_input, unknown_agent
from serve.sessions import SessionStore, open_session, reset_session, step_session

CREATE = msgspec.json.Decoder(messages.Create)
EMPTY = msgspec.json.Decoder(messages.Empty)
STEP = msgspec.json.Decoder(messages.Step)
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
        sessions: where sessions are kept.
        max_body_bytes: how large a request's body may be.
    """

    agents: Mapping[str, OnnxAgent]
    sessions: SessionStore
    max_body_bytes: int

    def routes(self) -> list[Route]:
        """Return the route table."""
        return [
            Route("/v1/agents", self.list_agents),
            Route("/v1/agents/{agent}", self.show_agent),
            Route("/v1/agents/{agent}/sessions", self.create_session, methods=["POST"]),
            Route("/v1/agents/{agent}/step", self.step_stateless, methods=["POST"]),
            Route("/v1/sessions/{session}/step", self.step_session, methods=["POST"]),
            Route("/v1/sessions/{session}/reset", self.reset_session, methods=["POST"]),
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
        name, agent = self._find_agent(request)
        message = await read_message(request, CREATE, self.max_body_bytes)
        seed = randbits(63) if message.seed is None else message.seed
        session = open_session(name, agent, None if message.deterministic else seed)
        session_id = self.sessions.add(session)
        location = {"Location": f"/v1/sessions/{session_id}"}
        return answer(messages.SessionAnswer(session_id, name, 0), 201, location)

    async def step_session(self, request: Request) -> Response:
        """POST /v1/sessions/{session}/step."""
        message = await read_message(request, STEP, self.max_body_bytes)
        session_id = request.path_params["session"]
        session = self.sessions.get(session_id)
        after = step_session(session, self.agents[session.agent], message)
        self.sessions.put(session_id, after)
        return answer(messages.StepAnswer(after.prev_action[0].tolist(), after.step))

    async def reset_session(self, request: Request) -> Response:
        """POST /v1/sessions/{session}/reset."""
        await read_message(request, EMPTY, self.max_body_bytes)
        session_id = request.path_params["session"]
        session = self.sessions.get(session_id)
        after = reset_session(session, self.agents[session.agent])
        self.sessions.put(session_id, after)
        return answer(messages.SessionAnswer(session_id, after.agent, after.step))

    async def delete_session(self, request: Request) -> Response:
        """DELETE /v1/sessions/{session}."""
        self.sessions.delete(request.path_params["session"])
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

    def _find_agent(self, request: Request) -> tuple[str, OnnxAgent]:
        name = request.path_params["agent"]
        if name not in self.agents:
            raise unknown_agent(name, self.agents)
        return name, self.agents[name]


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
