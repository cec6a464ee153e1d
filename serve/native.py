"""The native API: agents, sessions, steps. Each handler decodes, acts and encodes."""

import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from secrets import randbits
from typing import Annotated, Any, Literal, get_args

import msgspec
import numpy as np
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from nmn_keras.runtime import InvalidInput, OnnxAgent
from serve import messages, sessions, snapshots
from serve.answers import answer
from serve.bodies import decode, read_body, read_message
from serve.idempotency import DESCRIPTION, HEADER, Idempotency
from serve.metrics import Metrics
from serve.operations import Operation
from serve.problems import Problem, invalid_input, unknown_agent
from serve.rounds import Plan, Rounds
from serve.sessions import Session, layout_of
from serve.steps import plan_step
from serve.stores import Claim, Store

CREATE = msgspec.json.Decoder(messages.Create)
EMPTY = msgspec.json.Decoder(messages.Empty)
ONE_STEP, MANY_STEPS = msgspec.json.Decoder(messages.OneStep), msgspec.json.Decoder(messages.ManySteps)
SNAPSHOT = msgspec.json.Decoder(messages.Snapshot)
Includable = Literal["z", "action_mean", "action_log_std", "logits"]
INCLUDABLE: tuple[str, ...] = get_args(Includable)
INCLUDE = {"include": Annotated[list[Includable], msgspec.Meta(description="Further outputs, separated by commas.")]}
REPEATABLE = {HEADER: Annotated[str, msgspec.Meta(description=DESCRIPTION)]}
MEMBERS = {name: name for name in ("observation", "prev_action", "prev_reward", "state")}
STATELESS_STEP = msgspec.json.Decoder(messages.StatelessStep)


