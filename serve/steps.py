"""Steps of sessions: what a message asks for, and the steps of many sessions of one agent as one run of its graph."""

import hashlib
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import msgspec
import numpy as np

from nmn_keras.runtime import InvalidInput, OnnxAgent
from serve.messages import Step
from serve.packets import packet_of
from serve.problems import Problem, invalid_input
from serve.sessions import Session, layout_of
from serve.solo import solo_of

# The members of the message behind the agent's arguments.
MEMBERS = {"observation": "observation", "prev_action": "action", "prev_reward": "reward"}


class PlannedStep(msgspec.Struct, gc=False):
    """A step that may be taken: N rows each."""

    session: Session
    observation: Sequence[Any]
    """N rows of O."""
    action: Sequence[Any] | None
    """N rows of A, what was played at the step before; None for what was answered."""
    reward: Sequence[float]
    """N numbers."""
    request: bytes


def plan_step(session: Session, agent: OnnxAgent, message: Step[Any, Any]) -> PlannedStep | None:
    """Return the step that a message asks for; None if it is the last step once more, whose answer stands.

    Raises:
        Problem: 409, the step is not the next one, or a retry differs from what was stepped; 422, the reward is missing
            or something else than zeros came as played before the first step.
    """
    digest = b""
    if message.step is not None:
        digest = hashlib.blake2b(msgspec.msgpack.encode(message), digest_size=16).digest()
        if message.step != session.step + 1:
            _check_retry(session, message.step, digest)
            return None
    _check_previous(session, message)
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
        action = [message.action] if one else message.action
    elif session.begins and reward is None:
        # Where an episode begins and nothing is said of the last step of the one before, nothing was played.
        action = [[0.0] * agent.action_size] * session.batch
    else:
        action = None
    if reward is None:
        rewards = [0.0] * session.batch
    else:
        rewards = [reward] if one else reward
    if len(rewards) != session.batch:  # numpy would give one number to all rows, or a row that of another session
        raise Problem(
            422,
            "invalid-input",
            f"`reward` needs one number for each of {session.batch} environments. Received: {len(rewards)} numbers",
            "$.reward",
        )
    return PlannedStep(session, observation, action, rewards, digest)


def take_steps(agent: OnnxAgent, planned: Sequence[PlannedStep], now: float) -> list[Session | Problem]:
    """Take one step of each of several sessions of an agent, as one batch.

    The noise of the n-th sampled step (from 0) is `numpy.random.default_rng([seed, n])`, so that it does not depend on
    anything but the session.

    Args:
        agent: whose sessions they are.
        planned: steps of different sessions.
        now: seconds of the store's clock.

    Returns:
        In their order, what each session becomes; a problem (422) where the numbers cannot be stepped with, which
        concerns that session alone.
    """
    if len(planned) == 1 and planned[0].session.batch == 1:
        record = _take_one(agent, planned[0])
        return [_after(planned[0], record, now)] if record is not None else _take_batch(agent, planned, now)
    return _take_batch(agent, planned, now)


def _take_one(agent: OnnxAgent, step: PlannedStep) -> bytes | None:
    session = step.session
    rng = None if session.seed is None else np.random.default_rng([session.seed, session.draws])
    action = None if step.action is None else step.action[0]
    return solo_of(agent).take(session.record, step.observation[0], action, step.reward[0], session.locked, rng)


def _take_batch(agent: OnnxAgent, planned: Sequence[PlannedStep], now: float) -> list[Session | Problem]:
    offsets = [0, *accumulate([step.session.batch for step in planned])]
    inputs = _gather(agent, planned, offsets)
    if inputs is None:
        return _take_the_valid(agent, planned, now)
    rows = _run(agent, planned, offsets, inputs)
    data, width, all_finite = rows.tobytes(), rows.shape[1] * rows.itemsize, bool(np.isfinite(rows).all())
    return [
        _after(step, data[first * width : last * width], now)
        if all_finite or np.isfinite(rows[first:last]).all()
        else _overflow()
        for step, (first, last) in zip(planned, pairwise(offsets), strict=True)
    ]


