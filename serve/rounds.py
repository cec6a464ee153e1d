"""Rounds: whatever clients ask of sessions at one moment is done together, one thing at a time per session.

A round loads the sessions concerned, lets each request say what its session becomes, takes all the steps of one agent
as one batch, and saves. A request that comes alone starts its round at once; those that come during a round share the
next one, so that batches grow with the load and nobody waits for company.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from nmn_keras.runtime import OnnxAgent
from serve.metrics import Metrics
from serve.problems import Problem, another_version, expired_session, unknown_session
from serve.sessions import Session
from serve.steps import PlannedStep, take_steps
from serve.stores import Change, Claim, Claimed, Gone, Store

MAX_REQUESTS = 256
"""Most requests of a round."""
MAX_CONFLICTS = 50
"""How often another process may change a session between our loading and saving it before we give up."""

Plan = Session | PlannedStep
"""What a request makes of a session: another one, or a step of it."""


@dataclass(slots=True, eq=False)
class Turn:
    """One request to one session: see `Rounds.take`."""

    key: str
    owner: str
    act: Callable[[Session], Plan]
    fresh: Session | None
    end: bool
    claim: Claim | None = None
    waiter: asyncio.Future[None] | None = None
    result: Session | Exception | None = None
    attempt: Session | None = None
    """What we tried to save, not knowing whether the store kept it."""
    conflicts: int = 0


class Rounds:
    """Takes what is asked of sessions, round by round.

    Args:
        agents: by the name they are served as.
        store: where the sessions are.
        metrics: told of every batch.
    """

    def __init__(self, agents: Mapping[str, OnnxAgent], store: Store, metrics: Metrics):
        self._agents = agents
        self._store = store
        self._metrics = metrics
        self._waiting: list[Turn] = []
        self._running: asyncio.Task | None = None
        """Whose rounds are being taken."""
        self._last = ""
        """The key of the session that was last in a round."""

    async def take(
        self,
        key: str,
        owner: str,
        act: Callable[[Session], Plan],
        *,
        fresh: Session | None = None,
        end: bool = False,
        claim: Claim | None = None,
    ) -> Session:
        """Do something with a session, after what others do with it and before what they do next.

        Args:
            key: of the session in the store.
            owner: who asks; a session of somebody else is unknown to them.
            act: what to make of the session; raises `Problem` to refuse, which changes nothing. It may be called again
                with a later state of the session, if another process changed that meanwhile.
            fresh: a new session to act on, kept under the key whatever was there.
            end: forget the session afterwards.
            claim: kept with a fresh session.

        Returns:
            What the session has become.

        Raises:
            Claimed: somebody else has laid that claim.
            Problem: as `act` does; 404, 410: there is no such session (any more); 503: too many are open, or the store
                cannot be reached.
        """
        turn = Turn(key, owner, act, fresh, end, claim)
        if self._running is None and key == self._last:
            # Whoever stepped last steps again, so nobody else is likely to be coming at this moment: begin at once.
            await self._begin(turn)
        if turn.result is None:
            await self._queue(turn)
        if isinstance(turn.result, Session):
            return turn.result
        raise turn.result or RuntimeError("A round ended without an answer.")

    async def _begin(self, turn: Turn) -> None:
        """Take a round for one request."""
        self._running = asyncio.current_task()
        try:
            await self._take_round([turn])
        finally:
            self._running = None
            if self._waiting:
                self._start()

    async def _queue(self, turn: Turn) -> None:
        """Wait for the round that answers a request."""
        if not turn.conflicts:  # else it waits already, to be tried again
            self._waiting.append(turn)
        turn.waiter = asyncio.get_running_loop().create_future()
        if self._running is None:
            self._start()
        await turn.waiter

    def _start(self) -> None:
        # The task begins after all requests that have arrived by now, so that they share its first round.
        self._running = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        """Take rounds until nothing waits."""
        while self._waiting:
            await self._take_round(self._next_round())
        self._running = None

    async def _take_round(self, turns: list[Turn]) -> None:
        self._last = turns[-1].key
        try:
            await self._round(turns)
        except Exception as error:
            for turn in turns:
                _settle(turn, error)

    def _next_round(self) -> list[Turn]:
        """The next requests to different sessions, first come first served."""
        if len(self._waiting) == 1:
            return [self._waiting.pop()]
        chosen: dict[str, Turn] = {}
        later = []
        for turn in self._waiting:
            if turn.key in chosen or len(chosen) >= MAX_REQUESTS:
                later.append(turn)
            else:
                chosen[turn.key] = turn
        self._waiting = later
        return list(chosen.values())

    async def _round(self, turns: list[Turn]) -> None:
        keys = [turn.key for turn in turns if turn.fresh is None]
        loaded = dict(zip(keys, await self._store.load(keys), strict=True)) if keys else {}
        planned: dict[str, list[tuple[Turn, PlannedStep]]] = {}
        changes: list[tuple[Turn, Session, Change]] = []
        for turn in turns:
            try:
                before = self._find(turn, loaded)
                if before == turn.attempt:  # the store kept our change, although it did not say so
                    _settle(turn, before)
                    continue
                plan = turn.act(before)
            except Exception as error:
                _settle(turn, error)
                continue
            if isinstance(plan, PlannedStep):
                planned.setdefault(before.agent, []).append((turn, plan))
            elif plan is before and turn.fresh is None and not turn.end:
                _settle(turn, before)
            else:
                after = replace(plan, turn=before.turn + 1, used=self._store.clock())
                self._keep(turn, before, after, changes)
        for name, steps in planned.items():
            try:
                self._step(name, steps, changes)
            except Exception as error:  # concerns this agent's steps alone
                for turn, _ in steps:
                    _settle(turn, error)
        if changes:
            await self._save(changes)

    def _find(self, turn: Turn, loaded: Mapping[str, Session | Gone]) -> Session:
        """The session that a request is about."""
        session = loaded[turn.key] if turn.fresh is None else turn.fresh
        if session is Gone.EXPIRED:
            raise expired_session()
        if isinstance(session, Gone) or session.owner != turn.owner:
            raise unknown_session()
        agent = self._agents.get(session.agent)
        if agent is None or agent.sha256 != session.sha256:
            raise another_version(session.agent)
        return session

    def _step(
        self, name: str, steps: list[tuple[Turn, PlannedStep]], changes: list[tuple[Turn, Session, Change]]
    ) -> None:
        """Take the steps of an agent's sessions as one batch."""
        begun = time.perf_counter()
        plans = [plan for _, plan in steps]
        results = take_steps(self._agents[name], plans, self._store.clock())
        self._metrics.observe_batch(name, sum([plan.session.batch for plan in plans]), time.perf_counter() - begun)
        for (turn, plan), result in zip(steps, results, strict=True):
            if isinstance(result, Problem):
                _settle(turn, result)
            else:
                self._keep(turn, plan.session, result, changes)

    def _keep(self, turn: Turn, before: Session, after: Session, changes: list[tuple[Turn, Session, Change]]) -> None:
        """Note what is to be saved for a request."""
        turn.attempt = after
        change = Change(turn.key, before if turn.fresh is None else None, None if turn.end else after, turn.claim)
        changes.append((turn, after, change))

    async def _save(self, changes: list[tuple[Turn, Session, Change]]) -> None:
        results = await self._store.save([change for _, _, change in changes])
        for (turn, after, _), result in zip(changes, results, strict=True):
            if result is True:
                _settle(turn, after)
            elif isinstance(result, Problem):
                _settle(turn, result)
            elif isinstance(result, Claim):
                _settle(turn, Claimed(result))
            elif turn.conflicts < MAX_CONFLICTS:
                turn.conflicts += 1
                self._waiting.insert(0, turn)
            else:
                _settle(turn, busy_session())


def busy_session() -> Problem:
    """503: others change the session all the time."""
    return Problem(
        503,
        "busy-session",
        "Other servers kept changing the session. Send the request again.",
        retry_after=1,
    )


def _settle(turn: Turn, result: Session | Exception) -> None:
    """Answer a request, unless its client has left."""
    if turn.result is None:
        turn.result = result
        if turn.waiter is not None and not turn.waiter.done():
            turn.waiter.set_result(None)
