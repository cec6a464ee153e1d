"""What the server counts, for Prometheus; under Triton's names where Triton counts the same.

Counts are plain numbers: a step takes some fifty microseconds, of which a library's thread-safe counters would be a
tenth. The Prometheus library writes them out. Processes that serve one port leave theirs in a directory for each other.
"""

import os
import re
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path

import msgspec
from prometheus_client import generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 0.1, 0.2, 0.5, 1.0)
"""Upper bounds of buckets. Steps take tens of microseconds; the usual buckets begin at 5 milliseconds."""
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
VERSION = "1"
SHARE_SECONDS = 1.0
"""How often a process leaves its counts for the others."""


class Distribution(msgspec.Struct):
    """Counts of a quantity by bucket, the last one without bound, and its sum."""

    counts: list[int]
    total: float = 0.0

    def add(self, bounds: tuple[float, ...], value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(bounds, value)] += 1
        self.total += value

    def merge(self, other: "Distribution") -> None:
        """Add what another process counted."""
        self.counts = [own + more for own, more in zip(self.counts, other.counts, strict=True)]
        self.total += other.total


class AgentCounts(msgspec.Struct):
    """What is counted of an agent: seconds of its steps, rows and seconds of its graph's runs, steps refused."""

    seconds: Distribution
    rows: Distribution
    running: float = 0.0
    refused: int = 0
    refusing: float = 0.0
    """Seconds until they were."""
    last: float = 0.0
    """When a step was last taken, in seconds since 1970."""

    @classmethod
    def none(cls) -> "AgentCounts":
        """Return nothing counted."""
        return cls(Distribution([0] * (len(SECONDS) + 1)), Distribution([0] * (len(ROWS) + 1)))

    def merge(self, other: "AgentCounts") -> None:
        """Add what another process counted."""
        self.seconds.merge(other.seconds)
        self.rows.merge(other.rows)
        self.running += other.running
        self.refused += other.refused
        self.refusing += other.refusing
        self.last = max(self.last, other.last)


class Counts(msgspec.Struct):
    """What a process has counted: `answers` by method, route and status, `calls` over gRPC by service, method, code."""

    agents: dict[str, AgentCounts]
    answers: dict[str, int] = {}
    calls: dict[str, int] = {}


class Metrics:
    """Counters of one server process.

    Args:
        agents: names, each of which has its series from the start.
        directory: where the processes that serve the same port leave their counts; None if there are no others.
    """

    def __init__(self, agents: Iterable[str], directory: str | os.PathLike[str] | None = None):
        self._counts = Counts({name: AgentCounts.none() for name in agents})
        self._directory = None if directory is None else Path(directory)

    @property
    def shared(self) -> bool:
        """Whether other processes serve the same port."""
        return self._directory is not None

    def observe_batch(self, agent: str, rows: int, seconds: float) -> None:
        """Count one run of an agent's graph."""
        of = self._counts.agents[agent]
        of.rows.add(ROWS, rows)
        of.running += seconds

    def observe_step(self, agent: str, taken: bool, seconds: float) -> None:
        """Count one request for a step."""
        of = self._counts.agents[agent]
        if taken:
            of.seconds.add(SECONDS, seconds)
            of.last = time.time()
        else:
            of.refused += 1
            of.refusing += seconds

    @contextmanager
    def observing_run(self, agent: str, rows: int) -> Iterator[None]:
        """Count a request for a step that is a run of the graph by itself: one without a session."""
        begun, taken = time.perf_counter(), False
        try:
            yield
            taken = True
        finally:
            seconds = time.perf_counter() - begun
            self.observe_step(agent, taken, seconds)
            if taken:
                self.observe_batch(agent, rows, seconds)

    def observe_request(self, method: str, route: str, status: int) -> None:
        """Count one answer."""
        answers, key = self._counts.answers, f"{method} {route} {status}"
        answers[key] = answers.get(key, 0) + 1

    def observe_call(self, service: str, method: str, code: str) -> None:
        """Count one answer over gRPC."""
        calls, key = self._counts.calls, f"{service} {method} {code}"
        calls[key] = calls.get(key, 0) + 1

    def share(self) -> None:
        """Leave the counts for the other processes. Those of a process that has ended stay: counters never fall."""
        if self._directory is not None:
            path = self._directory / f"{os.getpid()}.json"
            partial = path.with_suffix(".part")
            partial.write_bytes(msgspec.json.encode(self._counts))
            partial.replace(path)

    def write(self, sessions: int) -> bytes:
        """Return the counts as Prometheus reads them, those of all processes of this server."""
        # The library ends every counter's name with _total; Triton's have none.
        text = generate_latest(_Written(self.total(), sessions))
        return re.sub(rb"\b(nv_inference_\w+)_total\b", rb"\1", text)

    def total(self) -> Counts:
        """Return the counts of all processes of this server."""
        if self._directory is None:
            return self._counts
        self.share()
        agents = {name: AgentCounts.none() for name in self._counts.agents}
        total = Counts(agents)
        for path in self._directory.glob("*.json"):
            counts = msgspec.json.decode(path.read_bytes(), type=Counts)
            for name, of in counts.agents.items():
                agents[name].merge(of)
            for key, count in counts.answers.items():
                total.answers[key] = total.answers.get(key, 0) + count
            for key, count in counts.calls.items():
                total.calls[key] = total.calls.get(key, 0) + count
        return total


