"""`python -m serve`: serve published agents over HTTP."""

# Only what the help text needs is imported here: `--help` answers at once.
import argparse
import logging
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import uvicorn

    from nmn_keras.runtime import OnnxAgent

EXAMPLE = str(Path(__file__).parent.parent / "examples" / "play_over_http.py")
DRAIN_SECONDS = 10
MAX_BODY_BYTES = 1 << 20


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the command line's arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m serve",
        description="Serve published agents over HTTP, each session with its own memory.",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument("--port", type=_port, default=8000, help="port, 0 for any free one (%(default)s)")
    parser.add_argument("--zoo", metavar="PATH", help="directory of published agents (NMN_ZOO, or the zoo shipped)")
    parser.add_argument("--agents", nargs="+", metavar="NAME", help="agents to serve (every one of the zoo)")
    parser.add_argument("--max-sessions", type=_positive, default=10_000, help="open at once (%(default)s)")
    parser.add_argument(
        "--ttl-seconds", type=_positive, default=3600, help="how long an idle session is kept at most (%(default)s)"
    )
    parser.add_argument(
        "--max-age-seconds", type=_positive, default=86_400, help="how long any session is kept (%(default)s)"
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until SIGINT or SIGTERM, then finish the requests in progress and exit with 0."""
    arguments = parse_arguments(argv)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _exit_cleanly)
    agents = _load_agents(arguments.zoo, arguments.agents)
    server = _make_server(agents, arguments)
    listener = _listen(arguments.host, arguments.port)
    print(_greeting(_url(listener), agents), flush=True)
    server.run(sockets=[listener])


def _exit_cleanly(number: int, frame: object) -> NoReturn:
    raise SystemExit(0)


def _refuse(message: str) -> NoReturn:
    print(f"python -m serve: {message}", file=sys.stderr)
    raise SystemExit(2)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"accepted is 0 to 65535, received {text!r}")
    return int(text)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"accepted is a whole number from 1, received {text!r}")
    return int(text)


def _load_agents(directory: str | None, names: Sequence[str] | None) -> "dict[str, OnnxAgent]":
    """Return the agents to serve by name; refuse what is unknown, missing or altered."""
    from nmn_keras import zoo

    try:
        chosen = names or zoo.list_agents(directory)
        agents = {name: zoo.load(name, runtime="onnx", zoo=directory) for name in chosen}
        if not agents:
            _refuse(f"there are no agents in {zoo.directory(directory)}")
    except (OSError, ValueError) as error:
        _refuse(str(error))
    return agents


def _make_server(agents: "Mapping[str, OnnxAgent]", arguments: argparse.Namespace) -> "uvicorn.Server":
    import uvicorn

    from serve.app import create_app

    # uvicorn takes every refused WebSocket for a mistake of the application.
    logging.getLogger("uvicorn.error").addFilter(lambda record: "completing handshake" not in str(record.msg))
    app = create_app(
        agents,
        max_body_bytes=MAX_BODY_BYTES,
        max_sessions=arguments.max_sessions,
        ttl_seconds=arguments.ttl_seconds,
        max_age_seconds=arguments.max_age_seconds,
    )
    config = uvicorn.Config(
        app,
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        ws_max_size=MAX_BODY_BYTES,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
    return uvicorn.Server(config)


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening socket: from here on clients can connect, if not yet be answered."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        _refuse(
            f"cannot listen on {host}:{port} ({error.strerror or error}). Choose another --port; 0 takes any free one."
        )


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _greeting(url: str, agents: "Mapping[str, OnnxAgent]") -> str:
    """Say what is served, and what to try."""
    name, agent = next(iter(agents.items()))
    observation = f"'{{\"observation\": {[0.0] * agent.observation_size}}}'"
    lines = [
        f"Serving {', '.join(agents)} at {url} (Ctrl+C stops)",
        "",
        "Try, in another shell:",
        f"  curl {url}/v1/agents",
        f"  curl -X POST {url}/v1/agents/{name}/sessions",
        f"  curl --json {observation} {url}/v1/sessions/SESSION/step",
    ]
    if os.path.isfile(EXAMPLE):
        paths = [min(path, os.path.relpath(path), key=len) for path in (sys.executable, EXAMPLE)]
        lines.append(f"  {' '.join(paths)} --url {url} --agent {name}")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
