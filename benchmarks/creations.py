"""No session lost, none opened twice: openings and forks that are repeated while the server is killed.

    python benchmarks/creations.py
    python benchmarks/creations.py --workers 2
    python benchmarks/creations.py --store redis

Clients open and fork sessions, each request bearing an Idempotency-Key, and repeat what is not answered; some requests
are sent to two servers at once, and some that were answered are sent again later. Meanwhile servers are killed
(SIGKILL) at random moments and started again on the same port: the one on SQLite, with `--workers` one of its workers
and all of them in turn, or one of two on Redis.

In the end every key must have one session, every session one key, and the store as many sessions as there are keys.
"""

import argparse
import asyncio
import random
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
from clients import Client, Unanswered
from durability import PAUSE_SECONDS, shared_servers
from processes import ServerProcess, conclude


@dataclass
class Tally:
    """What the clients saw."""

    sessions: dict[str, str] = field(default_factory=dict)
    """By key."""
    unanswered: int = 0
    """Requests that were not answered, and were repeated."""
    again: int = 0
    """Requests that were sent once more although they had been answered, or at the same moment."""
    busy: int = 0
    """Answers that the first one is in progress (409)."""
    unavailable: int = 0
    wrong: list[str] = field(default_factory=list)
    kills: int = 0


class Run:
    """So many sessions, of which every second one is a fork of one before.

    Args:
        arguments: of the command line.
        servers: that share a store, to be killed.
    """

    def __init__(self, arguments: argparse.Namespace, servers: Sequence[ServerProcess]):
        self._arguments, self._servers = arguments, servers
        self.tally = Tally()

    async def play(self) -> None:
        """Make all sessions, and kill servers meanwhile."""
        disturber = asyncio.create_task(self._disturb(random.Random(self._arguments.seed)))
        await asyncio.gather(*(self._client(index) for index in range(self._arguments.clients)))
        await disturber
        await self._check()

    async def _client(self, index: int) -> None:
        rng = random.Random(f"{self._arguments.seed} {index}")
        clients = [Client(server.port) for server in self._servers]
        opening = f"/v1/agents/{self._arguments.agent}/sessions"
        made: list[tuple[str, str]] = []
        for number in range(self._arguments.sessions // self._arguments.clients):
            key = f"{index} {number}"
            fork = bool(made) and number % 2 == 1
            path = f"/v1/sessions/{self.tally.sessions[made[-1][0]]}/fork" if fork else opening
            self.tally.sessions[key] = await self._make(key, path, clients, rng)
            made.append((key, path))
            if rng.random() < self._arguments.twice:
                old, its_path = rng.choice(made)
                self.tally.again += 1
                self._compare(old, await self._make(old, its_path, clients, rng))

    def _compare(self, key: str, session: str) -> None:
        if session != self.tally.sessions[key]:
            self.tally.wrong.append(f"the key {key!r} has made two sessions")

    async def _make(self, key: str, path: str, clients: Sequence[Client], rng: random.Random) -> str:
        """Ask for a session until there is an answer, sometimes twice at once, and return its id."""
        if rng.random() >= self._arguments.twice:
            return await self._ask(key, path, clients, rng)
        self.tally.again += 1
        ports = (self._servers[0].port, self._servers[-1].port)
        first, second = await asyncio.gather(*(self._ask(key, path, [Client(port)], rng) for port in ports))
        if first != second:
            self.tally.wrong.append(f"the key {key!r} sent twice at once has made two sessions")
        return first

    async def _ask(self, key: str, path: str, clients: Sequence[Client], rng: random.Random) -> str:
        while True:
            try:
                status, body = await rng.choice(clients).ask("POST", path, b"", **{"Idempotency-Key": f'"{key}"'})
            except Unanswered:
                self.tally.unanswered += 1
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if status == 201:
                return msgspec.json.decode(body)["session"]
            if status not in (409, 503):
                raise RuntimeError(f"{path} is answered by {status} {body!r}")
            self.tally.busy += status == 409
            self.tally.unavailable += status == 503
            await asyncio.sleep(PAUSE_SECONDS)

    async def _disturb(self, rng: random.Random) -> None:
        """Kill a server so many times, each at a random moment, when a share of the sessions is there."""
        total, kills = self._arguments.sessions, self._arguments.kills
        for moment in sorted(rng.randrange(total * 9 // 10) for _ in range(kills)):
            while len(self.tally.sessions) < moment:
                await asyncio.sleep(0.001)
            await asyncio.sleep(rng.uniform(0, 0.005))  # anywhere within a request
            server = rng.choice(self._servers)
            self.tally.kills += 1
            if self._arguments.workers > 1 and self.tally.kills % 2:
                await asyncio.to_thread(server.kill_worker, rng)
            else:
                server.kill()
                await asyncio.to_thread(server.start)

    async def _check(self) -> None:
        """Every session is there once, and no other."""
        sessions, client = self.tally.sessions, Client(self._servers[-1].port)
        if len(set(sessions.values())) != len(sessions):
            self.tally.wrong.append("two keys have one session")
        for key, session in sessions.items():
            status, _ = await client.ask("GET", f"/v1/sessions/{session}")
            if status != 200:
                self.tally.wrong.append(f"the session of {key!r} is lost: {status}")
        _, metrics = await client.ask("GET", "/metrics")
        found = re.search(rb"^nmn_sessions (\S+)", metrics, re.MULTILINE)
        if found is None or float(found[1]) != len(sessions):
            self.tally.wrong.append(f"{len(sessions)} keys, but the store has {found and found[1].decode()} sessions")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", default="b1-nmn", help="published agent (%(default)s)")
    parser.add_argument("--store", choices=["sqlite", "redis"], default="sqlite", help="(%(default)s)")
    parser.add_argument("--workers", type=int, default=1, help="of each server (%(default)s)")
    parser.add_argument("--sessions", type=int, default=4000, help="(%(default)s)")
    parser.add_argument("--kills", type=int, default=10, help="(%(default)s)")
    parser.add_argument("--clients", type=int, default=32, help="(%(default)s)")
    parser.add_argument("--twice", type=float, default=0.1, help="share of requests sent twice (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments (%(default)s)")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    arguments.behind = None
    print(f"    python {' '.join(sys.argv)}\n")
    begun = time.monotonic()
    flags = ["--agents", arguments.agent, "--max-sessions", str(2 * arguments.sessions)]
    with shared_servers(arguments, flags) as (servers, _):
        run = Run(arguments, servers)
        asyncio.run(run.play())
        problems = [problem for server in servers for problem in server.stop()]
    tally = run.tally
    seconds = time.monotonic() - begun
    print(
        f"- {len(tally.sessions):,} sessions in {seconds:.0f} s on {arguments.store}, workers of a server: "
        f"{arguments.workers}, {tally.kills} kills, {tally.unanswered} unanswered requests repeated, "
        f"{tally.again} sent twice, {tally.busy} times 409, {tally.unavailable} times 503\n"
    )
    failures = [*problems, *tally.wrong[:5]]
    if tally.kills and not tally.unanswered:
        failures.append("no request was hit by a kill: this tries nothing")
    conclude(failures)


if __name__ == "__main__":
    main()
