"""The JSON messages of the native API. What stands here is what clients may send and will get."""

from typing import Annotated, Any, Generic, TypeVar

import msgspec

from nmn_keras.runtime import OnnxAgent

Row = TypeVar("Row")
Number = TypeVar("Number")
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Seed = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
MAX_BATCH = 1024
Batch = Annotated[int, msgspec.Meta(ge=1, le=MAX_BATCH)]
Seconds = Annotated[float, msgspec.Meta(gt=0)]


class Create(msgspec.Struct, forbid_unknown_fields=True):
    """Open a session.

    `batch`: N, environments stepped together; above 1 every vector of a step becomes an array of N rows.
    `deterministic`: play the policy's deterministic action, or else sample.
    `seed`: of the samples; equal seeds, observations and rewards give equal actions.
    `ttl_seconds`: how long the session is kept after its last use, at most; the server's default if absent.
    """

    batch: Batch = 1
    deterministic: bool = True
    seed: Seed | None = None
    ttl_seconds: Seconds | None = None


class Empty(msgspec.Struct, forbid_unknown_fields=True):
    """No members."""


class Step(msgspec.Struct, Generic[Row, Number], forbid_unknown_fields=True):
    """One step of a session: what `OneStep` and `ManySteps` have in common."""

    observation: Row
    reward: Number | None = None
    action: Row | None = None
    step: Count | None = None


class OneStep(Step[list[float], float]):
    """One step of a session of `batch` 1.

    `observation`: O numbers, environment units.
    `reward`: of the previous step, required after the first step, at which it can only be 0.
    `action`: A numbers, the action played at the previous step, if it was not the one answered.
    `step`: the number that the answer will have. With that of the last step the same message gives the same answer
    again and changes nothing, so that a client can repeat a request whose answer was lost.
    """


class ManySteps(Step[list[list[float]], list[float]]):
    """One step of a session of `batch` N above 1.

    `observation`: N rows of O numbers.
    `reward`: N numbers.
    `action`: N rows of A numbers.
    `step`: as in `OneStep`.
    """


class StatelessStep(msgspec.Struct, forbid_unknown_fields=True):
    """One step whose memory the client keeps: the last three together, or none at the start."""

    observation: list[float]
    prev_action: list[float] | None = None
    prev_reward: float | None = None
    state: list[float] | None = None


class MemorySnapshot(msgspec.Struct, forbid_unknown_fields=True):
    """What a step started from: N rows each."""

    prev_action: list[list[float]]
    prev_reward: list[list[float]]
    state: list[list[float]]


class Snapshot(msgspec.Struct, forbid_unknown_fields=True):
    """All that a session's future depends on. Sent back it is refused by another agent or another version of it."""

    agent: str
    sha256: str
    batch: Batch
    seed: Seed | None
    step: Count
    draws: Count
    episode: Count
    begins: bool
    locked: bool
    state: list[list[float]]
    action: list[list[float]] | None
    before: MemorySnapshot


class SessionAnswer(msgspec.Struct):
    """A session.

    `step`: steps taken since it was opened or reset. `episode`: episodes begun since then, the first one left out.
    `locked`: whether its neuromodulation is frozen. `expires_in`: seconds until it is forgotten if it is not used.
    """

    session: str
    agent: str
    batch: int
    step: int
    episode: int
    locked: bool
    expires_in: float


class StepAnswer(msgspec.Struct, Generic[Row], omit_defaults=True):
    """What is answered to a step: what `OneStepAnswer` and `ManyStepsAnswer` have in common."""

    action: Row
    step: int
    z: Row | None = None
    action_mean: Row | None = None
    action_log_std: Row | None = None
    logits: Row | None = None


class OneStepAnswer(StepAnswer[list[float]]):
    """The action to play, how many steps were taken, and what else was asked for, in a session of `batch` 1.

    `action`: A numbers, environment units; of a discrete action the numbers of the choices.
    `step`: steps taken since the session was opened or reset.
    `z`: the neuromodulatory signal, Z numbers; absent where the agent has none.
    `action_mean`, `action_log_std`: the policy, A numbers in network units; absent where actions are discrete.
    `logits`: the policy of a discrete action, a number for each choice of each dimension; else absent.
    """


class ManyStepsAnswer(StepAnswer[list[list[float]]]):
    """As `OneStepAnswer`, with N rows of everything, in a session of `batch` N above 1."""


class StatelessStepAnswer(msgspec.Struct):
    """The action to play, and the memory to send with the next step."""

    action: list[float]
    state: list[float]


class Box(msgspec.Struct):
    """Bounds of a vector; null where unbounded."""

    low: list[float | None]
    high: list[float | None]


class Actions(Box):
    """Bounds of an action, and for a discrete one the numbers of choices, whole numbers from `low`; else null."""

    sizes: list[int] | None


class AgentCard(msgspec.Struct):
    """A served agent. Its observation is the environment's, flattened as `gymnasium.spaces.flatten` does it."""

    name: str
    kind: str
    env_id: str
    env_kwargs: dict[str, Any]
    observation: Box
    action: Actions
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
        action=Actions(
            about["action_low"], about["action_high"], None if agent.action_sizes is None else [*agent.action_sizes]
        ),
        state_size=agent.state_size,
        signal_size=agent.signal_size,
        sha256=agent.sha256,
        scores=about.get("scores"),
    )
