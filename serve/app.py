"""The application: served agents in, ASGI app out."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TextIO

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from nmn_keras.runtime import OnnxAgent
from serve import idempotency, open_inference, problems
from serve.access import Access
from serve.condition import Condition
from serve.documentation import Documentation, exemplary
from serve.inspection import Inspection, refuse_change
from serve.metrics import SHARE_SECONDS, Metrics
from serve.native import Native
from serve.open_inference import OpenInference
from serve.openapi import Group
from serve.operations import STEP, Observer, Remainder, Shortcut, make_routes
from serve.pages import Page
from serve.prefix import Prefix
from serve.rounds import Rounds
from serve.solo import solo_of
from serve.stores import Store
from serve.stores.memory import MemoryStore
from serve.stream import Stream
from serve.tensors import HEADER


def create_app(
    agents: Mapping[str, OnnxAgent],
    store: Store | None = None,
    *,
    ttl_seconds: float = 3600.0,
    max_body_bytes: int = 1 << 20,
    api_keys: Sequence[str] = (),
    cors_origins: Sequence[str] = (),
    access_log: TextIO | None = None,
    counts: str | None = None,
    zoo_directory: str | None = None,
    root_path: str = "",
    trusted_proxies: Sequence[str] | None = None,
    grpc_address: str | None = None,
) -> Starlette:
    """Return an application that serves agents.

    Args:
        agents: by the name they are served as.
        store: where sessions are kept; in memory if absent.
        ttl_seconds: how long a session is kept after its last use, unless its client asks for less.
        max_body_bytes: how large a request's body may be.
        api_keys: one of them must come with every request; none, and no request needs any.
        cors_origins: of pages that may connect, beside the server's own.
        access_log: where a line per answer goes.
        counts: directory where processes that serve the same port leave their counts, see `Metrics`.
        zoo_directory: where the agents' published files are; the packaged zoo if absent.
        root_path: the path under which clients see the application, behind a proxy.
        trusted_proxies: addresses whose X-Forwarded-For, -Proto and -Prefix count; None to look neither at these nor
            at `root_path`, where somebody else's server does that.
        grpc_address: host and port where the same agents are served over gRPC while the application runs; needs grpcio.
    """
    store = MemoryStore() if store is None else store
    access = Access(api_keys, cors_origins)
    metrics = Metrics(agents, counts)
    native = Native(agents, store, Rounds(agents, store, metrics), metrics, ttl_seconds, max_body_bytes)
    inference = OpenInference(native)
    inspection = Inspection(inference)
    condition = Condition(store, metrics)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        for agent in agents.values():
            solo_of(agent)  # tries and allocates before the first client comes
        sharing = asyncio.create_task(_share(metrics))
        app.state.ready = True
        async with _rpc(grpc_address, access, observer, inspection, lambda: condition.check(app)):
            yield
            app.state.ready = False
        sharing.cancel()
        metrics.share()
        await store.close()

    observer = Observer(metrics, access_log)
    stream = Stream(native, access, observer)
    page = Page(agents, zoo_directory)
    groups = [
        Group("native", "Sessions and their steps, in JSON.", native.operations()),
        Group("stream", stream.__doc__ or ""),
        Group("open inference", open_inference.__doc__ or "", [*inspection.operations(), *inference.operations()]),
        Group("page", page.__doc__ or "", page.operations()),
        Group("condition", "For operators and their probes.", condition.operations()),
    ]
    documentation = Documentation(groups, keyed=bool(api_keys), agent=exemplary(agents))
    operations = [operation for group in groups for operation in group.operations]
    routes = make_routes([*operations, *documentation.operations()], access, observer)
    (step,) = (route.app for route in routes if route.path == "{session}".join(STEP))
    app = Starlette(
        routes=[*routes, *stream.routes(), page.files()],
        middleware=[
            *([] if trusted_proxies is None else [Middleware(Prefix, root_path=root_path, trusted=trusted_proxies)]),
            Middleware(Remainder, observer=observer),
            *([_cross_origin(cors_origins)] if cors_origins else []),
            Middleware(Shortcut, endpoint=step),
        ],
        lifespan=lifespan,
    )
    app.state.ready = False
    app.state.condition = condition  # for a health check that is no request
    app.router.redirect_slashes = False  # a path with a slash too many is unknown, like any other
    problems.install(app, {"/v2": refuse_change})
    return app


@asynccontextmanager
async def _rpc(address: str | None, *parts: Any) -> AsyncIterator[None]:
    """Serve over gRPC as long as the application runs, if it is asked for; without that its package is not needed."""
    if address is None:
        yield
        return
    from serve.rpc.server import RpcServer

    server = RpcServer(address, *parts)
    await server.start()
    yield
    await server.stop()


async def _share(metrics: Metrics) -> None:
    """Leave the counts for the other processes, again and again."""
    while metrics.shared:
        metrics.share()
        await asyncio.sleep(SHARE_SECONDS)


def _cross_origin(origins: Sequence[str]) -> Middleware:
    """Tell browsers which pages may read answers."""
    return Middleware(
        CORSMiddleware,
        allow_origins=origins,
        allow_methods=["GET", "POST", "PUT", "DELETE"],
        allow_headers=["authorization", "content-type", idempotency.HEADER, HEADER],
        expose_headers=["location", "retry-after", HEADER],
    )
