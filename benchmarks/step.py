"""What one step costs: Keras against onnxruntime, and onnxruntime against doing nothing.

    python benchmarks/step.py
    python benchmarks/step.py --agent b1-rnn --rounds 30

Three calls are timed at batch 1, in rounds of all three one after another, so that whatever else
the machine does hits all of them: `ActorCritic.act`, `OnnxAgent.step`, and an onnxruntime session
whose graph is one Identity; all on one core. A ratio is taken within each round; the table shows its median and
range.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
import onnxruntime
from keras.config import backend
from onnx import TensorProto, helper

from nmn_keras import zoo
from nmn_keras.runtime import OnnxAgent

Call = Callable[[], object]


def main() -> None:
    """Measure and print a table."""
    arguments = parse_arguments()
    if hasattr(os, "sched_setaffinity"):  # moving between cores costs more than a step
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    onnx_agent = zoo.load(arguments.agent, runtime="onnx", zoo=arguments.zoo)
    keras_agent = zoo.load(arguments.agent, runtime="keras", zoo=arguments.zoo)
    inputs = draw_inputs(onnx_agent)
    calls: dict[str, tuple[Call, int]] = {  # what is called, and how often in a round
        "keras": (lambda: keras_agent.act(*inputs), arguments.calls // 20),
        "onnx": (lambda: onnx_agent.step(*inputs), arguments.calls),
        "identity": (identity_call(inputs[0]), arguments.calls),
    }
    rounds = measure(calls, arguments.rounds)
    print_table(arguments.agent, rounds)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", default="b1-nmn", help="published agent (%(default)s)")
    parser.add_argument("--zoo", help="directory of published agents")
    parser.add_argument("--rounds", type=int, default=15, help="(%(default)s)")
    parser.add_argument("--calls", type=int, default=2000, help="in a round (%(default)s)")
    return parser.parse_args()


def draw_inputs(agent: OnnxAgent) -> list[np.ndarray]:
    """One step's inputs at batch 1."""
    rng = np.random.default_rng(0)
    sizes = (agent.observation_size, agent.action_size, 1, agent.state_size)
    return [rng.uniform(-1, 1, (1, size)).astype(np.float32) for size in sizes]


def identity_call(observation: np.ndarray) -> Call:
    """Return a call of the smallest possible session, under the options that `OnnxAgent` has."""
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", observation.shape[1]]) for name in ("x", "y")
    )
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "floor", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(["y"], {"x": observation})


def measure(calls: dict[str, tuple[Call, int]], rounds: int) -> dict[str, np.ndarray]:
    """Return the seconds per call, (rounds,) for each; the first round warms up and is dropped."""
    seconds = [{name: time_call(call, count) for name, (call, count) in calls.items()} for _ in range(rounds + 1)]
    return {name: np.array([one[name] for one in seconds[1:]]) for name in calls}


def time_call(call: Call, count: int) -> float:
    begin = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - begin) / count


def print_table(agent: str, rounds: dict[str, np.ndarray]) -> None:
    keras, onnx, identity = rounds["keras"], rounds["onnx"], rounds["identity"]
    rows = [
        ("`ActorCritic.act`", keras * 1e6, "microseconds"),
        ("`OnnxAgent.step`", onnx * 1e6, "microseconds"),
        ("onnxruntime, one Identity", identity * 1e6, "microseconds"),
        ("`ActorCritic.act` / `OnnxAgent.step`", keras / onnx, "times"),
        ("`OnnxAgent.step` / Identity", onnx / identity, "times"),
    ]
    print(f"    python {' '.join(sys.argv)}\n")
    print(f"One step of {agent}, batch 1, Keras on {backend()}, {len(keras)} rounds\n")
    print("| | median | min..max |\n|---|---|---|")
    for what, values, unit in rows:
        print(f"| {what} | {np.median(values):.1f} {unit} | {spread(values)} |")


def spread(values: Sequence[float]) -> str:
    return f"{min(values):.1f}..{max(values):.1f}"


if __name__ == "__main__":
    main()
