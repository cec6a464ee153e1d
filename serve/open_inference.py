"""The Open Inference Protocol, version 2, with Triton's extensions for sequences and binary tensors.

Without a `sequence_id` an inference is stateless: four inputs in, every output out, `state_out` the next `state_in`.
With one the server keeps the memory: `observation` alone, from the second step on with `prev_reward`, and with
`prev_action` if another action was played than the one answered. A client that always sends all inputs sends zeros as
`prev_action` and `prev_reward` at the start, and as `state_in` the last `state_out`, or zeros.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from nmn_keras import __version__
from nmn_keras.runtime import InvalidInput, OnnxAgent
from serve import messages, protocol, tensors
from serve.bodies import read_bytes
from serve.native import Native
from serve.operations import Operation
from serve.problems import Problem
from serve.rounds import Plan
from serve.sessions import Session, layout_of
from serve.steps import plan_step
from serve.tensors import HEADER, InferRequest, Refused

SERVER = "nmn_keras"
VERSION = "1"
EXTENSIONS = ("sequence", "sequence(string_id)", "binary_tensor_data", "model_configuration", "statistics")
MEMORY = ("prev_action", "prev_reward", "state_in")
MEDIA_TYPES = ("application/json", "application/octet-stream")
BINARY = {
    HEADER: Annotated[int, msgspec.Meta(ge=0, description="Length of the JSON, if binary tensors follow it.")],
}
STRING_ID_BYTES = 128
"""Longest string that Triton takes for a sequence id."""


def refuse(problem: Problem) -> Response:
    """Return a problem in the protocol's form, a JSON object with the member `error`."""
    path = f" (at {problem.details.path})" if problem.details.path else ""
    status = 400 if problem.details.status == 422 else problem.details.status
    return json_response(protocol.Failure(problem.details.detail + path), status, problem.headers)


def json_response(message: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a message, or a list of some."""
    return Response(msgspec.json.encode(message), status, headers, media_type="application/json")


FORM: dict[str, Any] = {"refuse": refuse, "failure": protocol.Failure}
"""How the protocol puts what went wrong."""


@dataclass(frozen=True)
class OpenInference:
    """The routes under /v2, over the agents and the store of the native API."""

    native: Native

    def operations(self) -> list[Operation]:
        """Return what can be asked, what is asked most first."""
        live, ready = protocol.ServerLive, protocol.ServerReady
        health: dict[str, Any] = {"public": True, "refuse": refuse, "failure": ready}
        return [
            *self._operations_of_model("/v2/models/{model}"),
            *self._operations_of_model("/v2/models/{model}/versions/{version}"),
            Operation("GET", "/v2/health/live", self.is_server_live, None, live, **health),
            Operation("GET", "/v2/health/ready", self.is_server_ready, None, ready, refusals=(503,), **health),
            Operation("GET", "/v2", self.show_server, None, protocol.ServerMetadata, **FORM),
        ]

    def _operations_of_model(self, path: str) -> list[Operation]:
        observation = self.native.example_observation()
        tensor = {"name": "observation", "shape": [1, len(observation)], "datatype": "FP32", "data": observation}
        return [
            Operation(
                "POST",
                f"{path}/infer",
                self.infer,
                tensors.InferRequest,
                tensors.InferAnswer,
                headers=BINARY,
                takes=MEDIA_TYPES,
                gives=MEDIA_TYPES,
                refusals=(404, 503),
                example={"inputs": [tensor], "parameters": {"sequence_id": 42, "sequence_start": True}},
                **FORM,
            ),
            Operation("GET", f"{path}/ready", self.is_model_ready, None, protocol.ModelReady, refusals=(404,), **FORM),
            Operation("GET", path, self.show_model, None, protocol.ModelMetadata, refusals=(404,), **FORM),
        ]

    async def show_server(self, request: Request) -> Response:
        """Name the server and the extensions it speaks."""
        return json_response(protocol.ServerMetadata(SERVER, __version__, [*EXTENSIONS]))

    async def is_server_live(self, request: Request) -> Response:
        """Whether the process answers."""
        return json_response(protocol.ServerLive(True))

    async def is_server_ready(self, request: Request) -> Response:
        """Whether agents are loaded and have stepped."""
        return json_response(protocol.ServerReady(request.app.state.ready), 200 if request.app.state.ready else 503)

    async def is_model_ready(self, request: Request) -> Response:
        """Whether an agent can be stepped."""
        name, _ = self.find(request)
        return json_response(protocol.ModelReady(name, True))

    async def show_model(self, request: Request) -> Response:
        """Show an agent's inputs and outputs."""
        return json_response(self.metadata(*self.find(request)))

    def metadata(self, name: str, agent: OnnxAgent) -> protocol.ModelMetadata:
        """Return what is said of an agent."""
        inputs, outputs = (
            [protocol.TensorMetadata(tensor, "FP32", [-1, size]) for tensor, size in sizes.items()]
            for sizes in (inputs_of(agent), outputs_of(agent))
        )
        return protocol.ModelMetadata(name, [VERSION], "onnxruntime_onnx", inputs, outputs)

    async def infer(self, request: Request) -> Response:
        """Take a step, stateless or of a sequence.

        Tensors that are not in the JSON follow it, little-endian; the header `Inference-Header-Content-Length` of the
        request, or of the answer, then says where the JSON ends.
        """
        name, _ = self.find(request)
        body = await read_bytes(request, self.native.max_body_bytes)
        message, arrays = tensors.read(body, request.headers)
        outputs = await self.run(name, message, arrays, request.scope["owner"])
        return tensors.write(name, VERSION, message, outputs, request.headers.get("accept-encoding", ""))

    async def run(
        self, name: str, message: InferRequest, arrays: Mapping[str, np.ndarray], owner: str
    ) -> dict[str, np.ndarray]:
        """Take the step that a message asks for, whatever carried it, and return every output.

        Raises:
            Problem: it is refused.
        """
        agent = self.native.agents[name]
        unknown = [wanted.name for wanted in message.outputs if wanted.name not in outputs_of(agent)]
        if unknown:
            raise Refused(f"unexpected inference output '{unknown[0]}' for model '{name}'")
        _check_inputs(name, agent, arrays)
        sequence = _sequence_id(message)
        if sequence is None:
            with self.native.metrics.observing_run(name, len(arrays.get("observation", ()))):
                return _step_statelessly(name, agent, arrays)
        return await self._step_sequence(name, sequence, message.parameters, arrays, owner)

    def find(self, request: Request) -> tuple[str, OnnxAgent]:
        """Return the agent that a path names, and its name."""
        return self.find_version(request.path_params["model"], request.path_params.get("version", VERSION))

    def find_version(self, name: str, asked: str) -> tuple[str, OnnxAgent]:
        """Return an agent and its name.

        Raises:
            Refused: 404, no such agent, or version of it, is served.
        """
        if name not in self.native.agents or asked != VERSION:
            served = ", ".join(self.native.agents)
            raise Refused(
                f"Request for unknown model: '{name}' version {asked} is not found. Served, each in version {VERSION}: "
                f"{served}",
                404,
            )
        return name, self.native.agents[name]

    async def _step_sequence(
        self,
        name: str,
        sequence: int | str,
        parameters: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
        owner: str,
    ) -> dict[str, np.ndarray]:
        """Take one step of a sequence; begin or end it as its flags say."""
        agent = self.native.agents[name]
        start, end = (_flag(parameters, f"sequence_{which}") for which in ("start", "end"))
        if "observation" not in arrays:
            raise Refused(f"a sequence of model '{name}' takes the input 'observation' at every step")
        # Ids are chosen by clients: those of one key cannot reach another key's sequence.
        key = f"sequence/{owner}/{name}/{type(sequence).__name__}/{sequence}"
        fresh = self._begin(name, parameters, arrays, owner) if start else None

        def act(session: Session) -> Plan:
            _check_state(session, agent, arrays.get("state_in"))
            return plan_step(session, agent, _message(session, arrays)) or session

        begun, taken = time.perf_counter(), False
        try:
            after = await self.native.rounds.take(key, owner, act, fresh=fresh, end=end)
            taken = True
        except Problem as problem:
            if problem.details.status not in (404, 410):
                raise
            raise Refused(
                f"inference request for sequence {sequence} to model '{name}' must specify the START flag on the first "
                "request of the sequence"
            ) from problem
        finally:
            self.native.metrics.observe_step(name, taken, time.perf_counter() - begun)
        return layout_of(agent).answered(after)

    def _begin(self, name: str, parameters: Mapping[str, Any], arrays: Mapping[str, np.ndarray], owner: str) -> Session:
        chosen = {key: parameters[key] for key in ("deterministic", "seed") if key in parameters}
        try:
            message = msgspec.convert({**chosen, "batch": len(arrays["observation"])}, messages.Create)
        except msgspec.ValidationError as error:
            raise Refused(f"Unable to parse the parameters of the sequence: {error}") from error
        return self.native.fresh(name, message, owner)


def inputs_of(agent: OnnxAgent) -> dict[str, int]:
    """Return the numbers of each input."""
    return {
        "observation": agent.observation_size,
        "prev_action": agent.action_size,
        "prev_reward": 1,
        "state_in": agent.state_size,
    }


def outputs_of(agent: OnnxAgent) -> dict[str, int]:
    """Return the numbers of each output."""
    signal = {"z": agent.signal_size} if agent.signal_size else {}
    policy = {name: agent.output_sizes[name] for name in ("action", *agent.policy_outputs)}
    return {**policy, **signal, "state_out": agent.state_size}


def _check_inputs(name: str, agent: OnnxAgent, arrays: Mapping[str, np.ndarray]) -> None:
    for tensor, array in arrays.items():
        if tensor not in inputs_of(agent):
            raise Refused(f"unexpected inference input '{tensor}' for model '{name}'")
        expected = [-1, inputs_of(agent)[tensor]]
        if array.ndim != 2 or array.shape[1] != expected[1] or not len(array):
            raise Refused(
                f"unexpected shape for input '{tensor}' for model '{name}'. Expected {expected}, got {[*array.shape]}"
            )


def _sequence_id(message: InferRequest) -> int | str | None:
    """The sequence that the request belongs to; 0 and "" are none."""
    found = message.parameters.get("sequence_id", 0)
    number = isinstance(found, int) and not isinstance(found, bool) and 0 <= found < 2**64
    text = isinstance(found, str) and len(found.encode()) <= STRING_ID_BYTES
    if not (number or text):
        raise Refused(
            f"Unable to parse 'sequence_id': an unsigned 64-bit integer or a string of at most {STRING_ID_BYTES} bytes "
            f"is needed. Received: {found!r}"
        )
    return found or None


def _flag(parameters: Mapping[str, Any], name: str) -> bool:
    flag = parameters.get(name, False)
    if not isinstance(flag, bool):
        raise Refused(f"Unable to parse '{name}': a boolean is needed. Received: {flag!r}")
    return flag


def _check_state(session: Session, agent: OnnxAgent, state: np.ndarray | None) -> None:
    """The server keeps a sequence's state: what is sent all the same must be that, or zeros."""
    if state is None or not np.any(state):
        return
    kept = layout_of(agent).answered(session)["state_out"]
    if not np.array_equal(state, kept):
        raise Refused(
            "the server keeps the state of a sequence: leave input 'state_in' out, or send zeros or the last "
            "'state_out'. Received another state"
        )


def _message(session: Session, arrays: Mapping[str, np.ndarray]) -> messages.Step[Any, Any]:
    """The tensors as a step of the native API."""
    for name, array in arrays.items():
        if len(array) != session.batch:
            raise Refused(
                f"unexpected shape for input '{name}'. Expected {[session.batch, array.shape[1]]}, as many rows as the "
                f"sequence began with, got {[*array.shape]}"
            )
    rows = {name: array.tolist() for name, array in arrays.items()}
    if "prev_reward" in rows:
        rows["prev_reward"] = [row[0] for row in rows["prev_reward"]]
    if session.batch == 1:
        rows = {name: values[0] for name, values in rows.items()}
    return messages.Step(rows["observation"], rows.get("prev_reward"), rows.get("prev_action"))


def _step_statelessly(name: str, agent: OnnxAgent, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    if missing := [tensor for tensor in inputs_of(agent) if tensor not in arrays]:
        raise Refused(
            f"expected {len(inputs_of(agent))} inputs but got {len(arrays)} inputs for model '{name}'. Got input(s) "
            f"{[*arrays]}, but missing required input(s) {missing}. With a sequence_id 'observation' is enough: the "
            "server then keeps the state"
        )
    try:
        return agent.decide(*agent.check(arrays["observation"], *(arrays[tensor] for tensor in MEMORY)))
    except InvalidInput as error:
        raise Refused(f"input '{error.field}' {error.reason}" if error.field else error.reason) from error
