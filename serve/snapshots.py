"""Snapshots: a session written out, so that it can be restored here or elsewhere, and read back."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from nmn_keras.runtime import InvalidInput, OnnxAgent
from serve.messages import MemorySnapshot, Snapshot
from serve.problems import Problem, invalid_input
from serve.sessions import Memory, Session

COPIED = ("seed", "step", "draws", "episode", "begins", "locked")
# The members of the message behind the agent's arguments.
BEFORE = {name: f"before.{name}" for name in ("prev_action", "prev_reward", "state")}
NOW = {"prev_action": "action", "state": "state"}


def take(session: Session, agent: OnnxAgent) -> Snapshot:
    """Return all that the session's future depends on."""
    before = session.before
    return Snapshot(
        agent=session.agent,
        sha256=agent.sha256,
        batch=session.batch,
        **{name: getattr(session, name) for name in COPIED},
        state=session.state.tolist(),
        action=None if session.answer is None else session.answer["action"].tolist(),
        before=MemorySnapshot(before.prev_action.tolist(), before.prev_reward.tolist(), before.state.tolist()),
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
    sent = snapshot.before
    before = _memory(agent, session.batch, BEFORE, sent.prev_action, sent.prev_reward, sent.state)
    action = before.prev_action if snapshot.action is None else snapshot.action
    memory = _memory(agent, session.batch, NOW, action, before.prev_reward, snapshot.state)
    return replace(
        session,
        **{name: getattr(snapshot, name) for name in COPIED},
        state=memory.state,
        before=before,
        answer=None if snapshot.action is None else {"action": memory.prev_action},
        request=b"",
    )


def _memory(agent: OnnxAgent, batch: int, members: Mapping[str, str], *parts: Any) -> Memory:
    """The arrays of a memory that a client sent under these members."""
    nothing = np.zeros((batch, agent.observation_size), np.float32)
    try:
        return Memory(*agent.check(nothing, *parts)[1:])
    except InvalidInput as error:
        raise invalid_input(error, members) from error
