"""What the server counts, for Prometheus; under Triton's names where Triton counts the same."""

import re
from collections.abc import Iterable, Iterator
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
from prometheus_client.metrics_core import CounterMetricFamily
from prometheus_client.registry import Collector

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 0.1, 0.2, 0.5, 1.0)
"""Steps take tens of microseconds; the usual buckets begin at 5 milliseconds."""
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
VERSION = "1"

DERIVED = {
    "nmn_step_duration_seconds": (
        ("count", "request_success", "Steps taken.", 1.0),
        ("sum", "request_duration_us", "Microseconds from a step's request to its answer.", 1e6),
    ),
    "nmn_batch_rows": (
        ("sum", "count", "Environments stepped: a batch counts its rows.", 1.0),
        ("count", "exec_count", "Runs of the agent's graph.", 1.0),
    ),
}
"""Series of a histogram under Triton's names: ending, name, what it is, factor."""

disable_created_metrics()


class AgentMetrics:
    """What is counted of each agent.

    Args:
        registry: where the series are registered.
    """

    def __init__(self, registry: CollectorRegistry):
        labels = ("model", "version")
        self.seconds = Histogram(
            "nmn_step_duration_seconds",
            "From a step's request to its answer.",
            labels,
            registry=registry,
            buckets=SECONDS,
        )
        self.rows = Histogram(
            "nmn_batch_rows", "Environments stepped in one run.", labels, registry=registry, buckets=ROWS
        )
        self.running = Counter(
            "nv_inference_compute_infer_duration_us", "Microseconds in runs of the graph.", labels, registry=registry
        )
        self.failure = Counter("nv_inference_request_failure", "Steps refused.", labels, registry=registry)

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
        of.rows.observe(rows)
        of.running.inc(seconds * 1e6)

    def observe_step(self, agent: str, taken: bool, seconds: float) -> None:
        """Count one request for a step."""
        of = self._of[agent]
        if taken:
            of.seconds.observe(seconds)
        else:
            of.failure.inc()

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
        text = generate_latest(registry) + generate_latest(_Derived(registry))
        # The library ends every counter's name with _total; Triton's have none.
        return re.sub(rb"\b(nv_inference_\w+)_total\b", rb"\1", text)


class _Derived(Collector):
    """What Triton counts and our histograms hold already: on the way of every step each count costs."""

    def __init__(self, registry: CollectorRegistry):
        self._registry = registry

    def collect(self) -> Iterator[CounterMetricFamily]:
        for metric in self._registry.collect():
            for ending, name, text, factor in DERIVED.get(metric.name, ()):
                family = CounterMetricFamily(f"nv_inference_{name}", text, labels=("model", "version"))
                for sample in metric.samples:
                    if sample.name == f"{metric.name}_{ending}":
                        family.add_metric((sample.labels["model"], VERSION), sample.value * factor)
                yield family
