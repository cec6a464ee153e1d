"""The server's own condition: whether it lives, whether it is ready, and what it has counted."""

from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from serve.answers import answer
from serve.messages import Health
from serve.metrics import MEDIA_TYPE, Metrics
from serve.operations import Operation
from serve.problems import Problem
from serve.stores import Store


@dataclass(frozen=True)
class Condition:
    """The routes that operators and probes ask."""

    store: Store
    metrics: Metrics

    def operations(self) -> list[Operation]:
        """Return what can be asked."""
        return [
            Operation("GET", "/health/live", self.is_live, None, Health, public=True),
            Operation("GET", "/health/ready", self.is_ready, None, Health, refusals=(503,), public=True),
            Operation("GET", "/metrics", self.show_metrics, None, str, gives=("text/plain",), refusals=(503,)),
        ]

    async def is_live(self, request: Request) -> Response:
        """Whether the process answers."""
        return answer(Health("live"))

    async def is_ready(self, request: Request) -> Response:
        """Whether agents are loaded and have stepped, and the store of sessions can be reached."""
        await self.check(request.app)
        return answer(Health("ready"))

    async def check(self, app: Starlette) -> None:
        """Do nothing if the server is ready.

        Raises:
            Problem: 503, it is starting or stopping, or the store cannot be reached.
        """
        if not app.state.ready:
            raise Problem(503, "not-ready", "The server is starting or stopping.")
        await self.store.count()

    async def show_metrics(self, request: Request) -> Response:
        """Counts and durations, as Prometheus reads them."""
        return Response(self.metrics.write(await self.store.count()), media_type=MEDIA_TYPE)
