"""Does the server's memory grow? Sessions that are opened, used and left in every way, at a steady rate, for long.

    python benchmarks/soak.py
    python benchmarks/soak.py --minutes 2

Lives of sessions begin at a steady rate, whatever the server does meanwhile: stepped and abandoned until they expire,
stepped and deleted, forked, restored from a snapshot, sampled, of several environments; streams that are closed,
dropped and left to expire; sequences of the binary protocol, ended or not. Every answer must have the status that it
should have: that of a deleted session is 404, of an expired one 410. The server's resident memory and its open files
are read every second.

The first seconds (`--warm-up`) are not counted, and they end only when more sessions have expired than the server keeps
in mind as expired (as many as `--max-sessions`, here 1,000): until then its memory grows by design.

Memory: the mean of the last third over that of the first.
"""

import argparse
import asyncio
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from clients import Client, Unanswered
from processes import HOST, ServerProcess, conclude, serving
from websockets.asyncio.client import connect

from nmn_keras import zoo

MAX_SESSIONS = 1000
TTL_SECONDS = 8
"""Of every session: short, but longer than any step waits."""
MOST_GROWTH = 1.05
MOST_FILES = 20
"""By so many may the open files grow: clients' connections come and go."""
MOST_AT_ONCE = 600
"""Lives that go on at once, before the server counts as too slow for the rate."""


