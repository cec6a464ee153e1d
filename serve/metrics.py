"""What the server counts, for Prometheus; under Triton's names where Triton counts the same."""

import re
from collections.abc import Iterable
from copy import copy

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
    multiprocess,
)

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 0.1, 0.2, 0.5, 1.0)
"""Steps take tens of microseconds; the usual buckets begin at 5 milliseconds."""
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
VERSION = "1"

disable_created_metrics()


class AgentMetrics:
    """What is counted of each agent.

    Args:
        registry: where the series are registered.
    """

    def __init__(self, registry: CollectorRegistry):
        labels = ("model", "version")

        def counter(name: str, text: str) -> Counter:
            return Counter(f"nv_inference_{name}", text, labels, registry=registry)

        self.success = counter("request_success", "Steps taken.")
        self.failure = counter("request_failure", "Steps refused.")
        self.duration = counter("request_duration_us", "Microseconds from a step's request to its answer.")
        self.rows = counter("count", "Environments stepped: a batch counts its rows.")
        self.runs = counter("exec_count", "Runs of the agent's graph.")
        self.running = counter("compute_infer_duration_us", "Microseconds in these runs.")
        self.seconds = Histogram(
            "nmn_step_duration_seconds", "From request to answer.", labels, registry=registry, buckets=SECONDS
        )
        self.batch = Histogram(
            "nmn_batch_rows", "Environments stepped in one run.", labels, registry=registry, buckets=ROWS
        )

    def of(self, agent: str) -> "AgentMetrics":
        """Return the same counters, bound to one agent: looking the labels up costs more than counting."""
        bound = copy(self)
        for name, metric in vars(self).items():
            setattr(bound, name, metric.labels(agent, VERSION))
        return bound


class Metrics:
    """Counters of one server process.

    Args:
        agents: names, each of which has its series from the start.
        shared: whether other processes serve the same port: the counts of all are then read from the directory
            `PROMETHEUS_MULTIPROC_DIR`.
    """

    def __init__(self, agents: Iterable[str], shared: bool = False):
        self._shared = shared
        self._registry = registry = CollectorRegistry()
        metrics = AgentMetrics(registry)
        self._of = {name: metrics.of(name) for name in agents}
        labels = ("method", "route", "status")
        self._requests = Counter("nmn_http_requests", "Requests answered.", labels, registry=registry)
        self._answers: dict[tuple[str, str, int], Counter] = {}
        self._sessions = Gauge("nmn_sessions", "Sessions open now.", registry=registry, multiprocess_mode="mostrecent")

    def observe_batch(self, agent: str, rows: int, seconds: float) -> None:
        """Count one run of an agent's graph."""
        of = self._of[agent]
        of.rows.inc(rows)
        of.runs.inc()
        of.running.inc(seconds * 1e6)
        of.batch.observe(rows)

    def observe_step(self, agent: str, taken: bool, seconds: float) -> None:
        """Count one request for a step."""
        of = self._of[agent]
        (of.success if taken else of.failure).inc()
        of.duration.inc(seconds * 1e6)
        of.seconds.observe(seconds)

    def observe_request(self, method: str, route: str, status: int) -> None:
        """Count one answer."""
        counter = self._answers.get((method, route, status))
        if counter is None:
            counter = self._answers[method, route, status] = self._requests.labels(method, route, status)
        counter.inc()

    def write(self, sessions: int) -> bytes:
        """Return the counts as Prometheus reads them, those of all processes of this server."""
        self._sessions.set(sessions)
        registry = self._registry
        if self._shared:
            registry = CollectorRegistry()
            multiprocess.MultiProcessCollector(registry)
        # The library ends every counter's name with _total; Triton's have none.
        return re.sub(rb"\b(nv_inference_\w+)_total\b", rb"\1", generate_latest(registry))
