"""What the Open Inference Protocol answers beside inferences."""

import msgspec


class ServerMetadata(msgspec.Struct):
    """The server's name and version, and the extensions it speaks."""

    name: str
    version: str
    extensions: list[str]


class ServerLive(msgspec.Struct):
    """Whether the process answers."""

    live: bool


class ServerReady(msgspec.Struct):
    """Whether agents can be stepped."""

    ready: bool


class ModelReady(msgspec.Struct):
    """Whether an agent can be stepped."""

    name: str
    ready: bool


class TensorMetadata(msgspec.Struct):
    """An input or output of an agent; -1 in its shape is any number of rows."""

    name: str
    datatype: str
    shape: list[int]


class ModelMetadata(msgspec.Struct):
    """An agent, its inputs and its outputs."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


class RepositoryQuery(msgspec.Struct):
    """Which models are asked for. All that there are are ready, so that `ready` changes nothing."""

    ready: bool = False


class Model(msgspec.Struct):
    """An agent of the index."""

    name: str
    version: str
    state: str
    reason: str = ""


class Figure(msgspec.Struct):
    """How often, and for how many nanoseconds in all."""

    count: int
    ns: int


UNMEASURED = ("queue", "compute_input", "compute_output", "cache_hit", "cache_miss")


class InferStatistics(msgspec.Struct, kw_only=True):
    """Requests for steps: answered, refused, and the runs of the agent's graph; the rest is 0."""

    success: Figure
    fail: Figure
    queue: Figure
    compute_input: Figure
    compute_infer: Figure
    compute_output: Figure
    cache_hit: Figure
    cache_miss: Figure


class ModelStatistics(msgspec.Struct):
    """What was counted of an agent: when it was stepped last (milliseconds since 1970), rows, runs of its graph."""

    name: str
    version: str
    last_inference: int
    inference_count: int
    execution_count: int
    inference_stats: InferStatistics
    batch_stats: list[Figure] = []


class Statistics(msgspec.Struct):
    """What was counted of agents."""

    model_stats: list[ModelStatistics]


class TensorConfig(msgspec.Struct):
    """An input or output; -1 in its dimensions is any number of rows."""

    name: str
    data_type: str
    dims: list[int]


class SequenceBatching(msgspec.Struct):
    """How long an idle sequence is kept."""

    max_sequence_idle_microseconds: int


class ModelConfig(msgspec.Struct):
    """An agent's configuration. Its tensors have their rows among their dimensions, hence `max_batch_size` 0."""

    name: str
    input: list[TensorConfig]
    output: list[TensorConfig]
    sequence_batching: SequenceBatching
    platform: str = "onnxruntime_onnx"
    backend: str = "onnxruntime"
    max_batch_size: int = 0


class TraceSettings(msgspec.Struct):
    """Nothing is traced."""

    trace_level: list[str] = msgspec.field(default_factory=lambda: ["OFF"])


class LogSettings(msgspec.Struct):
    """What is logged to standard error."""

    log_file: str = ""
    log_info: bool = False
    log_warning: bool = True
    log_error: bool = True
    log_verbose_level: int = 0
    log_format: str = "default"


class Region(msgspec.Struct):
    """Memory that clients share with the server."""

    name: str


class Failure(msgspec.Struct):
    """Why a request was refused."""

    error: str
