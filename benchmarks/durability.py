"""Nothing lost, nothing twice, nothing changed: numbered steps of many sessions while the server is killed.

    python benchmarks/durability.py
    python benchmarks/durability.py --workers 2
    python benchmarks/durability.py --store redis
    python benchmarks/durability.py --behind haproxy --streams 0.5
    python benchmarks/durability.py --behind ray --streams 0.5 --clients 16

Clients step sessions at once, each step bearing its number, and repeat what is not answered. Meanwhile servers are
killed (SIGKILL) at random moments and started again on the same port: on SQLite the one server, or one of its workers
and the whole group in turn; on Redis one of two servers that share the store, every step going to either at random.
Where there are several processes one is also stopped for a moment now and then (SIGSTOP), so that it saves what it
loaded long ago; and some steps are sent twice at once, of which the later one may find the session gone on. With
`--behind` three servers share a Redis behind the load balancer of `deploy/haproxy.cfg`, or three replicas run on Ray
Serve as `deploy/ray-serve.yaml` says; clients know the balancer's or Ray's address alone. `--streams` is the share of
sessions that are stepped over a WebSocket each, which is connected again when it breaks.

The answers must be, byte for byte, those of a run of the same inputs that nobody interrupts, and the sessions' counters
must say that every step was taken once. The inputs are drawn from a seed; half of the sessions play sampled actions.
"""

import argparse
import asyncio
import contextlib
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
from balancer import balanced_servers
from clients import Client, StreamClient, Unanswered, request
from processes import ServerProcess, conclude, redis_server, serving
from ray_serve import RayServe, ray_serving

from nmn_keras import zoo

Answer = tuple[int, bytes]
"""Status and body."""
Answers = list[list[bytes]]
"""Bodies for each session and step."""
PAUSE_SECONDS = 0.02
"""Before an unanswered request is repeated."""
REPLICAS = 3
"""Behind a load balancer or on Ray Serve."""


@dataclass
class Tally:
    """What the clients of a run saw."""

    taken: int = 0
    """Steps that were answered."""
    unanswered: int = 0
    """Requests for steps that were not, and were repeated."""
    committed: int = 0
    """Those of them whose step had been taken all the same."""
    unavailable: int = 0
    """Answers that the store cannot be reached (503), repeated too."""
    wrong: list[str] = field(default_factory=list)
    """Answers that should not have been given."""
    kills: int = 0
    pauses: int = 0
    seconds: float = 0.0

    def total(self) -> str:
        """Return a line for the report."""
        return (
            f"{self.taken:,} steps in {self.seconds:.0f} s, {self.kills} kills, {self.pauses} pauses, "
            f"{self.unanswered} unanswered requests repeated ({self.committed} of them had been carried out), "
            f"{self.unavailable} times 503"
        )


