"""Snapshots: a session written out, so that it can be restored here or elsewhere, and read back."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec.structs import replace

from nmn_keras.runtime import InvalidInput, OnnxAgent
from serve.messages import MemorySnapshot, Snapshot
from serve.problems import Problem, invalid_input
from serve.sessions import Session, layout_of

COPIED = ("seed", "step", "draws", "episode", "begins", "locked")
NUMBER_BYTES, OTHER_BYTES = 26, 4096
"""What a number of a row has at most in JSON, with its comma and brackets, and what a snapshot has beside rows."""
# The members of the message behind the agent's arguments.
BEFORE = {name: f"before.{name}" for name in ("prev_action", "prev_reward", "state")}
NOW = {"prev_action": "action", "state": "state"}


def take(session: Session, agent: OnnxAgent) -> Snapshot:
    """Return all that the session's future depends on."""
    layout = layout_of(agent)
    rows = layout.rows(session)
    before = rows[:, layout.before]
    return Snapshot(
        agent=session.agent,
        sha256=agent.sha256,
        batch=session.batch,
        **{name: getattr(session, name) for name in COPIED},
        state=rows[:, layout.state].tolist(),
        action=rows[:, layout.action].tolist() if session.played else None,
        before=MemorySnapshot(*(before[:, part].tolist() for part in (layout.action, layout.reward, layout.state))),
    )


def restore(session: Session, agent: OnnxAgent, snapshot: Snapshot) -> Session:
    """Return the session as the snapshot says; its time to live stays its own.

    Raises:
        Problem: 409, the snapshot is of another agent, another version of it or another batch; 422, its numbers do not
            fit.
    """
    for name, own in (("agent", session.agent), ("sha256", agent.sha256), ("batch", session.batch)):
        received = getattr(snapshot, name)
        if received != own:
            raise Problem(
                409,
                "foreign-state",
                f"The state is not of this session's agent, version and batch. `{name}` must be {own!r}. "
                f"Received: {received!r}",
                f"$.{name}",
            )
    sent, layout = snapshot.before, layout_of(agent)
    rows = np.zeros((session.batch, layout.width), np.float32)
    rows[:, layout.before] = _memory(agent, session.batch, BEFORE, sent.prev_action, sent.prev_reward, sent.state)
    nothing = np.zeros_like(rows[:, layout.action])
    action = nothing if snapshot.action is None else snapshot.action
    rows[:, layout.now] = _memory(agent, session.batch, NOW, action, rows[:, layout.reward], snapshot.state)
    return replace(
        session,
        **{name: getattr(snapshot, name) for name in COPIED},
        record=rows.tobytes(),
        played=snapshot.action is not None,
        request=b"",
    )


def _memory(agent: OnnxAgent, batch: int, members: Mapping[str, str], *parts: Any) -> np.ndarray:
    """The memory (N, A + 1 + S) that a client sent under these members: action, reward, state."""
    nothing = np.zeros((batch, agent.observation_size), np.float32)
    try:
        return np.concatenate(agent.check(nothing, *parts)[1:], axis=1)
    except InvalidInput as error:
        raise invalid_input(error, members) from error
