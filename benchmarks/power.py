"""What it costs to wait for the disk: steps of a server with durability=power over one without, in one run.

    python benchmarks/power.py
    python benchmarks/power.py --rounds 9 --directory /var/lib/somewhere

Rounds alternate between the two stores; each is stepped by one session alone, and by many at once, whose steps share
commits. The numbers are those of the disk under `--directory`: a file system in memory costs nothing, a disk that
answers early little.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

import msgspec
from clients import Client
from processes import ServerProcess, serving

from nmn_keras import zoo


async def steps_per_second(port: int, agent: str, size: int, sessions: int, seconds: float) -> float:
    """Step so many sessions at once for a while."""
    until = time.monotonic() + seconds

    async def step() -> int:
        client, taken = Client(port), 0
        _, opened = await client.ask_json("POST", f"/v1/agents/{agent}/sessions")
        path = f"/v1/sessions/{opened['session']}"
        while time.monotonic() < until:
            body = msgspec.json.encode({"observation": [0.1] * size, "reward": 0.0})
            status, answer = await client.ask("POST", f"{path}/step", body)
            if status != 200:
                raise RuntimeError(f"{status} {answer!r}")
            taken += 1
        await client.ask("DELETE", path)
        return taken

    begun = time.monotonic()
    taken = sum(await asyncio.gather(*(step() for _ in range(sessions))))
    return taken / (time.monotonic() - begun)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", default="b3-nmn", help="published agent (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="(%(default)s)")
    parser.add_argument("--seconds", type=float, default=3.0, help="of a measurement (%(default)s)")
    parser.add_argument("--sessions", type=int, default=64, help="at once (%(default)s)")
    parser.add_argument("--directory", default=".", help="on the disk in question (%(default)s)")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    print(f"    python {' '.join(sys.argv)}\n")
    size = zoo.load(arguments.agent, runtime="onnx").observation_size
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
        place = f"sqlite:///{Path(directory).absolute()}"
        flags = ("--agents", arguments.agent, "--store")
        with (
            serving(*flags, f"{place}/process.db") as process,
            serving(*flags, f"{place}/power.db?durability=power") as power,
        ):
            for sessions in (1, arguments.sessions):
                measure(arguments, size, sessions, process, power)


def measure(
    arguments: argparse.Namespace, size: int, sessions: int, process: ServerProcess, power: ServerProcess
) -> None:
    """Print the ratio of both servers' steps for so many sessions at once."""
    pairs = []
    for round_ in range(arguments.rounds):
        servers = (process, power) if round_ % 2 == 0 else (power, process)  # neither always goes first
        told = {
            server.port: asyncio.run(steps_per_second(server.port, arguments.agent, size, sessions, arguments.seconds))
            for server in servers
        }
        pairs.append((told[process.port], told[power.port]))
    ratios = sorted(slow / fast for fast, slow in pairs)
    fast, slow = (statistics.median(column) for column in zip(*pairs, strict=True))
    spread = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
    print(
        f"- sessions at once: {sessions}: {spread} times the steps of the default; in the medians "
        f"{slow:.0f} and {fast:.0f} steps/s"
    )


if __name__ == "__main__":
    main()
