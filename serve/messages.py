"""The JSON messages of the native API. What stands here is what clients may send and will get."""

from typing import Annotated, Any

import msgspec

from nmn_keras.runtime import OnnxAgent

Seed = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Create(msgspec.Struct, forbid_unknown_fields=True):
    """Open a session.

    `deterministic`: play the policy's deterministic action, or else sample.
    `seed`: of the samples; equal seeds, observations and rewards give equal actions.
    """

    deterministic: bool = True
    seed: Seed | None = None


class Empty(msgspec.Struct, forbid_unknown_fields=True):
    """No members."""


class Step(msgspec.Struct, forbid_unknown_fields=True):
    """One step of a session.

    `observation`: O numbers, environment units.
    `reward`: of the previous step; required after the first step, at which it can only be 0.
    `action`: A numbers, the action played at the previous step, if it was not the one answered.
    """

    observation: list[float]
    reward: float | None = None
    action: list[float] | None = None


class StatelessStep(msgspec.Struct, forbid_unknown_fields=True):
    """One step whose memory the client keeps: the last three together, or none at the start."""

    observation: list[float]
    prev_action: list[float] | None = None
    prev_reward: float | None = None
    state: list[float] | None = None


class SessionAnswer(msgspec.Struct):
    """A session, and how many steps it has taken."""

    session: str
    agent: str
    step: int


class StepAnswer(msgspec.Struct):
    """The action to play, A numbers in environment units, and how many steps were taken."""

    action: list[float]
    step: int


class StatelessStepAnswer(msgspec.Struct):
    """The action to play, and the memory to send with the next step."""

    action: list[float]
    state: list[float]


class Box(msgspec.Struct):
    """Bounds of a vector; null where unbounded."""

    low: list[float | None]
    high: list[float | None]


class AgentCard(msgspec.Struct):
    """A served agent."""

    name: str
    kind: str
    env_id: str
    env_kwargs: dict[str, Any]
    observation: Box
    action: Box
    state_size: int
    signal_size: int
    sha256: str
    scores: Any


class AgentList(msgspec.Struct):
    """Every served agent."""

    agents: list[AgentCard]


class Health(msgspec.Struct):
    """The server's own condition."""

    status: str


def describe(name: str, agent: OnnxAgent) -> AgentCard:
    """Return the card of an agent served as `name`."""
    about = agent.metadata
    return AgentCard(
        name=name,
        kind=agent.kind,
        env_id=agent.env_id,
        env_kwargs=agent.env_kwargs,
        observation=Box(about["observation_low"], about["observation_high"]),
        action=Box(about["action_low"], about["action_high"]),
        state_size=agent.state_size,
        signal_size=agent.signal_size,
        sha256=agent.sha256,
        scores=about.get("scores"),
    )