class _Written(Collector):
    """Counts in the library's terms."""

    def __init__(self, counts: Counts, sessions: int):
        self._counts, self._sessions = counts, sessions

    def collect(self) -> Iterator[Metric]:
        yield from _of_agents(self._counts.agents)
        requests = CounterMetricFamily("nmn_http_requests", "Requests answered.", labels=("method", "route", "status"))
        for key, count in self._counts.answers.items():
            requests.add_metric(key.split(" "), count)
        yield requests
        calls = CounterMetricFamily("nmn_grpc_requests", "RPCs answered.", labels=("service", "method", "code"))
        for key, count in self._counts.calls.items():
            calls.add_metric(key.split(" "), count)
        yield calls
        yield GaugeMetricFamily("nmn_sessions", "Sessions open now.", self._sessions)


def _of_agents(agents: Mapping[str, AgentCounts]) -> Iterator[Metric]:
    counted = {
        "request_success": ("Steps taken.", lambda of: sum(of.seconds.counts)),
        "request_failure": ("Steps refused.", lambda of: of.refused),
        "request_duration_us": ("Microseconds from a step's request to its answer.", lambda of: of.seconds.total * 1e6),
        "count": ("Environments stepped: a batch counts its rows.", lambda of: of.rows.total),
        "exec_count": ("Runs of the agent's graph.", lambda of: sum(of.rows.counts)),
        "compute_infer_duration_us": ("Microseconds in these runs.", lambda of: of.running * 1e6),
    }
    labels = ("model", "version")
    for name, (text, value) in counted.items():
        counter = CounterMetricFamily(f"nv_inference_{name}", text, labels=labels)
        for agent, of in agents.items():
            counter.add_metric((agent, VERSION), value(of))
        yield counter
    seconds = HistogramMetricFamily("nmn_step_duration_seconds", "From a step's request to its answer.", labels=labels)
    rows = HistogramMetricFamily("nmn_batch_rows", "Environments stepped in one run.", labels=labels)
    for agent, of in agents.items():
        seconds.add_metric((agent, VERSION), _buckets(SECONDS, of.seconds), of.seconds.total)
        rows.add_metric((agent, VERSION), _buckets(ROWS, of.rows), of.rows.total)
    yield from (seconds, rows)


def _buckets(bounds: tuple[float, ...], distribution: Distribution) -> list[tuple[str, float]]:
    ends = [*(str(float(bound)) for bound in bounds), "+Inf"]
    return list(zip(ends, accumulate(distribution.counts), strict=True))
