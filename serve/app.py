"""The application: served agents in, ASGI app out."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import numpy as np
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from nmn_keras.runtime import OnnxAgent
from serve import problems
from serve.messages import Health
from serve.native import Native, answer
from serve.open_inference import OpenInference
from serve.store import SessionStore
from serve.stream import Stream


def create_app(
    agents: Mapping[str, OnnxAgent],
    *,
    max_sessions: int = 10_000,
    ttl_seconds: float = 3600.0,
    max_age_seconds: float = 86_400.0,
    max_body_bytes: int = 1 << 20,
) -> Starlette:
    """Return an application that serves agents.

    Args:
        agents: by the name they are served as.
        max_sessions: how many sessions may be open at once.
        ttl_seconds: how long a session is kept after its last use, unless its client asks for less.
        max_age_seconds: how long a session is kept at most.
        max_body_bytes: how large a request's body may be.
    """
    native = Native(agents, SessionStore(max_sessions, max_age_seconds), ttl_seconds, max_body_bytes)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        for agent in agents.values():
            _warm_up(agent)
        app.state.ready = True
        yield
        app.state.ready = False

    health: list[BaseRoute] = [Route("/health/live", _is_live), Route("/health/ready", _is_ready)]
    app = Starlette(
        routes=[*health, *native.routes(), *Stream(native).routes(), *OpenInference(native).routes()], lifespan=lifespan
    )
    app.state.ready = False
    problems.install(app)
    return app


def _warm_up(agent: OnnxAgent) -> None:
    """Take the first step, which allocates, before the first client does."""
    agent.step(
        np.zeros((1, agent.observation_size), np.float32),
        np.zeros((1, agent.action_size), np.float32),
        np.zeros((1, 1), np.float32),
        agent.initial_state(1),
    )


async def _is_live(request: Request) -> Response:
    """GET /health/live: the process answers."""
    return answer(Health("live"))


async def _is_ready(request: Request) -> Response:
    """GET /health/ready: agents are loaded and have stepped."""
    if not request.app.state.ready:
        raise problems.Problem(503, "not-ready", "The server is starting or stopping.")
    return answer(Health("ready"))
