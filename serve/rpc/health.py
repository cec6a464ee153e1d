"""`grpc.health.v1.Health`: whether the server, or one service of it, is ready."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from serve.problems import Problem
from serve.rpc.calls import Call
from serve.rpc.schema import HEALTH, SERVICE, message
from serve.tensors import Refused

PUBLIC = ("Check", "Watch")
KNOWN = ("", SERVICE, HEALTH)
RESPONSE = message("grpc.health.v1.HealthCheckResponse")
WATCH_SECONDS = 1.0
"""How often a watched status is looked at."""


class HealthService:
    """The service's methods under their names.

    Args:
        check: raises `Problem` if the server is not ready.
    """

    def __init__(self, check: Callable[[], Awaitable[None]]):
        self._check = check
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        """Say to all who watch that the server is not ready, and end."""
        self._stopped.set()

    async def Check(self, request: Any, call: Call) -> Any:
        """The status now."""
        if request.service not in KNOWN:
            raise Refused(f"unknown service '{request.service}'. Known: {', '.join(KNOWN[1:])}, or none", 404)
        return RESPONSE(status=await self._status())

    async def Watch(self, request: Any, call: Call) -> None:
        """The status now, and whenever it changes."""
        last = None
        while not self._stopped.is_set():
            status = await self._status() if request.service in KNOWN else "SERVICE_UNKNOWN"
            if status != last:
                last = status
                await call.context.write(RESPONSE(status=status))
            try:
                await asyncio.wait_for(self._stopped.wait(), WATCH_SECONDS)
            except TimeoutError:
                continue
        await call.context.write(RESPONSE(status="NOT_SERVING"))

    async def _status(self) -> str:
        try:
            await self._check()
        except Problem:
            return "NOT_SERVING"
        return "SERVING"
