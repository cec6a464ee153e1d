"""The load generator of the server benchmarks, and the most that it can drive.

    python benchmarks/load.py

Connections stay open; each has one request in flight and sends the next as soon as the answer is there. They are bare
asyncio protocols: requests are bytes prepared beforehand, and of an answer only the status and the Content-Length are
read. Run by itself it drives a server that reads nothing and always answers the same: the client's own ceiling.

The client has the first core to itself and every server, with all its processes, the last one.
"""

import argparse
import asyncio
import itertools
import os
import socket
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from clients import request
from servers import ANSWER_SECONDS, HOST, Failed, clearly, cores, free_port, post, serving

try:
    from uvloop import run
except ImportError:  # Windows
    from asyncio import run

WARM_UP_SECONDS = 0.3  # of each round, not counted
CYCLE = 16  # different steps of a session
CONSTANT = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 40\r\n\r\n" + b"x" * 40


@dataclass
class Round:
    """What was measured in one round."""

    rate: float
    """Answers per second."""
    p50: float
    """Seconds."""
    p99: float
    busy: float
    """Share of the time for which the client computed: near 1 it is the client that was measured."""


@dataclass
class Tally:
    """What the connections of a round saw."""

    counted_from: float
    latencies: list[float] = field(default_factory=list)
    refused: list[bytes] = field(default_factory=list)
    """Answers that were no success."""
    stopped: bool = False


class Connection(asyncio.Protocol):
    """One HTTP connection with one request in flight."""

    def __init__(self, requests: Sequence[bytes], tally: Tally):
        self.requests, self.tally = itertools.cycle(requests), tally
        self.received, self.sent, self.given_up = b"", 0.0, False
        self.closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport) -> None:
        self.transport = transport
        self.send()

    def send(self) -> None:
        self.sent = time.perf_counter()
        self.transport.write(next(self.requests))

    def data_received(self, data: bytes) -> None:
        data = self.received + data if self.received else data
        if len(data) < self.length(data):
            self.received = data
            return
        self.received = b""
        now = time.perf_counter()
        if not self.succeeded(data):
            self.tally.refused.append(data)
            self.given_up = True
            self.transport.close()
            return
        if now > self.tally.counted_from:
            self.tally.latencies.append(now - self.sent)
        if self.tally.stopped:
            self.transport.close()
        else:
            self.send()

    def connection_lost(self, error: Exception | None) -> None:
        if not (self.tally.stopped or self.given_up):
            self.tally.refused.append(b"the connection was closed")
        self.closed.set_result(None)

    def succeeded(self, answer: bytes) -> bool:
        return answer.startswith(b"HTTP/1.1 2") and b"content-length" in answer.lower()

    @staticmethod
    def length(data: bytes) -> int:
        """Bytes that the answer has, or more than there are if that cannot be said yet."""
        body = data.find(b"\r\n\r\n") + 4
        if body < 4:
            return len(data) + 1
        at = data[:body].lower().find(b"\r\ncontent-length:")
        return body if at < 0 else body + int(data[at + 17 : data.index(b"\r\n", at + 17)])


class WebSocketConnection(Connection):
    """One WebSocket, its handshake done: unfragmented messages, without extensions."""

    def succeeded(self, answer: bytes) -> bool:
        return answer[0] == 0x81 and b"urn:problem-type" not in answer  # a final text frame

    @staticmethod
    def length(data: bytes) -> int:
        if len(data) < 4:
            return len(data) + 1
        return 4 + int.from_bytes(data[2:4], "big") if data[1] == 126 else 2 + data[1]


def measure(
    port: int,
    conversations: Sequence[Sequence[bytes]],
    seconds: float,
    protocol: type[Connection] = Connection,
    connect: Callable[[int], socket.socket] | None = None,
) -> Round:
    """Drive a server for one round.

    Args:
        port: where it listens.
        conversations: for each connection the requests that it sends over and over.
        seconds: how long, after a short warm-up.
        protocol: how answers are told apart.
        connect: how a connection is made, if more than that is to be done before the first request.

    Raises:
        Failed: some answer was no success.
    """
    with on_own_core():
        sockets = [(connect or _connect)(port) for _ in conversations]
        return run(_measure(sockets, conversations, seconds, protocol))


@contextmanager
def on_own_core() -> Iterator[None]:
    """Keep the client on its core."""
    if hasattr(os, "sched_setaffinity"):
        usable = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {cores()[0]})
    try:
        yield
    finally:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, usable)


def _connect(port: int) -> socket.socket:
    return socket.create_connection((HOST, port), ANSWER_SECONDS)


