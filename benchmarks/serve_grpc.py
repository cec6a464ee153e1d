"""A step over gRPC (one call each, and over one stream), over HTTP and over one WebSocket, in one run.

    python benchmarks/serve_grpc.py
    python benchmarks/serve_grpc.py --agent b1-rnn --rounds 15

One worker on one core, the client on another. One session each, one step in flight. HTTP and WebSocket are driven by
bare asyncio protocols (`load.py`), gRPC by grpc.aio, as nobody speaks HTTP/2 by hand: its client costs more, see the
column that says how busy it is. Triton's client, as users have it, compares its own two protocols. In each round all
are driven one after another, for as long each. Ratios are taken within each round.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import grpc
import numpy as np
from clients import request
from load import (
    WARM_UP_SECONDS,
    Round,
    WebSocketConnection,
    alternate,
    draw_steps,
    masked_frame,
    measure,
    on_own_core,
    print_table,
)
from serve_websocket import open_stream
from servers import ANSWER_SECONDS, HOST, Failed, clearly, free_port, post, serving

from nmn_keras import zoo
from serve.rpc.schema import SERVICE, message

REQUEST, RESPONSE = message("inference.ModelInferRequest"), message("inference.ModelInferResponse")
STREAM_RESPONSE = message("inference.ModelStreamInferResponse")
SEQUENCE = 1


def main() -> None:
    arguments = parse_arguments()
    print(f"    python {' '.join(sys.argv)}\n")
    agent, port, grpc_port = arguments.agent, free_port(), free_port()
    steps = draw_steps(zoo.load(agent, runtime="onnx").observation_size, 1)[0]
    command = [sys.executable, "-m", "serve", "--agents", agent, "--port", str(port), "--grpc-port", str(grpc_port)]
    with serving(command, lambda: post(port, f"/v1/agents/{agent}/sessions")):
        sides = make_sides(agent, steps, port, grpc_port, arguments.seconds)
        rounds = alternate(sides, arguments.rounds)
    print(f"{agent}, one session each, one step in flight, {arguments.rounds} rounds\n")
    print_table(rounds, over="HTTP", unit="steps")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", default="b3-nmn", help="published agent (%(default)s)")
    parser.add_argument("--rounds", type=int, default=9, help="(%(default)s)")
    parser.add_argument("--seconds", type=float, default=1.5, help="of each in a round (%(default)s)")
    return parser.parse_args()


def make_sides(
    agent: str, steps: list[dict[str, Any]], port: int, grpc_port: int, seconds: float
) -> dict[str, Callable[[], Round]]:
    """Every way to take the same steps."""
    session = json.loads(post(port, f"/v1/agents/{agent}/sessions"))["session"]
    bodies = [json.dumps(step).encode() for step in steps]
    by_http = [[request("POST", f"/v1/sessions/{session}/step", body) for body in bodies]]
    frames = [[masked_frame(body) for body in bodies]]
    connect = partial(open_stream, f"/v1/agents/{agent}/stream")
    messages = [infer_request(agent, step) for step in steps]
    return {
        "HTTP": partial(measure, port, by_http, seconds),
        "WebSocket": partial(measure, port, frames, seconds, WebSocketConnection, connect),
        "gRPC": partial(measure_calls, grpc_port, messages, seconds, unary),
        "gRPC, one stream": partial(measure_calls, grpc_port, messages, seconds, streamed),
        "Triton's client, HTTP": partial(measure_triton, "http", port, agent, steps, seconds),
        "Triton's client, gRPC": partial(measure_triton, "grpc", grpc_port, agent, steps, seconds),
    }


def infer_request(agent: str, step: dict[str, Any]) -> Any:
    """A step of the sequence; it takes the action alone out, as the native answers do."""
    made = REQUEST(model_name=agent)
    for name, values in (("observation", step["observation"]), ("prev_reward", [step["reward"]])):
        made.inputs.add(name=name, datatype="FP32", shape=[1, len(values)])
        made.raw_input_contents.append(np.array(values, "<f4").tobytes())
    made.outputs.add(name="action")
    made.parameters["sequence_id"].int64_param = SEQUENCE
    return made


def started(first: Any) -> Any:
    """The same step, the sequence begun with it; `draw_steps` gives the first reward as 0."""
    made = REQUEST()
    made.CopyFrom(first)
    made.parameters["sequence_start"].bool_param = True
    return made


Step = Callable[[Any], Awaitable[Any]]


async def unary(channel: grpc.aio.Channel) -> Step:
    """A call for each step."""
    return channel.unary_unary(f"/{SERVICE}/ModelInfer", REQUEST.SerializeToString, RESPONSE.FromString)


async def streamed(channel: grpc.aio.Channel) -> Step:
    """All steps over one stream."""
    path = f"/{SERVICE}/ModelStreamInfer"
    stream = channel.stream_stream(path, REQUEST.SerializeToString, STREAM_RESPONSE.FromString)()

    async def step(sent: Any) -> Any:
        await stream.write(sent)
        answer = await stream.read()
        if answer.error_message:
            raise Failed(f"A step was refused: {answer.error_message}")
        return answer.infer_response

    return step


def measure_calls(port: int, messages: list[Any], seconds: float, way: Callable[[Any], Awaitable[Step]]) -> Round:
    """Drive the server over gRPC for one round."""

    async def drive() -> Round:
        async with grpc.aio.insecure_channel(f"{HOST}:{port}") as channel:
            step = await way(channel)
            await step(started(messages[0]))
            return await timed(step, messages, seconds)

    with on_own_core(), failing():
        return asyncio.run(asyncio.wait_for(drive(), seconds + ANSWER_SECONDS))


async def timed(step: Step, messages: list[Any], seconds: float) -> Round:
    """Take steps one after another."""
    latencies: list[float] = []
    computed, begin = 0.0, time.perf_counter()
    counted_from, index = begin + WARM_UP_SECONDS, 0
    while (sent := time.perf_counter()) < counted_from + seconds:
        if not latencies:
            computed = time.process_time()
        answer = await step(messages[index])
        index = (index + 1) % len(messages)
        if not answer.raw_output_contents:
            raise Failed("An answer had no action.")
        if sent > counted_from:
            latencies.append(time.perf_counter() - sent)
    return summary(latencies, (time.process_time() - computed) / seconds)


def measure_triton(protocol: str, port: int, agent: str, steps: list[dict[str, Any]], seconds: float) -> Round:
    """Drive the server by Triton's client, as its users do, for one round."""
    import importlib

    module = importlib.import_module(f"tritonclient.{protocol}")

    def tensors(step: dict[str, Any]) -> list[Any]:
        made = []
        for name, values in (("observation", step["observation"]), ("prev_reward", [step["reward"]])):
            made.append(module.InferInput(name, [1, len(values)], "FP32"))
            made[-1].set_data_from_numpy(np.array([values], np.float32))
        return made

    with on_own_core(), failing(), module.InferenceServerClient(f"{HOST}:{port}") as client:
        wanted = [module.InferRequestedOutput("action")]
        client.infer(agent, tensors(steps[0]), outputs=wanted, sequence_id=2, sequence_start=True)

        async def step(sent: dict[str, Any]) -> Any:
            result = client.infer(agent, tensors(sent), outputs=wanted, sequence_id=2)
            result.as_numpy("action")
            return Answered

        return asyncio.run(timed(step, steps, seconds))


class Answered:
    """What `timed` asks of an answer."""

    raw_output_contents = True


def summary(latencies: list[float], busy: float) -> Round:
    if not latencies:
        raise Failed("No step was answered.")
    p50, p99 = np.quantile(latencies, [0.5, 0.99])
    return Round(1 / statistics.fmean(latencies), float(p50), float(p99), busy)


@contextmanager
def failing() -> Iterator[None]:
    """Make of what is no answer what the benchmarks report."""
    try:
        yield
    except (grpc.RpcError, TimeoutError) as error:
        raise Failed(f"A step was not answered: {error!r}") from error


if __name__ == "__main__":
    clearly(main)
