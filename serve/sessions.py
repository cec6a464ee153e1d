"""Sessions: what the server remembers for each client, and where it is kept."""

import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from nmn_keras.runtime import InvalidInput, OnnxAgent
from serve.messages import Step
from serve.problems import Problem, invalid_input, unknown_session

# The members of the message behind the agent's arguments.
MEMBERS = {"observation": "observation", "prev_action": "action", "prev_reward": "reward"}


@dataclass(frozen=True, slots=True)
class Session:
    """One agent's memory between two steps. Never changed: a step makes the next one.

    A refused step therefore cannot leave a trace, and a store has a plain value to keep.
    """

    agent: str
    seed: int | None
    """Of the samples; None for the deterministic action."""
    step: int
    """Steps taken since the session was opened or reset."""
    draws: int
    """Steps taken since the session was opened: the noise goes on after a reset."""
    prev_action: np.ndarray
    """float32 (1, A): the action answered at the last step."""
    state: np.ndarray
    """float32 (1, S)."""


def open_session(name: str, agent: OnnxAgent, seed: int | None) -> Session:
    """Return a session with a fresh memory."""
    nothing_played = np.zeros((1, agent.action_size), np.float32)
    return Session(name, seed, 0, 0, nothing_played, agent.initial_state(1))


def reset_session(session: Session, agent: OnnxAgent) -> Session:
    """Return the session with its memory zeroed."""
    return replace(open_session(session.agent, agent, session.seed), draws=session.draws)


def step_session(session: Session, agent: OnnxAgent, message: Step) -> Session:
    """Return the session after one step; its `prev_action` is the action to play now.

    The noise of the n-th sampled step (from 0) is `numpy.random.default_rng([seed, n])`, so that it
    does not depend on anything but the session.

    Raises:
        Problem: 422, the reward is missing or came before anything was played, or the numbers
            cannot be stepped with.
    """
    _check_reward(session, message)
    rng = None if session.seed is None else np.random.default_rng([session.seed, session.draws])
    try:
        action, state = agent.act(
            [message.observation],
            session.prev_action if message.action is None else [message.action],
            [[message.reward or 0.0]],
            session.state,
            rng=rng,
        )
    except InvalidInput as error:
        raise invalid_input(error, MEMBERS) from error
    step, draws = session.step + 1, session.draws + 1
    return replace(session, step=step, draws=draws, prev_action=action, state=state)


def _check_reward(session: Session, message: Step) -> None:
    """The reward and the played action are those of the previous step, if there was one."""
    if session.step and message.reward is None:
        raise Problem(
            422,
            "missing-reward",
            f"From the second step on the previous step's reward is required. This is step {session.step + 1}.",
            "$.reward",
        )
    if not session.step and (message.reward or message.action is not None):
        raise Problem(
            422,
            "nothing-played-yet",
            "The first step follows no other: send it without `action`, and with `reward` absent or 0.",
            "$.reward" if message.reward else "$.action",
        )


class SessionStore:
    """Sessions in this process's memory, forgotten when idle for too long.

    The server steps in the event loop of one thread and never waits between `get` and `put`: a step
    costs less than handing it to another thread would, and no session can be stepped twice at once.

    Args:
        max_sessions: how many may be open at once.
        idle_seconds: how long one is kept after its last use.
        clock: seconds, never going back.
    """

    def __init__(
        self,
        max_sessions: int = 10_000,
        idle_seconds: float = 3600.0,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._max_sessions = max_sessions
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._kept: OrderedDict[str, tuple[float, Session]] = OrderedDict()  # longest idle first

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, session: Session) -> str:
        """Keep a new session and return its id, 192 random bits that nobody can guess.

        Raises:
            Problem: 503, too many are open; it says when to try again.
        """
        self._forget_idle()
        if len(self._kept) >= self._max_sessions:
            raise self._too_many()
        session_id = secrets.token_urlsafe(24)
        self.put(session_id, session)
        return session_id

    def get(self, session_id: str) -> Session:
        """Return a session.

        Raises:
            Problem: 404, there is none of that id.
        """
        self._forget_idle()
        if session_id not in self._kept:
            raise unknown_session()
        return self._kept[session_id][1]

    def put(self, session_id: str, session: Session) -> None:
        """Keep what a session has become."""
        self._kept[session_id] = (self._clock(), session)
        self._kept.move_to_end(session_id)

    def delete(self, session_id: str) -> None:
        """Forget a session.

        Raises:
            Problem: 404, there is none of that id.
        """
        self.get(session_id)
        del self._kept[session_id]

    def _forget_idle(self) -> None:
        oldest_kept = self._clock() - self._idle_seconds
        while self._kept and next(iter(self._kept.values()))[0] < oldest_kept:
            self._kept.popitem(last=False)

    def _too_many(self) -> Problem:
        oldest = next(iter(self._kept.values()))[0] if self._kept else self._clock()
        seconds = max(1, math.ceil(oldest + self._idle_seconds - self._clock()))
        return Problem(
            503,
            "too-many-sessions",
            f"{self._max_sessions} sessions are open, and no more are allowed. Delete one that is "
            f"done with, or wait {seconds} seconds until the longest idle one is forgotten.",
            headers={"Retry-After": str(seconds)},
        )
