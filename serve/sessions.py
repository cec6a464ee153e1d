"""Sessions: what the server remembers for a client between two steps, and what becomes of it."""

import functools
from collections.abc import Mapping
from itertools import pairwise
from secrets import randbits

import msgspec
import numpy as np
from msgspec.structs import replace

from nmn_keras.runtime import OnnxAgent
from serve.problems import Problem


class Session(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One agent's memory between two steps. Never changed: a step makes the next one.

    A refused step therefore cannot leave a trace, and a store has a plain value to keep. Its numbers are in one
    `record` (see `Layout`), so that the steps of many sessions can be taken as one.
    """

    agent: str
    sha256: str
    """Of the agent's file: another version of the agent has another memory."""
    owner: str
    """Whose it is: the digest of an API key, or ""."""
    batch: int
    """N, environments stepped together."""
    seed: int | None
    """Of the samples; None for the deterministic action."""
    ttl_seconds: float
    """How long it is kept after its last use."""
    born: float
    """When it was opened, in the seconds of the store's clock."""
    used: float
    """When it was used last."""
    turn: int
    """A number that every change raises by one; the first is random. Stores compare it."""
    record: bytes
    """N rows of float32."""
    step: int = 0
    """Steps taken since the session was opened or reset."""
    draws: int = 0
    """Steps taken since the session was opened: the noise goes on after a reset."""
    episode: int = 0
    """Episodes that have ended since the session was opened or reset."""
    begins: bool = True
    """Whether the next step is the first of an episode."""
    played: bool = False
    """Whether an action was answered since the session was opened or reset."""
    locked: bool = False
    """Whether the neuromodulation is frozen."""
    request: bytes = b""
    """Digest of the message of the last step, if that bore a number."""

    def ends(self, max_age_seconds: float) -> float:
        """Return when it will have been idle for too long, or be too old."""
        return min(self.born + max_age_seconds, self.used + self.ttl_seconds)


class Layout:
    """Where the numbers of an agent's sessions are in a row of their record.

    A memory is what a step starts from beside the observation: previous action (A), previous reward (1) and state (S).
    A row holds the memory that the next step starts from (its reward is filled in then), the memory that the last step
    started from, and what else the last step gave: the policy (`action_mean`, `action_log_std`, or `logits`), `z`.
    """

    def __init__(self, agent: OnnxAgent):
        action = agent.action_size
        memory = action + 1 + agent.state_size
        self.action = slice(0, action)
        """Within a memory, which starts at the record's first column."""
        self.reward = slice(action, action + 1)
        self.state = slice(action + 1, memory)
        self.now = slice(0, memory)
        self.before = slice(memory, 2 * memory)
        others = [*agent.policy_outputs, *(["z"] if agent.signal_size else [])]
        ends = np.cumsum([2 * memory, *(agent.output_sizes[name] for name in others)]).tolist()
        places = {name: slice(*place) for name, place in zip(others, pairwise(ends), strict=True)}
        self.outputs = {"action": self.action, **places, "state_out": self.state}
        """The agent's outputs by name."""
        self.width = ends[-1]

    def rows(self, session: Session) -> np.ndarray:
        """Return a session's record, float32 (N, width), read-only."""
        return np.frombuffer(session.record, np.float32).reshape(session.batch, self.width)

    def answered(self, session: Session) -> dict[str, np.ndarray]:
        """Return the outputs of the last step by name, (N, ...)."""
        rows = self.rows(session)
        return {name: rows[:, columns] for name, columns in self.outputs.items()}


@functools.cache
def layout_of(agent: OnnxAgent) -> Layout:
    """Return the layout of an agent's sessions."""
    return Layout(agent)


def open_session(
    name: str,
    agent: OnnxAgent,
    seed: int | None,
    *,
    now: float,
    batch: int = 1,
    ttl_seconds: float = 3600.0,
    owner: str = "",
) -> Session:
    """Return a session with a fresh memory."""
    record = _empty_record(agent, batch)
    turn = randbits(48)
    return Session(name, agent.sha256, owner, batch, seed, float(ttl_seconds), now, now, turn, record)


def reset_session(session: Session, agent: OnnxAgent) -> Session:
    """Return the session with its memory zeroed and its neuromodulation free."""
    record = _empty_record(agent, session.batch)
    fresh: Mapping = {"step": 0, "episode": 0, "begins": True, "played": False, "locked": False, "request": b""}
    return replace(session, record=record, **fresh)


def begin_episode(session: Session) -> Session:
    """Return the session at the start of another episode, its memory kept."""
    if session.begins:
        return session
    return replace(session, episode=session.episode + 1, begins=True)


def lock_session(session: Session, agent: OnnxAgent) -> Session:
    """Return the session with its signal z frozen at what it was in the last step (at first, at its initial value).

    z follows from the memory that a step starts from alone, so that memory is kept.

    Raises:
        Problem: 409, the agent has no neuromodulation.
    """
    if not agent.signal_size:
        raise Problem(
            409,
            "no-neuromodulation",
            f"{session.agent!r} is of kind {agent.kind!r}, which has no neuromodulation to lock; 'nmn' has.",
        )
    return replace(session, locked=True)


def unlock_session(session: Session) -> Session:
    """Return the session with its signal free: the memory goes on from where it was locked."""
    return replace(session, locked=False)


def _empty_record(agent: OnnxAgent, batch: int) -> bytes:
    layout = layout_of(agent)
    rows = np.zeros((batch, layout.width), np.float32)
    for memory in (layout.now, layout.before):
        rows[:, memory][:, layout.state] = agent.initial_state(batch)
    return rows.tobytes()