class Soak:
    """Lives of sessions on one server, and what was wrong about them.

    Args:
        server: that runs.
        agent: what is stepped.
        observation: that is sent.
        seed: of what happens.
    """

    def __init__(self, server: ServerProcess, agent: str, observation: list[float], seed: int):
        self._server, self._agent, self._observation = server, agent, observation
        self._rng = random.Random(seed)
        self._idle: list[Client] = []
        self._living: set[asyncio.Task] = set()
        self.lives: Counter[str] = Counter()
        self.statuses: Counter[int] = Counter()
        self.expired = 0
        self.failures: list[str] = []

    async def run(self, rate: float, seconds: float, warm_up: float) -> list[tuple[int, int]]:
        """Begin so many lives a second; return memory and open files, second by second after the warm-up."""
        begun = time.monotonic()
        sampler = asyncio.create_task(self._sample(begun, seconds, warm_up))
        lives, number = list(LIVES), 0
        while not sampler.done() and len(self.failures) < 10:
            life = self._rng.choice(lives)
            task = asyncio.create_task(self._live(life))
            self._living.add(task)
            task.add_done_callback(self._living.discard)
            if len(self._living) > MOST_AT_ONCE:
                self.failures.append(f"{len(self._living)} lives go on at once: the server is too slow for the rate")
            number += 1
            await asyncio.sleep(begun + number / rate - time.monotonic())
        await asyncio.gather(*self._living)
        await self._check_that_all_expire()
        return await sampler

    async def _sample(self, begun: float, seconds: float, warm_up: float) -> list[tuple[int, int]]:
        while time.monotonic() < begun + warm_up or self.expired <= MAX_SESSIONS:
            await asyncio.sleep(0.1)
            if self.failures:
                return []
        self.warm_up = time.monotonic() - begun
        samples, first = [], time.monotonic()
        while time.monotonic() < first + seconds:
            samples.append((self._server.resident(), self._server.open_files()))
            await asyncio.sleep(first + len(samples) - time.monotonic())
        return samples

    async def _live(self, life: str) -> None:
        try:
            await LIVES[life](self)
            self.lives[life] += 1
        except (Unanswered, OSError, ValueError, LookupError, TypeError) as error:
            self.failures.append(f"{life}: {error!r}")

    async def _check_that_all_expire(self) -> None:
        """Whether no session is left once the last one's time is over."""
        await asyncio.sleep(TTL_SECONDS + 1)
        _, text = await Client(self._server.port).ask("GET", "/metrics")
        if b"\nnmn_sessions 0.0\n" not in text:
            self.failures.append("sessions are left although all must have expired")

    async def ask(self, status: int, method: str, path: str, message: Any = None) -> Any:
        """Send a message and return the answer's; the status should be this one."""
        client = self._idle.pop() if self._idle else Client(self._server.port)
        received, answer = await client.ask_json(method, path, message)
        self._idle.append(client)
        self.statuses[received] += 1
        if received != status:
            raise ValueError(f"{method} is answered with {received} instead of {status}: {answer}")
        return answer

    async def open(self, **settings: Any) -> str:
        """Open a session and return its path."""
        answer = await self.ask(201, "POST", f"/v1/agents/{self._agent}/sessions", settings)
        return f"/v1/sessions/{answer['session']}"

    async def step(self, path: str, rows: int = 1) -> None:
        """Take some steps."""
        for _ in range(self._rng.randrange(1, 6)):
            observation, reward = ([self._observation] * rows, [0.0] * rows) if rows > 1 else (self._observation, 0.0)
            await self.ask(200, "POST", f"{path}/step?include=z", {"observation": observation, "reward": reward})
            await asyncio.sleep(self._rng.uniform(0, 0.1))

    async def expire(self, path: str) -> None:
        """Let a session's time pass, and see that it is over."""
        await asyncio.sleep(TTL_SECONDS + 0.5)
        await self.ask(410, "GET", path)
        self.expired += 1

    async def abandon(self) -> None:
        """Step a session and leave it."""
        path = await self.open(deterministic=self._rng.random() < 0.5)
        await self.step(path)
        await self.expire(path)

    async def abandon_many(self) -> None:
        """The same with several environments."""
        path = await self.open(batch=5)
        await self.step(path, rows=5)
        await self.expire(path)

    async def delete(self) -> None:
        """Step a session, use what else there is, and delete it."""
        path = await self.open()
        await self.step(path)
        for change in ("lock", "unlock", "episode", "reset"):
            await self.ask(200, "POST", f"{path}/{change}")
        await self.ask(204, "DELETE", path)
        await self.ask(404, "POST", f"{path}/step", {"observation": self._observation})

    async def fork(self) -> None:
        """Step a session and its fork; delete one, leave the other."""
        path = await self.open()
        await self.step(path)
        forked = (await self.ask(201, "POST", f"{path}/fork"))["session"]
        await self.step(f"/v1/sessions/{forked}")
        await self.ask(204, "DELETE", path)
        await self.expire(f"/v1/sessions/{forked}")

    async def restore(self) -> None:
        """Restore a session from its snapshot."""
        path = await self.open()
        await self.step(path)
        snapshot = await self.ask(200, "GET", f"{path}/state")
        await self.step(path)
        await self.ask(200, "PUT", f"{path}/state", snapshot)
        await self.ask(422, "PUT", f"{path}/state", {})
        await self.ask(204, "DELETE", path)

    async def close_stream(self) -> None:
        """Step over a WebSocket and close it: its session ends."""
        path = await self._stream(code=1000)
        await asyncio.sleep(0.5)
        await self.ask(404, "GET", path)

    async def drop_stream(self) -> None:
        """Step over a WebSocket that breaks: its session waits, and expires."""
        await self.expire(await self._stream(code=None))

    async def leave_stream(self) -> None:
        """Close a WebSocket as one does that comes back, and do not."""
        await self.expire(await self._stream(code=1001))

    async def _stream(self, code: int | None) -> str:
        address = f"ws://{HOST}:{self._server.port}/v1/agents/{self._agent}/stream"
        async with connect(address, close_timeout=5) as socket:
            path = f"/v1/sessions/{msgspec.json.decode(await socket.recv())['session']}"
            for _ in range(self._rng.randrange(1, 6)):
                await socket.send(msgspec.json.encode({"observation": self._observation, "reward": 0.0}))
                if b'"action"' not in (await socket.recv(decode=False)):
                    raise ValueError("a step over a WebSocket is refused")
            if code is None:
                socket.transport.abort()
            else:
                await socket.close(code)
        return path

    async def sequence(self) -> None:
        """Step a sequence of the binary protocol, and end it or not."""
        name = f"soak {self._rng.getrandbits(64)}"
        ends = self._rng.random() < 0.5
        for taken in range(4):
            rows = {"observation": self._observation, **({"prev_reward": [0.0]} if taken else {})}
            await self.ask(
                200,
                "POST",
                f"/v2/models/{self._agent}/infer",
                {
                    "parameters": {
                        "sequence_id": name,
                        "sequence_start": taken == 0,
                        "sequence_end": ends and taken == 3,
                    },
                    "inputs": [
                        {"name": name, "datatype": "FP32", "shape": [1, len(row)], "data": row}
                        for name, row in rows.items()
                    ],
                },
            )


