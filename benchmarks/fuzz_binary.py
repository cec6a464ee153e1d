"""No input breaks the binary protocol, its sequences, or those of others.

    python benchmarks/fuzz_binary.py
    python benchmarks/fuzz_binary.py --only 4711

Requests of Triton's client are altered in many ways (`fuzz_inputs.py`): lengths, shapes, data types, tensors twice or
not at all, numbers that are not finite, strange parameters and flags, deep and broken JSON, bytes cut off, added or at
random. Most go to the application in this process, a share to a real server over sockets, in one piece, in tiny chunks
or broken off; always several at once, together with a step of a bystander: a session and a sequence, of one row and of
three, each of which must step exactly as the agent in process.

What is asked for: no status from 500 on, no exception, nothing on the server's standard error, no input that takes
long, no answer that is much larger than a request may be, and no growing memory. Every input is drawn from the seed and
its number; one at fault is printed, and `--only` repeats it.
"""

import argparse
import asyncio
import os
import statistics
import sys
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import numpy as np
from clients import Client, request
from fuzz_inputs import Input, draw_input
from processes import ServerProcess, conclude, resident, serving

from nmn_keras import zoo
from nmn_keras.runtime import OnnxAgent
from serve.app import create_app
from serve.packets import packet_of

Ask = Callable[[str, Input], Awaitable[tuple[int, bytes]]]
"""Posts an input to a path and returns the answer's status and body; 0 where none is to be expected."""
TOGETHER = 8
MOST_SECONDS = 3.0
"""Of computing for the inputs that are sent at once."""
MOST_BYTES = 16 << 20
"""Of an answer: 16 times what a request may have."""
MOST_GROWTH = 1.05
TTL_SECONDS = 5


class Bystander:
    """A sequence or a session that nobody else knows of, and the same stepped in process."""

    def __init__(self, agent: OnnxAgent, rows: int, session: str | None = None):
        self._agent, self._rows, self._session = agent, rows, session
        self._rng = np.random.default_rng(rows)
        self._padded = rows + -rows % packet_of(agent)  # as the server steps
        self._action = np.zeros((self._padded, agent.action_size), np.float32)
        self._state = agent.initial_state(self._padded)
        self._taken = 0

    async def step(self, ask: Ask) -> str | None:
        """Take a step, and return what is wrong about its answer."""
        observation = self._rng.standard_normal((self._padded, self._agent.observation_size), np.float32)
        reward = self._rng.standard_normal((self._padded, 1), np.float32) * (self._taken > 0)
        expected = self._agent.step(observation, self._action, reward, self._state)
        self._action, self._state, self._taken = expected["action"], expected["state_out"], self._taken + 1
        sent = self._message(observation[: self._rows].tolist(), reward[: self._rows, 0].tolist())
        status, body = await ask(self._path(), Input({"Content-Type": "application/json"}, msgspec.json.encode(sent)))
        if status != 200:
            return f"a bystander is refused: {status} {body[:500]!r}"
        action = np.array(self._read(msgspec.json.decode(body)), np.float32).reshape(self._rows, -1)
        if not np.array_equal(action, expected["action"][: self._rows]):
            return f"a bystander of {self._rows} rows steps otherwise than alone, at step {self._taken}"
        return None

    def _path(self) -> str:
        return f"/v1/sessions/{self._session}/step" if self._session else f"/v2/models/{self._agent.name}/infer"

    def _message(self, observation: list, reward: list) -> dict[str, Any]:
        if self._session:
            one = self._rows == 1
            return {"observation": observation[0] if one else observation, "reward": reward[0] if one else reward}
        arrays = {"observation": observation, "prev_reward": [[number] for number in reward]}
        return {
            "parameters": {"sequence_id": f"bystander of {self._rows}", "sequence_start": self._taken == 1},
            "inputs": [
                {"name": name, "datatype": "FP32", "shape": [len(rows), len(rows[0])], "data": rows}
                for name, rows in arrays.items()
            ],
        }

    def _read(self, answer: Any) -> Any:
        return answer["action"] if self._session else answer["outputs"][0]["data"]