class Run:
    """Every step of every session, taken once.

    Args:
        arguments: of the command line.
        servers: that share a store, to be killed.
        bodies: the messages, for each session and step.
        ports: where steps go; to the servers themselves if absent.
    """

    def __init__(
        self,
        arguments: argparse.Namespace,
        servers: Sequence[ServerProcess | RayServe],
        bodies: Answers,
        ports: Sequence[int] = (),
    ):
        self._arguments = arguments
        self._servers = servers
        self._ports = ports or [server.port for server in servers]
        self._bodies = bodies
        self._moments: list[tuple[int, asyncio.Event, bool]] = []  # after how many steps, whether it has come, kill
        self._finished = False
        self.answers: Answers = [[] for _ in bodies]
        self.tally = Tally()

    async def play(self, kills: int = 0, pauses: int = 0) -> None:
        """Take all steps, and kill and stop servers so many times meanwhile."""
        begun = time.monotonic()
        self._sessions = await self._open()
        total = sum(map(len, self._bodies))
        rng = random.Random(self._arguments.seed)
        # Not at the very end: the last kill is to hit steps, too.
        kinds = [True] * kills + [False] * pauses
        self._moments = [(rng.randrange(total * 9 // 10), asyncio.Event(), kill) for kill in kinds]
        disturber = asyncio.create_task(self._disturb(rng))
        await asyncio.gather(*(self._client(index) for index in range(self._arguments.clients)))
        self._finished = True
        for _, event, _ in self._moments:  # those that never came, as some session had to be given up
            event.set()
        await disturber
        await self._check_counters()
        self.tally.seconds = time.monotonic() - begun

    async def _open(self) -> list[str]:
        """Open the sessions, every second one sampling, and return their ids."""
        client, opened = Client(self._ports[0]), []
        for index in range(len(self._bodies)):
            chosen = {"deterministic": index % 2 == 0, "seed": index}
            status, answer = await client.ask_json("POST", f"/v1/agents/{self._arguments.agent}/sessions", chosen)
            if status != 201:
                raise RuntimeError(f"no session is opened: {status} {answer}")
            opened.append(answer["session"])
        return opened

    async def _client(self, index: int) -> None:
        """Step every so-manieth session, all of them once, then all of them again."""
        rng = random.Random(f"{self._arguments.seed} {index}")
        own = list(range(index, len(self._bodies), self._arguments.clients))
        clients = [Client(port) for port in self._ports]
        streams = {session: self._stream(session, rng) for session in own if self._is_streamed(session)}
        late: list[asyncio.Task[None]] = []
        for step in range(self._arguments.steps):
            rng.shuffle(own)
            for session in list(own):
                if session in streams:
                    status, body = await self._take(session, step, clients, rng, streams[session])
                elif rng.random() < self._arguments.twice:
                    status, body = await self._take_twice(session, step, rng, late)
                else:
                    status, body = await self._take(session, step, clients, rng)
                if status == 200:
                    self.answers[session].append(body)
                    self._count()
                else:
                    self.tally.wrong.append(f"session {session}, step {step + 1}: {status} {body.decode()}")
                    own.remove(session)  # its later steps cannot be right
        await asyncio.gather(*late)
        for stream in streams.values():
            stream.close()

    def _is_streamed(self, session: int) -> bool:
        return session < self._arguments.streams * len(self._bodies)

    def _stream(self, session: int, rng: random.Random) -> StreamClient:
        path = f"/v1/agents/{self._arguments.agent}/stream?session={self._sessions[session]}"
        return StreamClient(rng.choice(self._ports), path)

    async def _take(
        self,
        session: int,
        step: int,
        clients: Sequence[Client],
        rng: random.Random,
        stream: StreamClient | None = None,
    ) -> Answer:
        """Ask any of the servers for a step until one answers, over the session's stream if it has one."""
        path = f"/v1/sessions/{self._sessions[session]}"
        raw = request("POST", f"{path}/step", self._bodies[session][step])
        unanswered = False
        while True:
            try:
                if unanswered:
                    # Whether the step had been taken: repeating it must be right in both cases, and both are to occur.
                    _, body = _final(await rng.choice(clients).ask("GET", path))
                    self.tally.committed += msgspec.json.decode(body).get("step") == step + 1
                    unanswered = False
                if stream is None:
                    status, body = _final(await rng.choice(clients).send(raw))
                else:
                    status, body = await stream.send(self._bodies[session][step])
            except Unanswered:
                self.tally.unanswered += not unanswered
                unanswered = True
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if status != 503:
                return status, body
            self.tally.unavailable += 1
            await asyncio.sleep(PAUSE_SECONDS)

    async def _take_twice(self, session: int, step: int, rng: random.Random, late: list[asyncio.Task[None]]) -> Answer:
        """Ask different servers at once; return the first answer, and leave the other to a task of `late`."""
        ports = [self._ports[0], self._ports[-1]]
        rng.shuffle(ports)
        copies = [asyncio.create_task(self._take(session, step, [Client(port)], rng)) for port in ports]
        done, _ = await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
        first = done.pop()
        late.append(asyncio.create_task(self._judge(copies[first is copies[0]], first.result())))
        return first.result()

    async def _judge(self, other: asyncio.Task[Answer], first: Answer) -> None:
        """Both copies of a step have the same answer, unless the session went on before the second was looked at."""
        status, body = await other
        if (status, body) != first and not (status == 409 and b":wrong-step" in body):
            self.tally.wrong.append(f"one step sent twice had the answers {first} and {status} {body!r}")

    def _count(self) -> None:
        self.tally.taken += 1
        for moment, event, _ in self._moments:
            if self.tally.taken > moment:
                event.set()

    async def _disturb(self, rng: random.Random) -> None:
        """At each of the moments kill a server, which is then started again, or stop one for a while."""
        up, restarts = list(self._servers), []

        async def restart(server: ServerProcess) -> None:
            await asyncio.to_thread(server.start)
            up.append(server)

        for _, event, kill in sorted(self._moments, key=lambda moment: moment[0]):
            await event.wait()
            await asyncio.sleep(rng.uniform(0, 0.005))  # anywhere within a request
            while not up:
                await asyncio.sleep(PAUSE_SECONDS)
            if self._finished:
                break
            server = rng.choice(up)
            if not kill and isinstance(server, ServerProcess):
                await server.pause(rng, rng.uniform(0.02, 0.3))
                self.tally.pauses += 1
                continue
            while isinstance(server, RayServe) and len(server.workers()) < 2:
                await asyncio.sleep(PAUSE_SECONDS)  # somebody has to go on
            self.tally.kills += 1
            if isinstance(server, RayServe):
                server.kill_worker(rng)
                restarts.append(asyncio.create_task(asyncio.to_thread(server.start)))
            elif self._arguments.workers > 1 and self.tally.kills % 2:
                server.kill_worker(rng)
            else:
                server.kill()
                up.remove(server)
                restarts.append(asyncio.create_task(restart(server)))
        await asyncio.gather(*restarts)

    async def _check_counters(self) -> None:
        client = Client(self._ports[-1])
        for index, (session, bodies) in enumerate(zip(self._sessions, self._bodies, strict=True)):
            status, answer = await client.ask_json("GET", f"/v1/sessions/{session}")
            if status != 200 or answer["step"] != len(bodies):
                self.tally.wrong.append(f"session {index} should be at step {len(bodies)}: {status} {answer}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", default="b3-nmn", help="published agent (%(default)s)")
    parser.add_argument("--store", choices=["sqlite", "redis"], default="sqlite", help="(%(default)s)")
    parser.add_argument(
        "--behind", choices=["haproxy", "ray"], help=f"what stands before {REPLICAS} servers on one Redis (nothing)"
    )
    parser.add_argument("--streams", type=float, default=0.0, help="share of sessions on a WebSocket (%(default)s)")
    parser.add_argument("--workers", type=int, default=1, help="of each server (%(default)s)")
    parser.add_argument("--sessions", type=int, default=1000, help="(%(default)s)")
    parser.add_argument("--steps", type=int, default=100, help="of each session (%(default)s)")
    parser.add_argument("--kills", type=int, default=10, help="(%(default)s)")
    parser.add_argument("--clients", type=int, default=64, help="with one request in flight each (%(default)s)")
    parser.add_argument("--pauses", type=int, default=20, help="if there are several processes (%(default)s)")
    parser.add_argument("--twice", type=float, default=0.05, help="share of steps sent twice at once (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of inputs and moments (%(default)s)")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    print(f"    python {' '.join(sys.argv)}\n")
    bodies = draw_steps(arguments)
    flags = ["--agents", arguments.agent, "--max-sessions", str(2 * arguments.sessions)]
    with serving(*flags) as server:
        whole = Run(arguments, [server], bodies)
        asyncio.run(whole.play())
        problems = server.stop()
    with shared_servers(arguments, flags) as (servers, ports):
        killed = Run(arguments, servers, bodies, ports)
        several = len(servers) > 1 or arguments.workers > 1
        asyncio.run(killed.play(arguments.kills, arguments.pauses if several else 0))
        problems += [problem for server in servers for problem in server.stop()]
    report(arguments, whole, killed, problems)


def _final(answer: Answer) -> Answer:
    """Return an answer of the server.

    Raises:
        Unanswered: it is a proxy's, as where the server that it asked has gone: it may have carried the request out.
    """
    status, body = answer
    if status >= 500 and b"urn:problem-type" not in body:
        raise Unanswered(f"{status} {body[:200]!r}")
    return answer


def draw_steps(arguments: argparse.Namespace) -> Answers:
    """Write out the messages of every session's steps."""
    size = zoo.load(arguments.agent, runtime="onnx").observation_size
    rng = np.random.default_rng(arguments.seed)
    shape = (arguments.sessions, arguments.steps)
    observations = rng.standard_normal((*shape, size), np.float32).tolist()
    rewards = rng.standard_normal(shape, np.float32)
    rewards[:, 0] = 0.0  # nothing was played before the first step
    return [
        [
            msgspec.json.encode({"observation": seen, "reward": reward, "step": number})
            for number, (seen, reward) in enumerate(zip(*of_one, strict=True), start=1)
        ]
        for of_one in zip(observations, rewards.tolist(), strict=True)
    ]


Servers = tuple[Sequence[ServerProcess | RayServe], Sequence[int]]
"""Those that are killed, and the ports where steps go if not to themselves."""


@contextlib.contextmanager
def shared_servers(arguments: argparse.Namespace, flags: Sequence[str]) -> Iterator[Servers]:
    """Run one server on an SQLite file, two on a Redis server, or three of them behind something."""
    flags = [*flags, "--workers", str(arguments.workers)]
    with contextlib.ExitStack() as stack:
        if arguments.behind or arguments.store == "redis":
            store = stack.enter_context(redis_server())
        else:
            directory = stack.enter_context(tempfile.TemporaryDirectory())
            store = f"sqlite:///{Path(directory) / 'sessions.db'}"
        if arguments.behind == "ray":
            told = {"store": store, "agents": arguments.agent, "max_sessions": str(2 * arguments.sessions)}
            yield [stack.enter_context(ray_serving(REPLICAS, **told))], []
        elif arguments.behind == "haproxy":
            port, servers = stack.enter_context(balanced_servers(REPLICAS, *flags, "--store", store))
            yield servers, [port]
        else:
            count = 2 if arguments.store == "redis" else 1
            yield [stack.enter_context(serving(*flags, "--store", store)) for _ in range(count)], []


def report(arguments: argparse.Namespace, whole: Run, killed: Run, problems: Sequence[str]) -> None:
    """Print what was compared, and end with the verdict."""
    before = {"haproxy": "HAProxy", "ray": "Ray Serve"}.get(arguments.behind)
    where = arguments.store if before is None else f"{REPLICAS} replicas behind {before} on Redis"
    print(
        f"{arguments.agent}, {arguments.sessions:,} sessions of {arguments.steps:,} steps, "
        f"{arguments.clients} clients, {where}, workers of a server: {arguments.workers}\n"
    )
    changed = sum(
        a != b
        for one, other in zip(whole.answers, killed.answers, strict=True)
        for a, b in zip(one, other, strict=False)
    )
    different = len({answer for answers in whole.answers for answer in answers})
    print(f"- uninterrupted: {whole.tally.total()}")
    print(f"- killed: {killed.tally.total()}")
    print(f"- different answers among the uninterrupted: {different:,}; changed by the kills: {changed}\n")
    failures = [*problems, *whole.tally.wrong[:5], *killed.tally.wrong[:5]]
    total = arguments.sessions * arguments.steps
    failures += [
        f"{total - run.tally.taken} steps were not taken" for run in (whole, killed) if run.tally.taken != total
    ]
    if changed:
        failures.append(f"{changed} answers are others than without the kills")
    if different < total // 2:
        failures.append("the answers hardly differ from each other: this compares nothing")
    if killed.tally.kills != arguments.kills:
        failures.append(f"only {killed.tally.kills} kills came before the end")
    conclude(failures)


if __name__ == "__main__":
    main()