async def _measure(
    sockets: Sequence[socket.socket], conversations: Sequence[Sequence[bytes]], seconds: float, kind: type[Connection]
) -> Round:
    loop = asyncio.get_running_loop()
    tally = Tally(counted_from=time.perf_counter() + WARM_UP_SECONDS)
    connections: list[Connection] = []
    for connected, requests in zip(sockets, conversations, strict=True):
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _, connection = await loop.create_connection(lambda requests=requests: kind(requests, tally), sock=connected)
        connections.append(connection)
    await asyncio.sleep(tally.counted_from - time.perf_counter())
    begin, computed = time.perf_counter(), time.process_time()
    await asyncio.sleep(seconds)
    took, computed = time.perf_counter() - begin, time.process_time() - computed
    answered, tally.stopped = len(tally.latencies), True
    _, unanswered = await asyncio.wait([each.closed for each in connections], timeout=ANSWER_SECONDS)
    if tally.refused or unanswered or not answered:
        first = tally.refused[0][:500] if tally.refused else b"none came"
        raise Failed(
            f"{len(tally.refused)} answers were no success and {len(unanswered)} requests were not answered, beside "
            f"{answered} that were. The first: {first!r}"
        )
    p50, p99 = np.percentile(tally.latencies, [50, 99])
    return Round(answered / took, float(p50), float(p99), computed / took)


def draw_steps(observation_size: int, sessions: int) -> list[list[dict[str, Any]]]:
    """The steps that each session takes over and over: observation and reward, floats as long as float32 gives them."""
    rng = np.random.default_rng(0)
    observations = rng.uniform(-1, 1, (sessions, CYCLE, observation_size)).astype(np.float32).tolist()
    rewards = rng.uniform(-1, 1, (sessions, CYCLE)).astype(np.float32)
    rewards[:, 0] = 0.0  # nothing was played before the first step
    return [
        [{"observation": row, "reward": reward} for row, reward in zip(*of_one, strict=True)]
        for of_one in zip(observations, rewards.tolist(), strict=True)
    ]


def masked_frame(message: bytes) -> bytes:
    """A client's WebSocket text frame."""
    key = b"\x37\xfa\x21\x3d"
    size = bytes([0x80 | len(message)]) if len(message) < 126 else b"\xfe" + len(message).to_bytes(2, "big")
    return b"\x81" + size + key + bytes(byte ^ key[i % 4] for i, byte in enumerate(message))


def alternate(sides: Mapping[str, Callable[[], Round]], rounds: int) -> list[dict[str, Round]]:
    """Measure all sides in turn, round by round; the first round warms up and is dropped."""
    return [{name: measure_side() for name, measure_side in sides.items()} for _ in range(rounds + 1)][1:]


def print_table(rounds: Sequence[Mapping[str, Round]], over: str, unit: str = "requests") -> None:
    """Print a row for each side, its rate over that of the side `over` taken within each round."""
    print(f"| | {unit}/s, median (range) | over {over} | p50 | p99 | p99 over p50 | client busy |")
    print("|---|---|---|---|---|---|---|")
    for name in rounds[0]:
        own = [each[name] for each in rounds]
        ratios = [each[name].rate / each[over].rate for each in rounds]
        print(
            f"| {name} | {spread([each.rate for each in own], ',.0f')} | {spread(ratios)} "
            f"| {milliseconds([each.p50 for each in own])} | {milliseconds([each.p99 for each in own])} "
            f"| {spread([each.p99 / each.p50 for each in own], '.1f')} "
            f"| {statistics.median(each.busy for each in own):.0%} |"
        )


def milliseconds(seconds: Sequence[float]) -> str:
    return f"{1000 * statistics.median(seconds):.2f} ms"


def spread(values: Sequence[float], style: str = ".2f") -> str:
    """Median and range."""
    return f"{statistics.median(values):{style}} ({min(values):{style}} to {max(values):{style}})"


class Constant(asyncio.Protocol):
    """The server that does least: whatever comes, it gives the same answer."""

    def connection_made(self, transport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(CONSTANT)


async def answer_constantly(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Constant, HOST, port)
    await server.serve_forever()


@contextmanager
def serving_constantly() -> Iterator[int]:
    """Run that server and give its port."""
    port = free_port()
    with serving([sys.executable, __file__, "--answer", str(port)], lambda: post(port, "/")):
        yield port


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--connections", type=int, default=64, help="(%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="(%(default)s)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a round (%(default)s)")
    parser.add_argument("--answer", type=int, metavar="PORT", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.answer:
        run(answer_constantly(arguments.answer))
        return
    print(f"    python {' '.join(sys.argv)}\n")
    conversations = [[request("POST", "/", b"x" * 100)]] * arguments.connections
    with serving_constantly() as port:
        rounds = [measure(port, conversations, arguments.seconds) for _ in range(arguments.rounds)]
    print(f"{arguments.connections} connections: {spread([each.rate for each in rounds], ',.0f')} requests/s, ", end="")
    print(f"for {spread([each.busy for each in rounds])} of the time the client computed")


if __name__ == "__main__":
    clearly(main)
