"""What a step costs more where several servers could share the work: on Redis, behind a load balancer, on Ray Serve.

    python benchmarks/replicas.py
    python benchmarks/replicas.py --sides "on Redis" "behind HAProxy" --rounds 12

Always one server process (or replica), so that it is the way there that is measured and not the number of servers: one
process with sessions in memory, against one on Redis, the same behind the load balancer (`deploy/haproxy.cfg`), and
one replica on Ray Serve (`deploy/ray-serve.yaml`), in memory and on Redis, and in memory behind the HAProxy that Ray
can use instead of its own proxy. Each is started, driven in turn with the plain process, and stopped; while one is
driven the other idles. Once 64 sessions step at once, which gives the rate, and once a lone one, which gives the time
of a step.

Everything that serves (Redis, the load balancer and all of Ray too) has one core for itself; the client has another.
Ratios are taken within each round.
"""

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

from balancer import balanced_servers
from clients import request
from load import Round, alternate, draw_steps, measure, milliseconds, spread
from processes import redis_server
from processes import serving as serving_plainly
from ray_serve import ray_serving
from servers import Failed, clearly, cores, post

from nmn_keras import zoo

PLAIN = "one process, in memory"
MOST = str(100_000)  # sessions: every round opens some
DIRECT = {"RAY_SERVE_ENABLE_HA_PROXY": "1", "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1"}


def main() -> None:
    arguments = parse_arguments()
    print(f"    python {' '.join(sys.argv)}\n")
    print(f"{arguments.agent}, {arguments.rounds} rounds of each pair, median (range)\n")
    print(
        f"| | steps/s of {arguments.sessions} sessions at once | over one process | p50, p99 | a lone session's p50 "
        "| over one process | added |"
    )
    print("|---|---|---|---|---|---|---|")
    plain: list[tuple[Round, Round]] = []
    failures: list[str] = []
    with on_the_servers_core():
        server = serving_plainly("--agents", arguments.agent, "--max-sessions", MOST)
        process = server.__enter__()
    try:
        for name in arguments.sides:
            with on_the_servers_core():
                side = SIDES[name](arguments.agent)
                port = side.__enter__()
            try:
                many, lone = compare(process.port, port, arguments)
                print_row(name, many, lone)
                plain += [(a[PLAIN], b[PLAIN]) for a, b in zip(many, lone, strict=True)]
            except Failed as error:  # the others are still worth knowing
                failures.append(f"{name}: {error}")
            finally:
                side.__exit__(None, None, None)
    finally:
        server.__exit__(None, None, None)
    if plain:
        many, lone = zip(*plain, strict=True)
        print(
            f"| {PLAIN} | {spread([each.rate for each in many], ',.0f')} | 1 | {latencies(many)} "
            f"| {milliseconds([each.p50 for each in lone])} | 1 | |"
        )
    if failures:
        raise Failed("\n".join(failures))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", default="b3-nmn", help="published agent (%(default)s)")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES), metavar="NAME", help="%(choices)s")
    parser.add_argument("--sessions", type=int, default=64, help="at once (%(default)s)")
    parser.add_argument("--rounds", type=int, default=6, help="(%(default)s)")
    parser.add_argument("--seconds", type=float, default=1.5, help="of each in a round (%(default)s)")
    return parser.parse_args()


@contextmanager
def on_the_servers_core() -> Iterator[None]:
    """Start what is started here, and all that it starts, on the servers' core."""
    usable, own = os.sched_getaffinity(0), cores()[1]
    os.sched_setaffinity(0, {own})
    try:
        yield
    finally:
        os.sched_setaffinity(0, usable)


@contextmanager
def on_redis(agent: str) -> Iterator[int]:
    flags = ("--agents", agent, "--max-sessions", MOST)
    with redis_server() as store, serving_plainly(*flags, "--store", store) as server:
        yield server.port


@contextmanager
def behind_the_balancer(agent: str) -> Iterator[int]:
    flags = ("--agents", agent, "--max-sessions", MOST)
    with redis_server() as store, balanced_servers(1, *flags, "--store", store) as (port, _):
        yield port


@contextmanager
def on_ray(agent: str, direct: bool = False) -> Iterator[int]:
    with ray_serving(1, DIRECT if direct else None, store="memory", agents=agent, max_sessions=MOST) as server:
        yield server.port


@contextmanager
def on_ray_and_redis(agent: str) -> Iterator[int]:
    with redis_server() as store, ray_serving(1, store=store, agents=agent, max_sessions=MOST) as server:
        yield server.port


SIDES: dict[str, Callable[[str], AbstractContextManager[int]]] = {
    "on Redis": on_redis,
    "on Redis behind HAProxy": behind_the_balancer,
    "Ray Serve, in memory": on_ray,
    "Ray Serve, on Redis": on_ray_and_redis,
    "Ray Serve with HAProxy, in memory": partial(on_ray, direct=True),
}

Rounds = list[dict[str, Round]]


def compare(plain: int, other: int, arguments: argparse.Namespace) -> tuple[Rounds, Rounds]:
    """Drive both ports in turn, with many sessions and then with a lone one."""

    def drive(port: int, sessions: int) -> Round:
        return measure(port, make_requests(port, arguments.agent, sessions), arguments.seconds)

    many, lone = (
        alternate({PLAIN: partial(drive, plain, count), "other": partial(drive, other, count)}, arguments.rounds)
        for count in (arguments.sessions, 1)
    )
    return many, lone


def make_requests(port: int, agent: str, sessions: int) -> list[list[bytes]]:
    """What each connection sends: the steps of a session of its own."""
    requests = []
    for steps in draw_steps(zoo.load(agent, runtime="onnx").observation_size, sessions):
        session = json.loads(post(port, f"/v1/agents/{agent}/sessions"))["session"]
        path = f"/v1/sessions/{session}/step"
        requests.append([request("POST", path, json.dumps(step).encode()) for step in steps])
    return requests


def print_row(name: str, many: Rounds, lone: Rounds) -> None:
    rates = [each["other"].rate for each in many]
    slower = [each["other"].rate / each[PLAIN].rate for each in many]
    later = [each["other"].p50 / each[PLAIN].p50 for each in lone]
    added = [1000 * (each["other"].p50 - each[PLAIN].p50) for each in lone]
    print(
        f"| {name} | {spread(rates, ',.0f')} | {spread(slower)} | {latencies([each['other'] for each in many])} "
        f"| {milliseconds([each['other'].p50 for each in lone])} | {spread(later, '.1f')} "
        f"| {statistics.median(added):.2f} ms |",
        flush=True,
    )


def latencies(rounds: Any) -> str:
    return f"{milliseconds([each.p50 for each in rounds])}, {milliseconds([each.p99 for each in rounds])}"


def plainly() -> None:
    """Say why there is nothing to report where a server does not start, too."""
    try:
        main()
    except RuntimeError as error:
        raise Failed(str(error)) from error


if __name__ == "__main__":
    clearly(plainly)
