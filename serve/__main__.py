"""`python -m serve`: serve published agents over HTTP."""

# Only what the help text needs is imported here: `--help` answers at once.
import argparse
import os
import shlex
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from nmn_keras.runtime import OnnxAgent
    from serve.settings import Settings

EXAMPLE = str(Path(__file__).parent.parent / "examples" / "play_over_http.py")


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the command line's arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m serve",
        description="Serve published agents over HTTP, each session with its own memory.",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on, ::1 too (%(default)s)")
    parser.add_argument("--port", type=_port, default=8000, help="port, 0 for any free one (%(default)s)")
    parser.add_argument(
        "--grpc-port",
        type=_port,
        metavar="PORT",
        help="serve the Open Inference Protocol over gRPC too, on this port of --host, 0 for any free one; "
        'needs pip install "nmn_keras[grpc]" (not served)',
    )
    parser.add_argument("--uds", metavar="PATH", help="listen on a Unix socket instead of a port")
    parser.add_argument(
        "--zoo",
        metavar="PATH",
        help="directory of published agents, or hf://user/name on the Hugging Face Hub (NMN_ZOO, or the zoo shipped)",
    )
    parser.add_argument("--agents", nargs="+", metavar="NAME", help="agents to serve (every one of the zoo)")
    parser.add_argument(
        "--store",
        default="memory",
        metavar="URL",
        help="where sessions are kept: memory; sqlite:///FILE, which survives the server and is shared by its workers; "
        "redis://HOST:PORT/0, shared by several machines (%(default)s)",
    )
    parser.add_argument(
        "--workers", type=_positive, default=1, metavar="N", help="processes that serve the port (%(default)s)"
    )
    parser.add_argument(
        "--max-sessions", type=_positive, default=10_000, metavar="N", help="open at once (%(default)s)"
    )
    parser.add_argument(
        "--ttl-seconds",
        type=_positive,
        default=3600,
        metavar="S",
        help="how long an idle session is kept at most (%(default)s)",
    )
    parser.add_argument(
        "--max-age-seconds",
        type=_positive,
        default=86_400,
        metavar="S",
        help="how long any session is kept (%(default)s)",
    )
    parser.add_argument(
        "--max-body-bytes", type=_positive, default=1 << 20, metavar="N", help="largest body of a request (%(default)s)"
    )
    parser.add_argument(
        "--request-seconds",
        type=_positive,
        default=30,
        metavar="S",
        help="how long a request may take to arrive, headers and body, before it is ended (%(default)s)",
    )
    parser.add_argument(
        "--root-path",
        default="",
        metavar="PATH",
        help="path under which a proxy shows the server, as /agents (the proxy's X-Forwarded-Prefix, or none)",
    )
    parser.add_argument(
        "--forwarded-allow-ips",
        nargs="+",
        default=["127.0.0.1", "::1"],
        metavar="IP",
        help="proxies whose X-Forwarded-For, -Proto and -Prefix count; networks too, '*' for all (127.0.0.1 ::1)",
    )
    parser.add_argument(
        "--api-keys", metavar="FILE", help="API keys, one per line; every request must then bear one (none)"
    )
    parser.add_argument(
        "--cors-origins",
        nargs="+",
        default=[],
        metavar="ORIGIN",
        help="of pages that may connect, beside our own, as https://example.org; '*' for all (none)",
    )
    parser.add_argument("--access-log", action="store_true", help="write a JSON line per answer to standard error")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until SIGINT or SIGTERM, then finish the requests in progress and exit with 0."""
    arguments = vars(parse_arguments(argv))
    host, port, path = (arguments.pop(name) for name in ("host", "port", "uds"))
    grpc_port = arguments.pop("grpc_port")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _exit_cleanly)
    from msgspec.structs import replace

    from serve import listening, workers
    from serve.prefix import check_prefix
    from serve.settings import Settings

    settings = Settings(**arguments)
    if settings.workers > 1 and settings.store == "memory":
        _refuse(
            f"{settings.workers} workers need a store that all of them see, and `memory` is none. "
            "Add --store sqlite:///sessions.db (one machine) or --store redis://HOST:PORT/0, or leave --workers out."
        )
    try:
        settings = workers.settle_zoo(replace(settings, root_path=check_prefix(settings.root_path)))
        reserved = None if grpc_port is None else listening.reserve(host, grpc_port)  # held as long as we run
        if reserved is not None:
            settings = replace(settings, grpc_address=listening.address(*reserved.getsockname()[:2]))
        agents = workers.load_agents(settings)
        app = workers.make_app(settings, agents)
        listener = listening.listen(host, port) if path is None else listening.listen_at(path)
    except (OSError, ValueError, ImportError) as error:
        _refuse(str(error))
    url = listening.url_of(listener) + settings.root_path
    print(_greeting(url, agents, settings.api_keys is not None, path, settings.grpc_address), flush=True)
    try:
        if settings.workers > 1:
            workers.run_workers(settings, listener)
        else:
            _run(app, settings, listener)
    finally:
        listening.forget(path)


def _run(app: "Starlette", settings: "Settings", listener: socket.socket) -> None:
    import uvicorn

    from serve.workers import make_config

    uvicorn.Server(make_config(app, settings)).run(sockets=[listener])


def _exit_cleanly(number: int, frame: object) -> NoReturn:
    for again in (signal.SIGINT, signal.SIGTERM):  # one that comes while the process ends changes nothing
        signal.signal(again, signal.SIG_IGN)
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


def _greeting(
    url: str, agents: "Mapping[str, OnnxAgent]", keyed: bool, path: str | None, grpc_address: str | None
) -> str:
    """Say what is served, and what to try."""
    from serve.documentation import exemplary

    name = exemplary(agents)
    observation = f"'{{\"observation\": {[0.0] * agents[name].observation_size}}}'"
    curl = 'curl -H "Authorization: Bearer $NMN_API_KEY"' if keyed else "curl"
    if path is not None:
        curl += f" --unix-socket {shlex.quote(path)}"
    where = f"{path}, {url}" if path is not None else url
    lines = [
        f"Serving {', '.join(agents)} at {where} (Ctrl+C stops)",
        f"Open {url} to watch an agent adapt, {url}/docs to read the API.",
        *([] if grpc_address is None else [f"The Open Inference Protocol over gRPC is at {grpc_address}."]),
        "",
        f"Try, in another shell{', with one of the API keys in NMN_API_KEY' if keyed else ''}:",
        f"  {curl} {url}/v1/agents",
        f"  {curl} -X POST {url}/v1/agents/{name}/sessions",
        f"  {curl} --json {observation} {url}/v1/sessions/SESSION/step",
    ]
    if os.path.isfile(EXAMPLE) and path is None:
        paths = [min(path, os.path.relpath(path), key=len) for path in (sys.executable, EXAMPLE)]
        lines.append(f"  {' '.join(paths)} --url {url} --agent {name}")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
