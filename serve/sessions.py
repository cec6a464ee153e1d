"""Sessions: what the server remembers for a client between two steps, and what becomes of it."""

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from nmn_keras.runtime import InvalidInput, OnnxAgent
from serve.messages import Step
from serve.problems import Problem, invalid_input

# The members of the message behind the agent's arguments.
MEMBERS = {"observation": "observation", "prev_action": "action", "prev_reward": "reward"}


@dataclass(frozen=True, slots=True)
class Memory:
    """What a step starts from, beside the observation; a lock freezes it."""

    prev_action: np.ndarray
    """float32 (N, A)."""
    prev_reward: np.ndarray
    """float32 (N, 1)."""
    state: np.ndarray
    """float32 (N, S)."""


@dataclass(frozen=True, slots=True)
class Session:
    """One agent's memory between two steps. Never changed: a step makes the next one.

    A refused step therefore cannot leave a trace, and a store has a plain value to keep.
    """

    agent: str
    batch: int
    """N, environments stepped together."""
    seed: int | None
    """Of the samples; None for the deterministic action."""
    ttl_seconds: float
    """How long it is kept after its last use."""
    state: np.ndarray
    """float32 (N, S)."""
    before: Memory
    """What the last step started from; before any, the empty memory."""
    step: int = 0
    """Steps taken since the session was opened or reset."""
    draws: int = 0
    """Steps taken since the session was opened: the noise goes on after a reset."""
    episode: int = 0
    """Episodes that have ended since the session was opened or reset."""
    begins: bool = True
    """Whether the next step is the first of an episode."""
    locked: bool = False
    """Whether the neuromodulation is frozen."""
    answer: dict[str, np.ndarray] | None = None
    """The agent's outputs (N, ...) of the last step."""
    request: bytes = b""
    """Digest of the message of the last step."""


def open_session(
    name: str, agent: OnnxAgent, seed: int | None, *, batch: int = 1, ttl_seconds: float = 3600.0
) -> Session:
    """Return a session with a fresh memory."""
    empty = Memory(
        np.zeros((batch, agent.action_size), np.float32),
        np.zeros((batch, 1), np.float32),
        agent.initial_state(batch),
    )
    return Session(name, batch, seed, ttl_seconds, empty.state, empty)


def reset_session(session: Session, agent: OnnxAgent) -> Session:
    """Return the session with its memory zeroed and its neuromodulation free."""
    fresh = open_session(session.agent, agent, session.seed, batch=session.batch, ttl_seconds=session.ttl_seconds)
    return replace(fresh, draws=session.draws)


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


def step_session(session: Session, agent: OnnxAgent, message: Step[Any, Any]) -> Session:
    """Return the session after one step; its `answer` holds the action to play now.

    The noise of the n-th sampled step (from 0) is `numpy.random.default_rng([seed, n])`, so that it does not depend on
    anything but the session. A message that bears the number of the last step is a retry: the session comes back as it
    is, with that step's answer.

    Raises:
        Problem: 409, the step is not the next one, or a retry differs from what was stepped; 422, the reward is missing
            or came before anything was played, or the numbers cannot be stepped with.
    """
    digest = hashlib.blake2b(msgspec.msgpack.encode(message), digest_size=16).digest()
    if message.step is not None and message.step != session.step + 1:
        _check_retry(session, message.step, digest)
        return session
    _check_previous(session, message)
    rng = None if session.seed is None else np.random.default_rng([session.seed, session.draws])
    try:
        observation, *memory = agent.check(*_inputs(session, message), session.state)
        start = session.before if session.locked else Memory(*memory)
        outputs = agent.decide(observation, start.prev_action, start.prev_reward, start.state, rng=rng)
    except InvalidInput as error:
        raise invalid_input(error, MEMBERS) from error
    state = outputs.pop("state_out")
    return replace(
        session,
        state=state,
        before=start,
        step=session.step + 1,
        draws=session.draws + 1,
        begins=False,
        answer=outputs,
        request=digest,
    )


def _check_retry(session: Session, step: int, digest: bytes) -> None:
    """Whether a message with that number, not the next one, is the last step once more."""
    if step != session.step or not session.request:
        raise Problem(
            409,
            "wrong-step",
            f"The next step is {session.step + 1}, and a retry of the last one {session.step}. Received: step {step}",
            "$.step",
        )
    if digest != session.request:
        raise Problem(
            409,
            "another-request",
            f"Step {step} was taken with another message; a retry must repeat it. The next step is {step + 1}.",
            "$.step",
        )


def _inputs(session: Session, message: Step[Any, Any]) -> tuple[Any, Any, Any]:
    """Observation, action played and reward of the step before: (N, O), (N, A), (N, 1).

    Where an episode begins and nothing is said of the last step of the one before, nothing was played.
    """
    one = session.batch == 1
    observation = [message.observation] if one else message.observation
    if len(observation) != session.batch:
        raise Problem(
            422,
            "invalid-input",
            f"`observation` needs one row for each of {session.batch} environments. Received: {len(observation)} rows",
            "$.observation",
        )
    reward = message.reward
    if message.action is not None:
        played = [message.action] if one else message.action
    elif session.answer is None or (session.begins and reward is None):
        played = np.zeros_like(session.before.prev_action)
    else:
        played = session.answer["action"]
    if reward is None:
        return observation, played, np.zeros((session.batch, 1), np.float32)
    return observation, played, [[reward]] if one else [[number] for number in reward]


def _check_previous(session: Session, message: Step[Any, Any]) -> None:
    """The reward and the played action are those of the previous step, if there was one."""
    if not session.begins and message.reward is None:
        raise Problem(
            422,
            "missing-reward",
            f"From the second step on the previous step's reward is required. This is step {session.step + 1}.",
            "$.reward",
        )
    if session.answer is None and (np.any(message.reward or 0.0) or message.action is not None):
        raise Problem(
            422,
            "nothing-played-yet",
            "The first step follows no other: send it without `action`, and with `reward` absent or 0.",
            "$.reward" if np.any(message.reward or 0.0) else "$.action",
        )
