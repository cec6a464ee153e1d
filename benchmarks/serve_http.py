"""Steps over HTTP at 64 sessions at once: the server against a request that does nothing, in the same application.

    python benchmarks/serve_http.py
    python benchmarks/serve_http.py --agent b1-rnn --sessions 8

One worker on one core, the client on another (`load.py`). In each round all are driven one after another, for as long
each: steps of sessions; the no-op with the same bodies, last in the application's route table and first in it
(`served.py`); and a server that reads nothing and always answers the same, which is the most that the client can drive.
Ratios are taken within each round.
"""

import argparse
import json
import sys
from functools import partial
from pathlib import Path

from clients import request
from load import alternate, draw_steps, measure, print_table, serving_constantly
from servers import clearly, free_port, post, serving

from nmn_keras import zoo

SERVED = str(Path(__file__).with_name("served.py"))


def main() -> None:
    arguments = parse_arguments()
    print(f"    python {' '.join(sys.argv)}\n")
    port = free_port()
    command = [sys.executable, SERVED, "--agents", arguments.agent, "--port", str(port)]
    with serving(command, lambda: post(port, "/noop", b'{"observation": []}')), serving_constantly() as constant:
        requests = make_requests(arguments.agent, arguments.sessions, port)
        ports = {name: port for name in requests} | {"client alone": constant}
        requests["client alone"] = requests["no-op"]
        sides = {name: partial(measure, ports[name], requests[name], arguments.seconds) for name in requests}
        rounds = alternate(sides, arguments.rounds)
    print(f"{arguments.agent}, {arguments.sessions} sessions at once, {arguments.rounds} rounds\n")
    print_table(rounds, over="no-op")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", default="b3-nmn", help="published agent (%(default)s)")
    parser.add_argument("--sessions", type=int, default=64, help="at once (%(default)s)")
    parser.add_argument("--rounds", type=int, default=6, help="(%(default)s)")
    parser.add_argument("--seconds", type=float, default=1.5, help="of each in a round (%(default)s)")
    return parser.parse_args()


def make_requests(agent: str, sessions: int, port: int) -> dict[str, list[list[bytes]]]:
    """What is sent over each connection: the steps of its session, and the same bodies to the no-ops."""
    size = zoo.load(agent, runtime="onnx").observation_size
    bodies = [[json.dumps(step).encode() for step in steps] for steps in draw_steps(size, sessions)]
    opened = [json.loads(post(port, f"/v1/agents/{agent}/sessions"))["session"] for _ in bodies]
    paths = {
        "steps": [f"/v1/sessions/{session}/step" for session in opened],
        "no-op": ["/noop"] * sessions,
        "no-op, first route": ["/noop-first"] * sessions,
    }
    return {
        name: [[request("POST", path, body) for body in own] for path, own in zip(of_one, bodies, strict=True)]
        for name, of_one in paths.items()
    }


if __name__ == "__main__":
    clearly(main)
