"""Steps over HTTP at 64 sessions at once: the server against the servers that somebody would take instead.

    pip install -e .[server-peers]
    python -m venv mlserver && mlserver/bin/pip install mlserver==1.7.1 onnxruntime httptools
    python benchmarks/serve_peers.py --python .venv/bin/python mlserver/bin/python
    python benchmarks/serve_peers.py --peers MLServer --python mlserver/bin/python

The same policy.onnx on one thread, one worker, the same client (`load.py`). The peers are MLServer, LitServe, BentoML
and Ray Serve, each made to keep a memory per session in the way its documentation suggests (`server_peers/`, one file
each, which says what was chosen). Every server has one core for all its processes; the client has another.

Each peer is started, its first actions are compared with the agent's, and it is then driven in turn with our server;
while one is driven the other idles. Ratios are taken within each round.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from clients import request
from load import Round, alternate, draw_steps, measure, milliseconds, spread
from servers import HOST, Failed, clearly, free_port, post, serving

from nmn_keras import zoo
from nmn_keras.runtime import OnnxAgent

WRAPPERS = Path(__file__).with_name("server_peers")
TOLERANCE = 1e-4


def main() -> None:
    arguments = parse_arguments()
    print(f"    python {' '.join(sys.argv)}\n")
    pythons = {name: find_python(PEERS[name].module, arguments.python) for name in arguments.peers}
    for name in [name for name, python in pythons.items() if python is None]:
        print(f"{name} is left out: {PEERS[name].module} and onnxruntime are not in {' or '.join(arguments.python)}.\n")
    present = {name: python for name, python in pythons.items() if python is not None}
    if not present:
        raise Failed(
            "There is no peer to compare with. Install them (.[server-peers]) or name interpreters (--python)."
        )
    print(f"{arguments.agent}, {arguments.sessions} sessions at once, {arguments.rounds} rounds of each pair\n")
    print("| | its requests/s, median (range) | ours over it | its p99 over ours | its p50, p99 | ours |")
    print("|---|---|---|---|---|---|")
    agent = zoo.load(arguments.agent, runtime="onnx")
    steps = draw_steps(agent.observation_size, arguments.sessions)
    with serving_ours(arguments.agent) as port:
        ours = partial(measure, port, our_requests(port, arguments.agent, steps), arguments.seconds)
        failures = []
        for name, python in present.items():
            try:
                print_row(name, compare(PEERS[name], python, agent, steps, ours, arguments))
            except Failed as error:  # the others are still worth knowing
                failures.append(f"{name}: {error}")
    if failures:
        raise Failed("\n".join(failures))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", default="b3-nmn", help="published agent (%(default)s)")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS), metavar="NAME", help="%(choices)s")
    parser.add_argument(
        "--python", nargs="+", default=[sys.executable], metavar="PATH", help="interpreters that have them (this one)"
    )
    parser.add_argument("--sessions", type=int, default=64, help="at once (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="(%(default)s)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each in a round (%(default)s)")
    parser.add_argument("--all-cores", action="store_true", help="let peers run on the client's core too")
    return parser.parse_args()


@dataclass(frozen=True)
class Peer:
    """How another server is started and asked for a step."""

    module: str
    command: tuple[str, ...]
    """After the interpreter, in the directory of the wrappers; {port} and {policy} are filled in."""
    path: str
    body: Callable[[str, dict[str, Any]], dict[str, Any]] = lambda session, step: {"session": session, **step}
    variables: Mapping[str, str] = field(default_factory=dict)


def inference_request(session: str, step: dict[str, Any]) -> dict[str, Any]:
    """A step in the Open Inference Protocol."""
    tensors = {"observation": step["observation"], "reward": [step["reward"]]}
    inputs = [
        {"name": name, "shape": [1, len(data)], "datatype": "FP32", "data": data} for name, data in tensors.items()
    ]
    return {"parameters": {"session": session}, "inputs": inputs}


PEERS = {
    "MLServer": Peer(
        "mlserver", ("with_mlserver.py", "{port}", "{policy}"), "/v2/models/policy/infer", inference_request
    ),
    "LitServe": Peer("litserve", ("with_litserve.py", "{port}", "{policy}"), "/predict"),
    "BentoML": Peer(
        "bentoml",
        ("-m", "bentoml", "serve", "with_bentoml:Recurrent", "--host", HOST, "--port", "{port}"),
        "/step",
        variables={"POLICY": "{policy}", "BENTOML_DO_NOT_TRACK": "True"},
    ),
    "Ray Serve": Peer(
        "ray",
        ("with_ray.py", "{port}", "{policy}"),
        "/",
        variables={
            "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
            "RAY_SERVE_ENABLE_HA_PROXY": "1",
            "RAY_AUTH_MODE": "disabled",
        },
    ),
}


def find_python(module: str, pythons: Sequence[str]) -> str | None:
    """The first interpreter that has a module and onnxruntime."""
    code = f"from importlib.util import find_spec; exit(not (find_spec({module!r}) and find_spec('onnxruntime')))"
    return next((python for python in pythons if subprocess.run([python, "-c", code]).returncode == 0), None)


@contextmanager
def serving_ours(agent: str) -> Iterator[int]:
    """Run our server and give its port."""
    port = free_port()
    command = [sys.executable, "-m", "serve", "--agents", agent, "--port", str(port)]
    with serving(command, lambda: open_session(port, agent)):
        yield port


def open_session(port: int, agent: str) -> str:
    return json.loads(post(port, f"/v1/agents/{agent}/sessions"))["session"]


def our_requests(port: int, agent: str, steps: list[list[dict[str, Any]]]) -> list[list[bytes]]:
    """What each connection sends to our server."""
    paths = [f"/v1/sessions/{open_session(port, agent)}/step" for _ in steps]
    return [
        [request("POST", path, json.dumps(step).encode()) for step in own]
        for path, own in zip(paths, steps, strict=True)
    ]


def compare(
    peer: Peer,
    python: str,
    agent: OnnxAgent,
    steps: list[list[dict[str, Any]]],
    ours: Callable[[], Round],
    arguments: argparse.Namespace,
) -> list[dict[str, Round]]:
    """Start a peer, check that it remembers, and drive it in turn with our server."""
    port = free_port()
    filled = {"port": str(port), "policy": str(zoo.directory() / arguments.agent / "policy.onnx")}
    command = [python, *(word.format(**filled) for word in peer.command)]
    variables = {name: value.format(**filled) for name, value in peer.variables.items()}

    def ask(session: str, step: dict[str, Any]) -> list[float]:
        return read_action(post(port, peer.path, json.dumps(peer.body(session, step)).encode()))

    requests = [
        [request("POST", peer.path, json.dumps(peer.body(str(i), step)).encode()) for step in own]
        for i, own in enumerate(steps)
    ]
    start = partial(ask, "start", steps[0][0])
    with serving(command, start, pinned=not arguments.all_cores, directory=WRAPPERS, **variables):
        check_memory(ask, agent, steps[0])
        return alternate({"ours": ours, "theirs": lambda: measure(port, requests, arguments.seconds)}, arguments.rounds)


def read_action(answer: bytes) -> list[float]:
    message = json.loads(answer)
    return message["outputs"][0]["data"] if "outputs" in message else message["action"]


def check_memory(ask: Callable[..., list[float]], agent: OnnxAgent, steps: Sequence[dict[str, Any]]) -> None:
    """Whether a session's actions are those of the agent with its memory carried on."""
    action, state = np.zeros((1, agent.action_size), np.float32), agent.initial_state(1)
    for number, step in enumerate(steps):
        action, state = agent.act([step["observation"]], action, [[step["reward"]]], state)
        answered = ask("check", step)
        if not np.allclose(answered, action[0], atol=TOLERANCE):
            raise Failed(f"Step {number} of a session gives {answered} and not {action[0].tolist()}.")


def print_row(name: str, rounds: Sequence[Mapping[str, Round]]) -> None:
    ours, theirs = [each["ours"] for each in rounds], [each["theirs"] for each in rounds]
    faster = [own.rate / other.rate for own, other in zip(ours, theirs, strict=True)]
    later = [other.p99 / own.p99 for own, other in zip(ours, theirs, strict=True)]
    latencies = [
        f"{milliseconds([each.p50 for each in side])}, {milliseconds([each.p99 for each in side])}"
        for side in (theirs, ours)
    ]
    rates = spread([each.rate for each in theirs], ",.0f")
    print(
        f"| {name} | {rates} | {spread(faster, '.1f')} | {spread(later, '.1f')} | {' | '.join(latencies)} |", flush=True
    )


if __name__ == "__main__":
    clearly(main)
