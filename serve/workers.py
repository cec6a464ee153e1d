"""Several server processes on one port: what each of them runs."""

import logging
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from serve.settings import Settings

if TYPE_CHECKING:
    import socket

    import uvicorn
    from starlette.applications import Starlette

    from nmn_keras.runtime import OnnxAgent

VARIABLE = "NMN_SERVE_SETTINGS"
DRAIN_SECONDS = 6
"""How long requests in progress are waited for at the end."""


def settle_zoo(settings: Settings) -> Settings:
    """Name the zoo by its directory. One on the Hub is downloaded here, so that every process serves the same commit.

    Raises:
        OSError, ValueError, ImportError: it cannot be had.
    """
    from nmn_keras import zoo

    return replace(settings, zoo=str(zoo.directory(settings.zoo)))


def load_agents(settings: Settings) -> "dict[str, OnnxAgent]":
    """Return the agents to serve by name.

    Raises:
        OSError, ValueError: one is unknown, missing or altered, or there is none.
    """
    from nmn_keras import zoo

    chosen = settings.agents or zoo.list_agents(settings.zoo)
    if not chosen:
        raise ValueError(f"there are no agents in {zoo.directory(settings.zoo)}")
    return {name: zoo.load(name, runtime="onnx", zoo=settings.zoo) for name in chosen}


def make_app(settings: Settings, agents: "dict[str, OnnxAgent]") -> "Starlette":
    """Return the application that the settings ask for.

    Raises:
        OSError, ValueError: the store or the file of keys cannot be used.
    """
    from serve.access import read_keys
    from serve.app import create_app
    from serve.stores import open_store

    # uvicorn takes every refused WebSocket for a mistake of the application.
    logging.getLogger("uvicorn.error").addFilter(lambda record: "completing handshake" not in str(record.msg))
    return create_app(
        agents,
        open_store(settings.store, settings.max_sessions, settings.max_age_seconds),
        ttl_seconds=settings.ttl_seconds,
        max_body_bytes=settings.max_body_bytes,
        api_keys=read_keys(settings.api_keys) if settings.api_keys else (),
        cors_origins=settings.cors_origins,
        access_log=sys.stderr if settings.access_log else None,
        counts=settings.counts,
        zoo_directory=settings.zoo,
        root_path=settings.root_path,
        trusted_proxies=settings.forwarded_allow_ips,
        grpc_address=settings.grpc_address,
    )


def make_config(app: "Starlette | str", settings: Settings) -> "uvicorn.Config":
    """Return how uvicorn runs the application."""
    from serve.deadlines import BoundedConfig

    return BoundedConfig(
        app,
        settings.request_seconds,
        factory=isinstance(app, str),
        workers=settings.workers,
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # `prefix.py` reads them all
        ws_max_size=settings.max_body_bytes,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )


def run_workers(settings: Settings, listener: "socket.socket") -> None:
    """Serve with several processes, each started anew should it die, until SIGINT or SIGTERM."""
    from uvicorn.supervisors import Multiprocess

    with tempfile.TemporaryDirectory(prefix="nmn-serve-") as directory:
        counts = Path(directory, "counts")
        counts.mkdir()
        settings = replace(settings, zoo=_copy_zoo(settings, directory), counts=str(counts))
        os.environ[VARIABLE] = msgspec.json.encode(settings).decode()
        # The processes are told where this package is: they do not begin in its folder.
        root = str(Path(__file__).parent.parent)
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        config = make_config("serve.workers:make_worker", settings)
        Multiprocess(config, sockets=[listener]).run()


def _copy_zoo(settings: Settings, directory: str) -> str:
    """Copy the agents: a process that is started anew later must serve what the others do, whatever is published."""
    from nmn_keras import zoo

    source, copy = zoo.directory(settings.zoo), Path(directory, "zoo")
    for name in settings.agents or zoo.list_agents(source):
        shutil.copytree(source / name, copy / name)
    shutil.copy(source / "index.json", copy)
    return str(copy)


def make_worker() -> "Starlette":
    """Return the application of one of several processes."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    settings = msgspec.json.decode(os.environ[VARIABLE], type=Settings)
    return make_app(settings, load_agents(settings))


def _end_with_parent() -> None:
    """Stop serving when the process that started this one is gone: were it killed, we would hold its port for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
