"""What Triton's clients can ask beside inferences: statistics, configurations, the index of models, settings.

Agents are those that the server was started with: models are not loaded or unloaded, settings not changed, and there is
no memory that clients share with the server. Requests for that are refused.
"""

from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from nmn_keras.runtime import OnnxAgent
from serve import protocol
from serve.bodies import read_bytes
from serve.metrics import AgentCounts
from serve.open_inference import FORM, VERSION, OpenInference, inputs_of, json_response, outputs_of
from serve.operations import Operation
from serve.problems import Problem
from serve.tensors import Refused

QUERY = msgspec.json.Decoder(protocol.RepositoryQuery)
REGIONS = list[protocol.Region]


def refuse_change(problem: Problem) -> Response:
    """Return that there is no such operation, in the protocol's form: what clients ask for would change the server."""
    details = problem.details
    reason = (
        f"{details.detail.partition('. ')[0]} is not supported: agents and settings are those that the server was "
        "started with, and tensors come within requests, not in shared memory"
    )
    return json_response(protocol.Failure(reason), details.status, problem.headers)


@dataclass(frozen=True)
class Inspection:
    """The routes of the protocol's further extensions, over what the inferences count."""

    inference: OpenInference

    def operations(self) -> list[Operation]:
        """Return what can be asked."""
        return [
            Operation("GET", "/v2/models/stats", self.show_statistics, None, protocol.Statistics, **FORM),
            *self._operations_of_model("/v2/models/{model}"),
            *self._operations_of_model("/v2/models/{model}/versions/{version}"),
            Operation(
                "POST", "/v2/repository/index", self.list_models, protocol.RepositoryQuery, list[protocol.Model], **FORM
            ),
            Operation("GET", "/v2/trace/setting", self.show_trace, None, protocol.TraceSettings, **FORM),
            Operation(
                "GET",
                "/v2/models/{model}/trace/setting",
                self.show_trace_of_model,
                None,
                protocol.TraceSettings,
                refusals=(404,),
                **FORM,
            ),
            Operation("GET", "/v2/logging", self.show_logging, None, protocol.LogSettings, **FORM),
            Operation("GET", "/v2/systemsharedmemory/status", self.list_system_regions, None, REGIONS, **FORM),
            Operation("GET", "/v2/cudasharedmemory/status", self.list_cuda_regions, None, REGIONS, **FORM),
        ]

    def _operations_of_model(self, path: str) -> list[Operation]:
        statistics, config = protocol.Statistics, protocol.ModelConfig
        return [
            Operation("GET", f"{path}/stats", self.show_statistics_of_model, None, statistics, refusals=(404,), **FORM),
            Operation("GET", f"{path}/config", self.show_config, None, config, refusals=(404,), **FORM),
        ]

    async def show_statistics(self, request: Request) -> Response:
        """Return what was counted of every agent."""
        return json_response(protocol.Statistics(self.statistics(list(self.inference.native.agents))))

    async def show_statistics_of_model(self, request: Request) -> Response:
        """Return what was counted of an agent, in all processes of the server.

        What is not measured apart (waiting, reading and writing tensors) and what there is none of (a cache) is 0.
        """
        name, _ = self.inference.find(request)
        return json_response(protocol.Statistics(self.statistics([name])))

    def statistics(self, names: list[str]) -> list[protocol.ModelStatistics]:
        """Return what was counted of some agents."""
        counts = self.inference.native.metrics.total().agents
        return [_statistics(name, counts[name]) for name in names]

    async def show_config(self, request: Request) -> Response:
        """Return an agent's configuration, as Triton would have it."""
        name, agent = self.inference.find(request)
        return json_response(self.config(name, agent))

    def config(self, name: str, agent: OnnxAgent) -> protocol.ModelConfig:
        """Return an agent's configuration."""
        idle = int(self.inference.native.ttl_seconds * 1e6)
        inputs, outputs = (
            [protocol.TensorConfig(tensor, "TYPE_FP32", [-1, size]) for tensor, size in sizes.items()]
            for sizes in (inputs_of(agent), outputs_of(agent))
        )
        return protocol.ModelConfig(name, inputs, outputs, protocol.SequenceBatching(idle))

    async def list_models(self, request: Request) -> Response:
        """List the served agents; all of them are ready."""
        body = await read_bytes(request, self.inference.native.max_body_bytes)
        try:
            QUERY.decode(body or b"{}")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise Refused(f"failed to parse the request JSON buffer: {error}") from error
        return json_response(self.index())

    def index(self) -> list[protocol.Model]:
        """Return an entry for each served agent."""
        return [protocol.Model(name, VERSION, "READY") for name in self.inference.native.agents]

    async def show_trace(self, request: Request) -> Response:
        """Return that nothing is traced."""
        return json_response(protocol.TraceSettings())

    async def show_trace_of_model(self, request: Request) -> Response:
        """Return that nothing is traced of an agent."""
        self.inference.find(request)
        return json_response(protocol.TraceSettings())

    async def show_logging(self, request: Request) -> Response:
        """Return what is logged: warnings and errors, to standard error."""
        return json_response(protocol.LogSettings())

    async def list_system_regions(self, request: Request) -> Response:
        """List the shared memory that clients have registered: there is none."""
        return json_response([])

    async def list_cuda_regions(self, request: Request) -> Response:
        """List the memory of GPUs that clients have registered: there is none."""
        return json_response([])


def _statistics(name: str, of: AgentCounts) -> protocol.ModelStatistics:
    def figure(count: int, seconds: float) -> protocol.Figure:
        return protocol.Figure(count, round(seconds * 1e9))

    none: dict[str, Any] = {part: figure(0, 0.0) for part in protocol.UNMEASURED}
    runs = sum(of.rows.counts)
    figures = protocol.InferStatistics(
        success=figure(sum(of.seconds.counts), of.seconds.total),
        fail=figure(of.refused, of.refusing),
        compute_infer=figure(runs, of.running),
        **none,
    )
    return protocol.ModelStatistics(name, VERSION, round(of.last * 1000), round(of.rows.total), runs, figures)
