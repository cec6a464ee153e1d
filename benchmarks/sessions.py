"""What an open session costs: memory of each, and the latency of a step among very many.

    python benchmarks/sessions.py
    python benchmarks/sessions.py --open 20000

Two servers run side by side, both with their sessions in memory: one holds a hundred, the other a hundred thousand, all
of which have taken a step. Memory: what the second one's resident set grew by while all beyond the first hundred were
opened and stepped. Latency: one step of a session of the first server, one of the second, and so on in turn over two
connections, each time a session drawn at random; a ratio is taken of the medians within each round. Where others use
the machine, too, latency is mostly waiting for a processor: the processor time that a step takes is shown beside it.
"""

import argparse
import asyncio
import socket
import statistics
import sys
import time
from collections.abc import Sequence

import msgspec
import numpy as np
from clients import Client, parse_answer, request
from processes import HOST, ServerProcess, conclude, serving

from nmn_keras import zoo

CLIENTS = 32


def main() -> None:
    arguments = parse_arguments()
    print(f"    python {' '.join(sys.argv)}\n")
    agent = zoo.load(arguments.agent, runtime="onnx")
    body = step_body(agent.observation_size)
    flags = ["--agents", arguments.agent, "--max-sessions", str(2 * arguments.open)]
    with serving(*flags) as small, serving(*flags) as large:
        few = asyncio.run(open_and_step(small, arguments.agent, arguments.few, body))
        many = asyncio.run(open_and_step(large, arguments.agent, arguments.few, body))
        before = large.resident()
        many += asyncio.run(open_and_step(large, arguments.agent, arguments.open - arguments.few, body))
        each = (large.resident() - before) / (arguments.open - arguments.few)
        rounds = [compare((small, large), (few, many), body, arguments.steps) for _ in range(arguments.rounds + 1)]
        failures = [problem for server in (small, large) for problem in server.stop()]
    report(arguments, each, 4 * agent.state_size, rounds[1:], failures)  # the first round warms up


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", default="b3-nmn", help="published agent (%(default)s)")
    parser.add_argument("--open", type=int, default=100_000, help="sessions of the large server (%(default)s)")
    parser.add_argument("--few", type=int, default=100, help="sessions of the small server (%(default)s)")
    parser.add_argument("--rounds", type=int, default=15, help="of the latency (%(default)s)")
    parser.add_argument("--steps", type=int, default=1000, help="of each server in a round (%(default)s)")
    parser.add_argument("--most-bytes", type=int, default=4096, help="of a session beside its state (%(default)s)")
    parser.add_argument("--most-ratio", type=float, default=1.1, help="of the latencies (%(default)s)")
    return parser.parse_args()


def step_body(observation_size: int) -> bytes:
    """Write out a step; a reward of 0 may come with every one, the first included."""
    observation = np.random.default_rng(0).standard_normal(observation_size, np.float32).tolist()
    return msgspec.json.encode({"observation": observation, "reward": 0.0})


async def open_and_step(server: ServerProcess, agent: str, count: int, body: bytes) -> list[str]:
    """Open sessions, take a step of each, and return their ids."""
    opened: list[str] = []

    async def work(share: int) -> None:
        client = Client(server.port)
        for _ in range(share):
            status, answer = await client.ask_json("POST", f"/v1/agents/{agent}/sessions")
            if status != 201:
                raise RuntimeError(f"no session is opened: {status} {answer}")
            opened.append(answer["session"])
            status, answer = await client.ask("POST", step_path(answer["session"]), body)
            if status != 200:
                raise RuntimeError(f"a step is refused: {status} {answer}")
        client.close()

    shares = [count // CLIENTS + (index < count % CLIENTS) for index in range(CLIENTS)]
    await asyncio.gather(*map(work, shares))
    return opened


def step_path(session: str) -> str:
    return f"/v1/sessions/{session}/step"


def compare(
    servers: Sequence[ServerProcess], sessions: Sequence[Sequence[str]], body: bytes, steps: int
) -> list[float]:
    """Step sessions of both servers in turn; return their median latencies, and the seconds each computed for one."""
    rng = np.random.default_rng()
    taken: list[list[float]] = [[] for _ in servers]
    connections = [socket.create_connection((HOST, server.port)) for server in servers]
    for connection in connections:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    begun = [server.seconds() for server in servers]
    for turn in range(steps):
        for which in (0, 1) if turn % 2 else (1, 0):  # neither is always the one that follows the other
            raw = request("POST", step_path(sessions[which][rng.integers(len(sessions[which]))]), body)
            taken[which].append(time_exchange(connections[which], raw))
    for connection in connections:
        connection.close()
    computed = [(server.seconds() - before) / steps for server, before in zip(servers, begun, strict=True)]
    return [*(statistics.median(seconds) for seconds in taken), *computed]


def time_exchange(connection: socket.socket, raw: bytes) -> float:
    """Send a request, wait for its answer, and return how long that took."""
    begin = time.perf_counter()
    connection.sendall(raw)
    answer = connection.recv(65536)
    seconds = time.perf_counter() - begin
    while (parsed := parse_answer(answer)) is None:
        more = connection.recv(65536)
        if not more:
            raise RuntimeError(f"the server closed the connection after {answer!r}")
        answer, seconds = answer + more, time.perf_counter() - begin
    if parsed[0] != 200:
        raise RuntimeError(f"a step is refused: {parsed}")
    return seconds


def report(
    arguments: argparse.Namespace, each: float, state: int, rounds: Sequence[Sequence[float]], failures: list[str]
) -> None:
    """Print what was measured, and end with the verdict."""
    few, many, few_computed, many_computed = ([1e6 * one[which] for one in rounds] for which in range(4))
    ratios = [b / a for a, b in zip(few, many, strict=True)]
    computed = [b / a for a, b in zip(few_computed, many_computed, strict=True)]
    print(f"{arguments.agent}, sessions in memory\n")
    print("| | |\n|---|---|")
    print(f"| memory of a session, one of {arguments.open:,} | {each:,.0f} bytes |")
    print(f"| its state tensor | {state:,} bytes |")
    print(f"| beside it | {each - state:,.0f} bytes (at most {arguments.most_bytes:,}) |")
    print(f"| median latency of a step, {arguments.few:,} open | {spread(few, '.0f')} microseconds |")
    print(f"| the same, {arguments.open:,} open | {spread(many, '.0f')} microseconds |")
    print(f"| ratio, {len(rounds)} rounds of {arguments.steps:,} steps | {spread(ratios, '.3f')} |")
    print(f"| processor time of a step, {arguments.few:,} open | {spread(few_computed, '.0f')} microseconds |")
    print(f"| ratio of processor times | {spread(computed, '.3f')} |\n")
    if each - state > arguments.most_bytes:
        failures.append(f"a session has {each - state:,.0f} bytes beside its state")
    if statistics.median(ratios) > arguments.most_ratio:
        failures.append(f"a step costs {statistics.median(ratios):.2f} times as much (at most {arguments.most_ratio})")
    conclude(failures)


def spread(values: Sequence[float], style: str) -> str:
    return f"{statistics.median(values):{style}} ({min(values):{style}} to {max(values):{style}})"


if __name__ == "__main__":
    main()
