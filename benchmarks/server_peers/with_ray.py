"""Ray Serve: a deployment of one replica, with the settings that its documentation names for throughput; no access log.

No dynamic batching: it waits for a batch, and the network is the least of a request.
"""

import signal
import sys

import ray
from policy import Policy
from ray import serve
from ray.serve.schema import LoggingConfig
from starlette.requests import Request
from starlette.responses import JSONResponse


@serve.deployment(num_replicas=1, max_ongoing_requests=1000)
class Recurrent:
    """The session's id comes with the observation."""

    def __init__(self, path: str):
        self.policy = Policy(path)

    async def __call__(self, request: Request) -> JSONResponse:
        return JSONResponse({"action": self.policy.step(**await request.json())})


def main(port: str, path: str) -> None:
    ray.init(num_cpus=2, include_dashboard=False, logging_level="warning", log_to_driver=False)
    try:
        quiet = LoggingConfig(enable_access_log=False, log_level="WARNING")
        serve.start(http_options={"host": "127.0.0.1", "port": int(port)}, logging_config=quiet)
        serve.run(Recurrent.options(logging_config=quiet).bind(path))
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))  # ray has set its own
        signal.pause()
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
