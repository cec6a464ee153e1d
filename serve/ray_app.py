"""The server as a deployment of Ray Serve: replicas behind Ray's proxy, their sessions on one Redis.

    serve run serve.ray_app:app store=redis://127.0.0.1:6379/0 replicas=3
    serve run deploy/ray-serve.yaml

Every replica runs the very application of `python -m serve`, with its start and its end. What Ray adds is where
replicas run, how many there are, and the proxy before them. `serve` before `run` is Ray's command, `serve.ray_app` this
module.
"""

import hashlib
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import ray
from msgspec.structs import replace

# Our package is called `serve` as well: without another name here its modules would seem to be Ray's.
from ray import serve as ray_serve
from ray.serve import Application
from starlette.applications import Starlette

from serve.settings import AppSettings, Count, Positive, Settings
from serve.stores.choice import is_shared_by_machines
from serve.workers import DRAIN_SECONDS, load_agents, make_app, settle_zoo

LISTS = ("agents", "cors_origins")
MOST_ONGOING = 1000
"""Requests that a replica takes at once; an open stream is one. Ray's own 5 would let a replica have five streams."""


class Arguments(AppSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the application can be told; but for its own four, options of `python -m serve` of the same name.

    On the command line a list is separated by commas: `agents=b1-nmn,b3-nmn`.
    """

    replicas: Count = 1
    """At first, and at least."""
    max_replicas: Count | None = None
    """At most; with it there are as many as `target_ongoing_requests` asks for. As many as `replicas` if absent."""
    target_ongoing_requests: Positive = 32.0
    """Requests in progress and open streams that a replica should have, on average."""
    cpus: Positive = 1.0
    """That Ray sets aside for a replica. A replica computes with one."""


def app(arguments: dict[str, Any]) -> Application:
    """Return the application for `serve run` and for a config file of Ray Serve.

    Args:
        arguments: by name, see `Arguments`; numbers and lists may be written out as text.

    Raises:
        ValueError: an argument is unknown or not accepted, or replicas would not see each other's sessions.
    """
    told = _read(arguments)
    most = told.replicas if told.max_replicas is None else told.max_replicas
    if most < told.replicas:
        raise ValueError(f"max_replicas must be replicas={told.replicas} or more. Received: {most}")
    if most > 1:
        _check_shared(told.store, f"{most} replicas")
    count: dict[str, Any] = {"num_replicas": told.replicas}
    if most > told.replicas:
        scaling = {"min_replicas": told.replicas, "max_replicas": most}
        count = {"autoscaling_config": {**scaling, "target_ongoing_requests": told.target_ongoing_requests}}
    settings = Settings(**{name: getattr(told, name) for name in AppSettings.__struct_fields__})
    make_deployment = ray_serve.deployment(
        name="agents",
        max_ongoing_requests=MOST_ONGOING,
        graceful_shutdown_timeout_s=DRAIN_SECONDS,
        logging_config={"enable_access_log": False},  # `access_log` writes ours
        ray_actor_options={"num_cpus": told.cpus},
        **count,
    )
    return make_deployment(_make_replica(settings)).bind()


def _read(arguments: dict[str, Any]) -> Arguments:
    listed = {
        name: value.split(",") if name in LISTS and isinstance(value, str) else value
        for name, value in arguments.items()
    }
    try:
        return msgspec.convert(listed, Arguments, strict=False)
    except msgspec.ValidationError as error:
        accepted = ", ".join(Arguments.__struct_fields__)
        raise ValueError(f"The application's arguments are wrong. Accepted: {accepted}. Received: {error}") from error


def _check_shared(store: str, replicas: str) -> None:
    if not is_shared_by_machines(store):
        kind = store.partition(":")[0]  # the rest may hold a password
        raise ValueError(
            f"{replicas} need a store that all of them see, on whatever machine Ray starts them. "
            f"Accepted: store=redis://HOST:PORT/0 or rediss://..., or one replica alone. Received: {kind}"
        )


def _make_replica(settings: Settings) -> type:
    """Return the class of which Ray makes a replica in a process of its own."""

    def make() -> Starlette:
        return _make_app(settings)

    @ray_serve.ingress(make)
    class Replica:
        app: Starlette

        async def check_health(self) -> None:
            """Fail if /health/ready would; Ray replaces a replica that fails three times in a row."""
            await self.app.state.condition.check(self.app)

    return Replica


def _make_app(settings: Settings) -> Starlette:
    """Return the application of one replica."""
    context = ray_serve.get_replica_context()
    if context.rank.rank > 0 or context.world_size > 1:  # a config file may have raised their number afterwards
        _check_shared(settings.store, "Several replicas")
    counts = _counts_directory(settings)
    settings = settle_zoo(replace(settings, counts=str(counts)))
    return make_app(settings, load_agents(settings))


def _counts_directory(settings: Settings) -> Path:
    """Where the replicas of a node leave their counts for each other: /metrics of any then counts them all."""
    node = ray.get_runtime_context().get_node_id()  # drawn anew whenever a node starts
    what = hashlib.sha256(msgspec.json.encode(settings)).hexdigest()[:16]
    directory = Path(tempfile.gettempdir()) / f"nmn-serve-{node}-{what}"
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory
