"""`inference.GRPCInferenceService`: the protocol of `open_inference.py` in gRPC's messages."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import msgspec
from google.protobuf.json_format import ParseDict

from nmn_keras import __version__
from serve import protocol
from serve.inspection import Inspection
from serve.open_inference import EXTENSIONS, SERVER, VERSION
from serve.problems import Problem
from serve.rpc import tensors
from serve.rpc.calls import Call, finish, problem_of, text_of
from serve.rpc.schema import message
from serve.tensors import Refused

PUBLIC = ("ServerLive", "ServerReady")
"""Answered without an API key."""
MOST_IN_FLIGHT = 256
"""Steps of one stream that are begun and not yet answered; with more the server reads on later."""
ENDING = "triton_grpc_error"
"""Metadata of a stream whose client wants it to end with the status of the first refusal."""
SETTINGS = {bool: "bool_param", int: "uint32_param", str: "string_param"}
"""Where a log setting's value is, by its type."""


def reply(name: str, content: Any) -> Any:
    """Return a message of the package `inference`, of its JSON form or what becomes that."""
    return ParseDict(msgspec.to_builtins(content), message(f"inference.{name}")())


STREAM_RESPONSE = message("inference.ModelStreamInferResponse")


class InferenceService:
    """The service's methods under their names, each with the request and its call.

    Args:
        inspection: with its `inference`, the same over HTTP.
        check: raises `Problem` if the server is not ready.
    """

    def __init__(self, inspection: Inspection, check: Callable[[], Awaitable[None]]):
        self._inspection = inspection
        self._inference = inspection.inference
        self._native = inspection.inference.native
        self._check = check
        self._readers: set[asyncio.Task[None]] = set()
        self._stopping = False

    def stop(self) -> None:
        """Read no more of any stream; what was read is answered."""
        self._stopping = True
        for reader in self._readers:
            reader.cancel()

    async def ServerLive(self, request: Any, call: Call) -> Any:
        """Whether the process answers."""
        return reply("ServerLiveResponse", {"live": True})

    async def ServerReady(self, request: Any, call: Call) -> Any:
        """Whether agents are loaded and have stepped, and the store answers."""
        try:
            await self._check()
        except Problem:
            return reply("ServerReadyResponse", {"ready": False})
        return reply("ServerReadyResponse", {"ready": True})

    async def ModelReady(self, request: Any, call: Call) -> Any:
        """Whether an agent can be stepped; as from Triton, an unknown one cannot."""
        known = request.name in self._native.agents and request.version in ("", VERSION)
        return reply("ModelReadyResponse", {"ready": known})

    async def ServerMetadata(self, request: Any, call: Call) -> Any:
        """The server's name, and the extensions it speaks."""
        extensions = [name for name in EXTENSIONS if name != "binary_tensor_data"]  # HTTP's
        return reply("ServerMetadataResponse", {"name": SERVER, "version": __version__, "extensions": extensions})

    async def ModelMetadata(self, request: Any, call: Call) -> Any:
        """An agent's inputs and outputs."""
        metadata = self._inference.metadata(*self._find(request.name, request.version))
        return reply("ModelMetadataResponse", metadata)

    async def ModelConfig(self, request: Any, call: Call) -> Any:
        """An agent's configuration."""
        config = self._inspection.config(*self._find(request.name, request.version))
        return reply("ModelConfigResponse", {"config": config})

    async def ModelStatistics(self, request: Any, call: Call) -> Any:
        """What was counted of an agent, or of each."""
        names = [self._find(request.name, request.version)[0]] if request.name else list(self._native.agents)
        return reply("ModelStatisticsResponse", protocol.Statistics(self._inspection.statistics(names)))

    async def RepositoryIndex(self, request: Any, call: Call) -> Any:
        """The served agents."""
        return reply("RepositoryIndexResponse", {"models": self._inspection.index()})

    async def ModelInfer(self, request: Any, call: Call) -> Any:
        """Take a step, stateless or of a sequence."""
        return await finish(self._infer(request, call.owner))

    async def ModelStreamInfer(self, requests: Any, call: Call) -> None:
        """Take steps as they come, and answer them in their order.

        Steps of different sequences that come together are taken together, those of one sequence one after another.
        A refused one is answered by its error, and the stream goes on; with the metadata `triton_grpc_error: true` it
        ends with the error's status.
        """
        ending = call.metadata.get(ENDING) == "true"
        answers: asyncio.Queue[asyncio.Task[Any] | None] = asyncio.Queue(MOST_IN_FLIGHT)
        reader = asyncio.create_task(self._read(call, answers, ending))
        self._readers.add(reader)
        try:
            while (answer := await answers.get()) is not None:
                await call.context.write(await asyncio.shield(answer))
        finally:
            self._readers.discard(reader)
            reader.cancel()
        if self._stopping:
            raise Problem(503, "stopping", "The server is stopping. Connect again.")

    async def _read(self, call: Call, answers: asyncio.Queue[asyncio.Task[Any] | None], ending: bool) -> None:
        """Begin each step as it is read."""
        answer = self._stream_answer if ending else self._answer_or_error
        try:
            while (request := await call.context.read()) is not grpc.aio.EOF:
                await answers.put(asyncio.create_task(answer(request, call.owner)))
        finally:
            await answers.put(None)

    async def _answer_or_error(self, request: Any, owner: str) -> Any:
        try:
            return await self._stream_answer(request, owner)
        except Exception as error:
            response = STREAM_RESPONSE(error_message=text_of(problem_of(error)))
            if not isinstance(request, Problem):
                response.infer_response.id = request.id
                response.infer_response.model_name = request.model_name
            return response

    async def _stream_answer(self, request: Any, owner: str) -> Any:
        response = STREAM_RESPONSE(infer_response=await self._infer(request, owner))
        response.infer_response.parameters["triton_final_response"].bool_param = True
        return response

    async def _infer(self, request: Any, owner: str) -> Any:
        if isinstance(request, Problem):  # it could not be read
            raise request
        name, _ = self._find(request.model_name, request.model_version)
        asked, arrays = tensors.read(request)
        outputs = await self._inference.run(name, asked, arrays, owner)
        return tensors.write(name, VERSION, asked, outputs, tensors.wants_raw(request, asked))

    def _find(self, name: str, version: str) -> Any:
        return self._inference.find_version(name, version or VERSION)

    async def SystemSharedMemoryStatus(self, request: Any, call: Call) -> Any:
        """No region is registered."""
        return _no_regions("System", request)

    async def CudaSharedMemoryStatus(self, request: Any, call: Call) -> Any:
        """No region is registered."""
        return _no_regions("Cuda", request)

    async def SystemSharedMemoryUnregister(self, request: Any, call: Call) -> Any:
        """There is nothing to do, as from Triton for a region that is not there."""
        return reply("SystemSharedMemoryUnregisterResponse", {})

    async def CudaSharedMemoryUnregister(self, request: Any, call: Call) -> Any:
        """There is nothing to do, as from Triton for a region that is not there."""
        return reply("CudaSharedMemoryUnregisterResponse", {})

    async def SystemSharedMemoryRegister(self, request: Any, call: Call) -> Any:
        """Not done here."""
        raise Refused("shared memory is not supported: send tensors in the request", 501)

    CudaSharedMemoryRegister = SystemSharedMemoryRegister

    async def RepositoryModelLoad(self, request: Any, call: Call) -> Any:
        """Not done here."""
        raise Refused("models are neither loaded nor unloaded while the server runs: start it with --agents", 501)

    RepositoryModelUnload = RepositoryModelLoad

    async def TraceSetting(self, request: Any, call: Call) -> Any:
        """Nothing is traced."""
        if request.settings:
            raise Refused("tracing is not supported", 501)
        traced = msgspec.structs.asdict(protocol.TraceSettings())
        return reply("TraceSettingResponse", {"settings": {name: {"value": of} for name, of in traced.items()}})

    async def LogSettings(self, request: Any, call: Call) -> Any:
        """What is logged."""
        if request.settings:
            raise Refused("log settings are those that the server was started with", 501)
        logged = msgspec.structs.asdict(protocol.LogSettings())
        settings = {name: {SETTINGS[type(value)]: value} for name, value in logged.items()}
        return reply("LogSettingsResponse", {"settings": settings})


def _no_regions(kind: str, request: Any) -> Any:
    if request.name:
        raise Refused(f"Unable to find {kind.lower()} shared memory region: '{request.name}'", 404)
    return reply(f"{kind}SharedMemoryStatusResponse", {})