def _gather(agent: OnnxAgent, planned: Sequence[PlannedStep], offsets: Sequence[int]) -> np.ndarray | None:
    """Observations and the memories to start from, float32 (R, O + A + 1 + S), R filled up to whole packets.

    None if any number cannot be used.
    """
    layout, size, count = layout_of(agent), agent.observation_size, offsets[-1]
    records = np.frombuffer(b"".join([step.session.record for step in planned]), np.float32)
    records = records.reshape(count, layout.width)
    inputs = np.zeros((count + -count % packet_of(agent), size + layout.now.stop), np.float32)
    start = inputs[:count, size:]
    start[:] = records[:, layout.now]
    try:
        with np.errstate(over="ignore"):  # what overflows in the cast is found by the check below
            observation = np.array([row for step in planned for row in step.observation], np.float32)
            start[:, layout.reward.start] = [number for step in planned for number in step.reward]
            for step, first in zip(planned, offsets, strict=False):
                if step.action is not None:
                    played = np.asarray(step.action, np.float32)
                    if played.shape != (step.session.batch, agent.action_size):
                        return None  # would be broadcast
                    start[first : first + len(played), layout.action] = played
    except (TypeError, ValueError, OverflowError):
        return None
    if observation.shape != (count, size):
        return None
    inputs[:count, :size] = observation
    if not np.isfinite(inputs).all():
        return None
    for step, (first, last) in zip(planned, pairwise(offsets), strict=True):
        if step.session.locked:
            start[first:last] = records[first:last, layout.before]
    return inputs


def _run(agent: OnnxAgent, planned: Sequence[PlannedStep], offsets: Sequence[int], inputs: np.ndarray) -> np.ndarray:
    """Run the graph and return the sessions' new rows (R, width), without those that filled up the packet."""
    layout, size, count = layout_of(agent), agent.observation_size, offsets[-1]
    start = inputs[:, size:]
    outputs = agent.step(inputs[:, :size], start[:, layout.action], start[:, layout.reward], start[:, layout.state])
    rows = np.empty((count, layout.width), np.float32)
    rows[:, layout.reward] = 0.0
    rows[:, layout.before] = start[:count]
    for name, columns in layout.outputs.items():
        rows[:, columns] = outputs[name][:count]
    for step, (first, last) in zip(planned, pairwise(offsets), strict=True):
        if step.session.seed is not None:
            rng = np.random.default_rng([step.session.seed, step.session.draws])
            drawn = {name: outputs[name][first:last] for name in agent.policy_outputs}
            rows[first:last, layout.action] = agent.sample(drawn, rng)
    return rows


def _after(step: PlannedStep, record: bytes, now: float) -> Session:
    session = step.session
    return Session(
        session.agent,
        session.sha256,
        session.owner,
        session.batch,
        session.seed,
        session.ttl_seconds,
        session.born,
        now,
        session.turn + 1,
        record,
        session.step + 1,
        session.draws + 1,
        session.episode,
        False,
        True,
        session.locked,
        step.request,
    )


def _take_the_valid(agent: OnnxAgent, planned: Sequence[PlannedStep], now: float) -> list[Session | Problem]:
    """Find what is wrong in which session, and take the other steps."""
    layout = layout_of(agent)
    results: dict[int, Session | Problem] = {}
    for index, step in enumerate(planned):
        answered = layout.rows(step.session)
        played = answered[:, layout.action] if step.action is None else step.action
        try:
            rewards = [[number] for number in step.reward]
            agent.check(step.observation, played, rewards, answered[:, layout.state])
        except InvalidInput as error:
            results[index] = invalid_input(error, MEMBERS)
    good = [index for index in range(len(planned)) if index not in results]
    if len(good) == len(planned):
        raise RuntimeError("The steps are valid one by one, but not together.")
    if good:
        results.update(zip(good, take_steps(agent, [planned[index] for index in good], now), strict=True))
    return [results[index] for index in range(len(planned))]


def _overflow() -> Problem:
    return Problem(
        422,
        "invalid-input",
        "The step overflows: the inputs are finite, but the action or the memory that follows from them is not. "
        "Send numbers of a size met in the environment.",
        "$",
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


def _check_previous(session: Session, message: Step[Any, Any]) -> None:
    """The reward and the played action are those of the previous step, if there was one."""
    if not session.begins and message.reward is None:
        raise Problem(
            422,
            "missing-reward",
            f"From the second step on the previous step's reward is required. This is step {session.step + 1}.",
            "$.reward",
        )
    if not session.played:
        for name in ("reward", "action"):
            _check_nothing(name, getattr(message, name))


def _check_nothing(name: str, value: Any) -> None:
    """At the first step nothing was played yet: the contract feeds zeros there, and so may a client."""
    if not _is_nothing(value):
        raise Problem(
            422,
            "nothing-played-yet",
            f"The first step follows no other: `action` and `reward` may be absent or zeros. Received: {name} "
            f"{str(value)[:100]}",
            f"$.{name}",
        )


def _is_nothing(value: Any) -> bool:
    return value is None or (all(map(_is_nothing, value)) if isinstance(value, list) else value == 0.0)