@dataclass(frozen=True)
class Native:
    """The routes under /v1.

    Args:
        agents: by the name they are served as.
        store: where sessions are kept.
        rounds: takes what is asked of them.
        metrics: told of every step.
        ttl_seconds: how long a session is kept after its last use, unless its client asks for less.
        max_body_bytes: how large a request's body may be.
    """

    agents: Mapping[str, OnnxAgent]
    store: Store
    rounds: Rounds
    metrics: Metrics
    ttl_seconds: float
    max_body_bytes: int

    @cached_property
    def _idempotency(self) -> Idempotency:
        return Idempotency(self.store)

    @cached_property
    def _largest_snapshot(self) -> int:
        """Bytes that a snapshot has at most: what we give must be taken back."""
        widest = max((layout_of(agent).width for agent in self.agents.values()), default=0)
        return snapshots.NUMBER_BYTES * messages.MAX_BATCH * widest + snapshots.OTHER_BYTES

    def operations(self) -> list[Operation]:
        """Return what can be asked, what is asked most first."""
        one, agent = "/v1/sessions/{session}", "/v1/agents/{agent}"
        described, lost = messages.SessionAnswer, (404, 410, 503)
        zeros = self.example_observation()
        return [
            Operation(
                "POST",
                f"{one}/step",
                self.step_session,
                messages.OneStep | messages.ManySteps,
                messages.OneStepAnswer | messages.ManyStepsAnswer,
                query=INCLUDE,
                refusals=(*lost, 409),
                example={"observation": zeros},
            ),
            Operation(
                "POST",
                f"{agent}/step",
                self.step_stateless,
                messages.StatelessStep,
                messages.StatelessStepAnswer,
                refusals=(404,),
                example={"observation": zeros},
            ),
            Operation("POST", f"{one}/episode", self.begin_episode, messages.Empty, described, refusals=lost),
            Operation("POST", f"{one}/reset", self.reset_session, messages.Empty, described, refusals=lost),
            Operation("POST", f"{one}/lock", self.lock_session, messages.Empty, described, refusals=(*lost, 409)),
            Operation("POST", f"{one}/unlock", self.unlock_session, messages.Empty, described, refusals=lost),
            Operation(
                "POST",
                f"{one}/fork",
                self.fork_session,
                messages.Empty,
                described,
                201,
                headers=REPEATABLE,
                refusals=(*lost, 409),
            ),
            Operation("GET", f"{one}/state", self.get_state, None, messages.Snapshot, refusals=lost),
            Operation("PUT", f"{one}/state", self.put_state, messages.Snapshot, described, refusals=(*lost, 409)),
            Operation("GET", one, self.show_session, None, described, refusals=lost),
            Operation("DELETE", one, self.delete_session, status=204, refusals=lost),
            Operation(
                "POST",
                f"{agent}/sessions",
                self.create_session,
                messages.Create,
                described,
                201,
                headers=REPEATABLE,
                refusals=(404, 409, 503),
                example={"deterministic": False, "seed": 7},
            ),
            Operation("GET", agent, self.show_agent, None, messages.AgentCard, refusals=(404,)),
            Operation("GET", "/v1/agents", self.list_agents, None, messages.AgentList),
        ]

    def example_observation(self) -> list[float]:
        """Return an observation that the first agent takes, for the documentation."""
        return [0.0] * next((agent.observation_size for agent in self.agents.values()), 1)

    async def list_agents(self, request: Request) -> Response:
        """List the served agents."""
        cards = [messages.describe(name, agent) for name, agent in self.agents.items()]
        return answer(messages.AgentList(cards))

    async def show_agent(self, request: Request) -> Response:
        """Show an agent: its spaces with their bounds, its sizes, its scores."""
        name, agent = self._find_agent(request)
        return answer(messages.describe(name, agent))

    async def create_session(self, request: Request) -> Response:
        """Open a session: a fresh memory of the agent, under an id of 192 random bits."""
        name, _ = self._find_agent(request)
        message = await read_message(request, CREATE, self.max_body_bytes)
        owner = request.scope["owner"]
        return await self._create(request, message, lambda claim: self._add(self.fresh(name, message, owner), claim))

    async def show_session(self, request: Request) -> Response:
        """Show a session."""
        session_id = request.path_params["session"]
        return answer(self.describe(session_id, await self.find_session(session_id, request.scope["owner"])))

    async def step_session(self, request: Request) -> Response:
        """Take a step: the observation and the previous step's reward in, the action to play out."""
        included = included_outputs(request.query_params) if request.scope["query_string"] else ()
        body = await read_body(request, self.max_body_bytes)
        session_id = request.path_params["session"]
        return answer(await self.step(session_id, request.scope["owner"], body, included))

    async def begin_episode(self, request: Request) -> Response:
        """Begin another episode. The memory is kept."""
        return await self._change(request, lambda session, agent: sessions.begin_episode(session))

    async def reset_session(self, request: Request) -> Response:
        """Zero the memory, free the neuromodulation, count steps from 0."""
        return await self._change(request, sessions.reset_session)

    async def lock_session(self, request: Request) -> Response:
        """Freeze the neuromodulatory signal at its value of the last step."""
        return await self._change(request, sessions.lock_session)

    async def unlock_session(self, request: Request) -> Response:
        """Free the neuromodulatory signal."""
        return await self._change(request, lambda session, agent: sessions.unlock_session(session))

    async def fork_session(self, request: Request) -> Response:
        """Open another session with the same memory."""
        message = await read_message(request, EMPTY, self.max_body_bytes)
        return await self._create(request, message, lambda claim: self._fork(request, claim))

    async def get_state(self, request: Request) -> Response:
        """Return a snapshot: all that the session's future depends on."""
        session = await self.find_session(request.path_params["session"], request.scope["owner"])
        return answer(snapshots.take(session, self.agents[session.agent]))

    async def put_state(self, request: Request) -> Response:
        """Restore a snapshot of the same agent, version and batch."""
        message = await read_message(request, SNAPSHOT, max(self.max_body_bytes, self._largest_snapshot))
        return await self._act(request, lambda session, agent: snapshots.restore(session, agent, message))

    async def delete_session(self, request: Request) -> Response:
        """End a session."""
        await self.rounds.take(_key(request.path_params["session"]), request.scope["owner"], _keep, end=True)
        return Response(status_code=204)

    async def step_stateless(self, request: Request) -> Response:
        """Take a step without a session: the memory in, the memory out."""
        name, agent = self._find_agent(request)
        message = await read_message(request, STATELESS_STEP, self.max_body_bytes)
        with self.metrics.observing_run(name, 1):
            try:
                action, state = agent.act([message.observation], *_memory(message, agent))
            except InvalidInput as error:
                raise invalid_input(error, MEMBERS) from error
        return answer(messages.StatelessStepAnswer(action[0].tolist(), state[0].tolist()))

    async def _change(self, request: Request, change: Callable[[Session, OnnxAgent], Session]) -> Response:
        """Answer a request without members that makes another session of one."""
        await read_message(request, EMPTY, self.max_body_bytes)
        return await self._act(request, change)

    async def _act(self, request: Request, change: Callable[[Session, OnnxAgent], Session]) -> Response:
        session_id = request.path_params["session"]

        def act(session: Session) -> Plan:
            return change(session, self.agents[session.agent])

        after = await self.rounds.take(_key(session_id), request.scope["owner"], act)
        return answer(self.describe(session_id, after))

    async def open(self, name: str, message: messages.Create, owner: str) -> tuple[str, Session]:
        """Open a session and return its id and itself."""
        return await self._add(self.fresh(name, message, owner))

    def fresh(self, name: str, message: messages.Create, owner: str) -> Session:
        """Return a session with a fresh memory, not yet kept."""
        seed = randbits(63) if message.seed is None else message.seed
        ttl = self.ttl_seconds if message.ttl_seconds is None else min(message.ttl_seconds, self.ttl_seconds)
        return sessions.open_session(
            name,
            self.agents[name],
            None if message.deterministic else seed,
            now=self.store.clock(),
            batch=message.batch,
            ttl_seconds=ttl,
            owner=owner,
        )

    async def step(self, session_id: str, owner: str, body: bytes, included: Sequence[str]) -> messages.StepAnswer[Any]:
        """Take one step of a session and return what is answered."""
        begun = time.perf_counter()
        name = ""

        def act(session: Session) -> Plan:
            nonlocal name
            name = session.agent
            decoder: Any = ONE_STEP if session.batch == 1 else MANY_STEPS
            return plan_step(session, self.agents[name], decode(decoder, body)) or session

        taken = False
        try:
            after = await self.rounds.take(_key(session_id), owner, act)
            taken = True
        finally:
            if name:
                self.metrics.observe_step(name, taken, time.perf_counter() - begun)
        return _step_answer(after, self.agents[name], included)

    async def find_session(self, session_id: str, owner: str) -> Session:
        """Return a session as it is now.

        Raises:
            Problem: 404, 410: there is none (any more), or its agent is not served in that version.
        """
        return await self.rounds.take(_key(session_id), owner, _keep)

    async def discard(self, session_id: str, owner: str) -> None:
        """End a session if it is there."""
        try:
            await self.rounds.take(_key(session_id), owner, _keep, end=True)
        except Problem:
            pass

    def describe(self, session_id: str, session: Session) -> messages.SessionAnswer:
        """Return what is said of a session."""
        left = round(session.ends(self.store.max_age_seconds) - self.store.clock(), 3)
        return messages.SessionAnswer(
            session_id, session.agent, session.batch, session.step, session.episode, session.locked, left
        )

    def find_agent(self, name: str) -> tuple[str, OnnxAgent]:
        """Return a served agent and its name."""
        if name not in self.agents:
            raise unknown_agent(name, self.agents)
        return name, self.agents[name]

    async def _add(self, session: Session, claim: Claim | None = None) -> tuple[str, Session]:
        session_id = secrets.token_urlsafe(24)
        claim = None if claim is None else replace(claim, made=session_id)
        return session_id, await self.rounds.take(_key(session_id), session.owner, _keep, fresh=session, claim=claim)

    async def _fork(self, request: Request, claim: Claim | None) -> tuple[str, Session]:
        forked = await self.find_session(request.path_params["session"], request.scope["owner"])
        now = self.store.clock()
        return await self._add(replace(forked, born=now, used=now), claim)

    async def _create(
        self, request: Request, message: Any, make: Callable[[Claim | None], Awaitable[tuple[str, Session]]]
    ) -> Response:
        """Make a session once for each key of the client, and answer it."""

        async def find(session_id: str) -> tuple[str, Session]:
            return session_id, await self.find_session(session_id, request.scope["owner"])

        session_id, session = await self._idempotency.once(request, message, make, find)
        location = {"Location": f"{request.scope.get('root_path', '')}/v1/sessions/{session_id}"}
        return answer(self.describe(session_id, session), 201, location)

    def _find_agent(self, request: Request) -> tuple[str, OnnxAgent]:
        return self.find_agent(request.path_params["agent"])


def _key(session_id: str) -> str:
    """The key of a session in the store, which none of another protocol can have."""
    return f"session/{session_id}"


def _keep(session: Session) -> Session:
    return session


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


def _step_answer(session: Session, agent: OnnxAgent, included: Sequence[str]) -> messages.StepAnswer[Any]:
    """What the last step gave; of outputs that the agent does not have (z of an RNN, say) nothing."""
    if session.batch == 1 and not included:  # the action comes first in the record
        return messages.StepAnswer(np.frombuffer(session.record, np.float32, agent.action_size).tolist(), session.step)
    outputs = layout_of(agent).answered(session)
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