LIVES: dict[str, Callable[[Soak], Awaitable[None]]] = {
    "abandoned": Soak.abandon,
    "several environments, abandoned": Soak.abandon_many,
    "deleted": Soak.delete,
    "forked": Soak.fork,
    "restored": Soak.restore,
    "stream closed": Soak.close_stream,
    "stream dropped": Soak.drop_stream,
    "stream left": Soak.leave_stream,
    "sequence": Soak.sequence,
}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", default="b3-nmn", help="published agent (%(default)s)")
    parser.add_argument("--minutes", type=float, default=10.0, help="that are counted (%(default)s)")
    parser.add_argument("--warm-up", type=float, default=60.0, help="seconds before, at least (%(default)s)")
    parser.add_argument("--rate", type=float, default=30.0, help="lives that begin in a second (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of what happens (%(default)s)")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    print(f"    python {' '.join(sys.argv)}\n")
    observation = [0.5] * zoo.load(arguments.agent, runtime="onnx").observation_size
    flags = ["--agents", arguments.agent, "--max-sessions", str(MAX_SESSIONS), "--ttl-seconds", str(TTL_SECONDS)]
    with serving(*flags) as server:
        soak = Soak(server, arguments.agent, observation, arguments.seed)
        samples = asyncio.run(soak.run(arguments.rate, 60 * arguments.minutes, arguments.warm_up))
        problems = server.stop()
    report(arguments, soak, samples, problems)


def report(arguments: argparse.Namespace, soak: Soak, samples: list[tuple[int, int]], problems: list[str]) -> None:
    """Print what was seen, and end with the verdict."""
    failures = [*problems, *soak.failures[:10]]
    lives = ", ".join(f"{name} {count:,}" for name, count in sorted(soak.lives.items()))
    statuses = ", ".join(f"{status}: {count:,}" for status, count in sorted(soak.statuses.items()))
    print(f"{arguments.agent}, {arguments.rate:g} sessions a second\n\n- {lives}\n- answers {statuses}")
    if len(samples) < 3:
        conclude([*failures, "it ended before anything was measured"])
    memory, files = (thirds([sample[index] for sample in samples]) for index in (0, 1))
    growth = memory[1] / memory[0]
    print(f"- resident memory: {memory[0] / 2**20:.2f} MB in the first third, {memory[1] / 2**20:.2f} in the last")
    print(f"- last over first: {growth:.3f} (at most {MOST_GROWTH})")
    minutes = [samples[at : at + 60] for at in range(0, len(samples), 60)]
    by_minute = ", ".join(f"{statistics.mean(bytes_ for bytes_, _ in minute) / 2**20:.1f}" for minute in minutes)
    print(f"- MB minute by minute: {by_minute}")
    print(f"- open files: {files[0]:.1f} in the first third, {files[1]:.1f} in the last")
    print(f"- {len(samples)} seconds counted, after a warm-up of {soak.warm_up:.0f} s\n")
    if growth > MOST_GROWTH:
        failures.append(f"memory grew {growth:.3f} times")
    if files[1] > files[0] + MOST_FILES:
        failures.append(f"{files[1] - files[0]:.0f} more files and connections are open than in the beginning")
    conclude(failures)


def thirds(values: list[int]) -> tuple[float, float]:
    """Return the means of the first third and of the last."""
    third = len(values) // 3
    return statistics.mean(values[:third]), statistics.mean(values[-third:])


if __name__ == "__main__":
    main()
