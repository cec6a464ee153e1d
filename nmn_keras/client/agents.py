"""The client of one session: `AgentClient` for plain code, `AsyncAgentClient` for asyncio."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from nmn_keras.client.http import AsyncHttp, BlockingHttp
from nmn_keras.client.session import SessionClient
from nmn_keras.client.settings import Reach
from nmn_keras.client.wire import Http, Stream, run


class AgentClient(SessionClient):
    """Steps an agent of a server; the memory stays there, in a session.

    ```python
    with AgentClient(agent="b1-nmn") as client:
        action = client.step(observation)
        action = client.step(observation, reward)  # of the action before
    ```

    A step whose answer was lost is sent again until it is answered: it bears a number, by which the server takes it
    once; opening and forking bear a key (`Idempotency-Key`) to the same end. So are all requests, after growing pauses,
    while the connection breaks, an answer takes too long or the server says 502, 503 or 504. A Retry-After
    of up to 30 seconds is waited for. One client is for one thread, or one task, at a time.

    Shapes: O observation, A action, N environments of a `batch` above 1.

    Attributes:
        session, agent, batch: the session's id (a secret), its agent, its N.
        card: what the server says of the agent, a dictionary: spaces, environment, scores, sha256.
        steps: taken since the session was opened or reset.
        last: what the last step was answered (`Step`), with the outputs of `include`; None before.
        keep: whether closing leaves the session on the server: False for one that the client opened, True for one that
            it was given. It can be set.

    Args:
        url: of the server.
        agent: name of a served agent, None = `b3-nmn`; of a session that is resumed, its own.
        transport: "http", or "websocket" for the steps, on one connection that is made anew when it breaks.
        api_key: sent as `Authorization: Bearer`.
        batch: N, environments stepped together, 1 to 1024.
        deterministic: play the policy's deterministic action, or else sample.
        seed: of the samples.
        ttl_seconds: how long the session is kept after its last use; None = the server's default.
        session: id of a session to go on with, without settings of a new one (`batch` to `ttl_seconds`).
        include: further outputs of every step: "z", "action_mean", "action_log_std", "logits", or several of them.
        timeout: seconds to wait for an answer before it counts as lost.
        retries: how often a request is sent again at most.

    Raises:
        ValueError: an argument is not accepted; nothing was sent.
        ServerError: the server refused, in its words; `UnknownSession` and `ExpiredSession` for a session to resume.
        NoAnswer: the server cannot be reached.
    """

    def _begin(self) -> None:
        run(self._open())

    def _connections(self, reach: Reach) -> tuple[Http, Stream | None]:
        if reach.transport == "http":
            return BlockingHttp(reach.url, reach.headers, reach.timeout), None
        from nmn_keras.client.streams import BlockingStream  # websockets is needed here alone

        stream = BlockingStream(reach.url, reach.headers, reach.timeout)
        return BlockingHttp(reach.url, reach.headers, reach.timeout), stream

    def step(
        self, observation: ArrayLike, reward: ArrayLike | None = None, action: ArrayLike | None = None
    ) -> np.ndarray:
        """Take a step and return the action to play.

        Args:
            observation: (O,) or (N, O), environment units.
            reward: a number or (N,), that of the previous step: needed from an episode's second step on. At the first
                step after `begin_episode` the agent learns from it if it is given.
            action: (A,) or (N, A), environment units: what was played at the previous step, if not what was answered.

        Returns:
            float32 (A,) or (N, A), environment units.

        Raises:
            ValueError: a shape is wrong or a number is not finite; nothing was sent.
            ServerError: the server refused, nothing was changed. Status 409 if somebody else stepped the session:
                `describe` catches up with it.
            NoAnswer: the server cannot be reached. The same step can be tried again.
        """
        return run(self._step(observation, reward, action))

    def begin_episode(self) -> None:
        """Begin another episode; the memory is kept. Twice in a row begins one."""
        run(self._change("episode"))

    def reset(self) -> None:
        """Empty the memory and free the neuromodulation; `steps` is 0 again."""
        run(self._change("reset"))

    def lock(self) -> None:
        """Freeze the neuromodulatory signal at its value of the last step.

        Raises:
            ServerError: 409, the agent has no neuromodulation.
        """
        run(self._change("lock"))

    def unlock(self) -> None:
        """Free the neuromodulatory signal."""
        run(self._change("unlock"))

    def fork(self) -> "AgentClient":
        """Return a client of a new session with the same memory. The two go on independently."""
        client = AgentClient(**run(self._fork()))
        client.keep = False
        return client

    def describe(self) -> dict[str, Any]:
        """Return what the server says of the session (steps, episodes, lock, seconds until it expires)."""
        return run(self._describe())

    def state(self) -> dict[str, Any]:
        """Return a snapshot, JSON, of all that the session's future depends on."""
        return run(self._state())

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Go on from a snapshot, of this session or of another one of the same agent and batch.

        Raises:
            ServerError: 409, the snapshot is of another agent, version or batch; 422, it is damaged.
        """
        run(self._restore(snapshot))

    def detach(self) -> str:
        """Close the client, leave the session on the server and return its id, for `session=` of another client."""
        return run(self._detach())

    def close(self) -> None:
        """Give the connections back and, unless `keep`, delete the session. If the server is away, it expires."""
        run(self._close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncAgentClient(SessionClient):
    """`AgentClient` for asyncio: the same arguments, attributes and methods, which are awaited.

    ```python
    async with AsyncAgentClient(agent="b1-nmn") as client:
        action = await client.step(observation)
    ```
    The session is opened by `async with`, or by `await client.open()`.
    """

    def _begin(self) -> None:
        """Nothing: a constructor cannot await."""

    def _connections(self, reach: Reach) -> tuple[Http, Stream | None]:
        if reach.transport == "http":
            return AsyncHttp(reach.url, reach.headers, reach.timeout), None
        from nmn_keras.client.streams import AsyncStream  # websockets is needed here alone

        stream = AsyncStream(reach.url, reach.headers, reach.timeout)
        return AsyncHttp(reach.url, reach.headers, reach.timeout), stream

    async def open(self) -> Self:
        """Open the session, or find the one to go on with; twice opens one. Raises what `AgentClient` raises."""
        if self._closed or not self._described:
            await self._open()
        return self

    async def step(
        self, observation: ArrayLike, reward: ArrayLike | None = None, action: ArrayLike | None = None
    ) -> np.ndarray:
        """See `AgentClient.step`. If the task is cancelled meanwhile, `describe` tells whether the step was taken."""
        return await self._step(observation, reward, action)

    async def begin_episode(self) -> None:
        """See `AgentClient.begin_episode`."""
        await self._change("episode")

    async def reset(self) -> None:
        """See `AgentClient.reset`."""
        await self._change("reset")

    async def lock(self) -> None:
        """See `AgentClient.lock`."""
        await self._change("lock")

    async def unlock(self) -> None:
        """See `AgentClient.unlock`."""
        await self._change("unlock")

    async def fork(self) -> "AsyncAgentClient":
        """See `AgentClient.fork`."""
        client = await AsyncAgentClient(**await self._fork()).open()
        client.keep = False
        return client

    async def describe(self) -> dict[str, Any]:
        """See `AgentClient.describe`."""
        return await self._describe()

    async def state(self) -> dict[str, Any]:
        """See `AgentClient.state`."""
        return await self._state()

    async def restore(self, snapshot: Mapping[str, Any]) -> None:
        """See `AgentClient.restore`."""
        await self._restore(snapshot)

    async def detach(self) -> str:
        """See `AgentClient.detach`."""
        return await self._detach()

    async def close(self) -> None:
        """See `AgentClient.close`."""
        await self._close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