class Fuzz:
    """Sends inputs and watches what comes of them."""

    def __init__(self, agent: OnnxAgent, seed: int, ask: Ask, memory: Callable[[], int], seconds: Callable[[], float]):
        self._agent, self._seed, self._ask = agent, seed, ask
        self._memory, self._seconds = memory, seconds
        self._bystanders: list[Bystander] = []
        self.statuses: Counter[int] = Counter()
        self.failures: list[str] = []
        self.memory: list[int] = []
        self.slowest = 0.0

    async def run(self, numbers: Sequence[int]) -> None:
        """Send the inputs of these numbers, some at once, until too much has gone wrong."""
        self._bystanders = [Bystander(self._agent, rows, await self._open(rows)) for rows in (1, 3)]
        self._bystanders += [Bystander(self._agent, rows) for rows in (1, 3)]
        for at in range(0, len(numbers), TOGETHER):
            group = numbers[at : at + TOGETHER]
            bystander = self._bystanders[at // TOGETHER % len(self._bystanders)]
            begun = self._seconds()
            wrong, *_ = await asyncio.gather(bystander.step(self._ask), *map(self._send, group))
            took = self._seconds() - begun
            self.slowest = max(self.slowest, took)
            if took > MOST_SECONDS:
                self.failures.append(f"the inputs {group[0]} to {group[-1]} took {took:.1f} s")
            if wrong:
                self.failures.append(f"{wrong}, together with the inputs {group[0]} to {group[-1]}")
            if len(self.failures) >= 10:
                return
            if at % (TOGETHER * 16) == 0:
                self.memory.append(self._memory())

    async def _open(self, rows: int) -> str:
        path, message = f"/v1/agents/{self._agent.name}/sessions", msgspec.json.encode({"batch": rows})
        _, body = await self._ask(path, Input({"Content-Type": "application/json"}, message))
        return msgspec.json.decode(body)["session"]

    async def _send(self, number: int) -> None:
        sent = draw_input(self._agent, self._seed, number)
        try:
            status, body = await self._ask(f"/v2/models/{self._agent.name}/infer", sent)
        except Exception:
            self.failures.append(f"input {number} ends in an exception: {sent}\n{traceback.format_exc()[-2000:]}")
            return
        self.statuses[status] += 1
        if status >= 500 or (status >= 400 and not body.startswith(b'{"error":"')):
            self.failures.append(f"input {number} is answered with {status} {body[:500]!r}: {sent}")
        if len(body) > MOST_BYTES:
            self.failures.append(f"input {number} has an answer of {len(body):,} bytes: {sent}")

    def report(self, where: str, enough: int) -> list[str]:
        """Print what was seen, and return what was wrong; memory is judged after enough inputs, when it is warm."""
        warm = self.memory[len(self.memory) // 3 :]  # allocators and the sequences' memory fill up first
        third = max(1, len(warm) // 3)
        growth = statistics.mean(warm[-third:]) / statistics.mean(warm[:third])
        answers = ", ".join(f"{status or 'none'}: {count:,}" for status, count in sorted(self.statuses.items()))
        print(f"- {where}: {self.statuses.total():,} inputs, answers {answers}")
        print(
            f"  memory, last third over first third: {growth:.3f} ({self.memory[-1] / 2**20:.0f} MB in the end); "
            f"slowest {TOGETHER} at once: {self.slowest:.2f} s of computing"
        )
        if growth > MOST_GROWTH and self.statuses.total() >= enough:
            self.failures.append(f"{where}: memory grows, {growth:.3f} times")
        return self.failures


def in_process(agent: OnnxAgent, seed: int) -> Fuzz:
    """Fuzz the application itself."""
    app = create_app({agent.name: agent}, ttl_seconds=TTL_SECONDS)

    async def ask(path: str, sent: Input) -> tuple[int, bytes]:
        events: list[dict[str, Any]] = [{"type": "http.request", "body": p, "more_body": True} for p in sent.split()]
        events.append({"type": "http.disconnect"} if sent.breaks_off else {"type": "http.request", "body": b""})
        answer: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(0)
            return events.pop(0)

        async def send(event: dict[str, Any]) -> None:
            answer.append(event)

        scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "root_path": ""}
        headers = [(name.lower().encode(), value.encode()) for name, value in sent.headers.items()]
        await app({**scope, "headers": headers}, receive, send)
        return answer[0]["status"], b"".join(event.get("body", b"") for event in answer)

    return Fuzz(agent, seed, ask, lambda: resident(os.getpid()), time.process_time)


def over_sockets(agent: OnnxAgent, seed: int, server: ServerProcess) -> Fuzz:
    """Fuzz a server process, each input on a connection of its own."""

    async def ask(path: str, sent: Input) -> tuple[int, bytes]:
        client = Client(server.port)
        try:
            if sent.breaks_off:
                await client.break_off(*written_out(path, sent))
                return 0, b""
            return await client.send(*written_out(path, sent))
        finally:
            client.close()

    return Fuzz(agent, seed, ask, server.resident, server.seconds)


def written_out(path: str, sent: Input) -> list[bytes]:
    """Return what goes over the wire, piece by piece: several pieces are chunks of HTTP."""
    headers = {name.replace("-", "_"): value for name, value in sent.headers.items()}
    if sent.pieces == 1:
        whole = request("POST", path, sent.body, **headers)
        return [whole[: -len(sent.body) // 2 - 1] if sent.breaks_off else whole]
    head = request("POST", path, **headers, Transfer_Encoding="chunked")
    chunks = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in sent.split()]
    return [head, *chunks, *([] if sent.breaks_off else [b"0\r\n\r\n"])]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", default="b3-nmn", help="published agent (%(default)s)")
    parser.add_argument("--inputs", type=int, default=100_000, help="to the application (%(default)s)")
    parser.add_argument("--over-sockets", type=int, default=5_000, help="further ones, to a server (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the inputs (%(default)s)")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="send this input alone, and print it")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    print(f"    python {' '.join(sys.argv)}\n")
    agent = zoo.load(arguments.agent, runtime="onnx")
    first, end = arguments.inputs, arguments.inputs + arguments.over_sockets
    numbers: tuple[Sequence[int], Sequence[int]] = (range(first), range(first, end))
    if arguments.only is not None:
        print(f"{draw_input(agent, arguments.seed, arguments.only)}\n")
        numbers = ([arguments.only], [arguments.only])
    print(f"{arguments.agent}, seed {arguments.seed}\n")
    here = in_process(agent, arguments.seed)
    asyncio.run(here.run(numbers[0]))
    failures = here.report("in process", enough=50_000)
    with serving("--agents", arguments.agent, "--ttl-seconds", str(TTL_SECONDS)) as server:
        there = over_sockets(agent, arguments.seed, server)
        asyncio.run(there.run(numbers[1]))
        failures += there.report("over sockets", enough=1000) + server.stop()
    print()
    conclude(failures)


if __name__ == "__main__":
    main()
