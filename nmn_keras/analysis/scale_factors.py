"""The scale factors of an agent's neurons, from z and the weights in its published `policy.onnx`."""

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper


@dataclass(frozen=True)
class ScaleFactors:
    """Scale factors of one modulated layer: linear in z (the gain of `nmn_keras.layers.NMNDense`)."""

    kernel: np.ndarray
    """(Z, units)."""
    offset: np.ndarray
    """(units,), the factors at z = 0."""

    def __call__(self, z: np.ndarray) -> np.ndarray:
        """The factors (..., units) under signals z (..., Z)."""
        return z @ self.kernel + self.offset


def read_scale_factors(model: bytes) -> list[ScaleFactors]:
    """Read the modulated layers of a published graph, in their order, the output layer last.

    The graph computes scales and shifts of all layers at once, as Split(z @ kernel + bias): scale of layer 1, shift of
    layer 1, scale of layer 2, ... The kernel is found by following `z`, whose name is part of the file's contract. The
    live page does the same (`serve/page/js/modulation.js`).

    Args:
        model: the bytes of a `policy.onnx`.

    Raises:
        ValueError: the graph modulates nothing, or in another way.
    """
    graph = onnx.load_model_from_string(model).graph
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    product = _node(graph, "MatMul", "z")
    total = product and _node(graph, "Add", product.output[0])
    split = total and _node(graph, "Split", total.output[0])
    if product is None or total is None or split is None:
        raise ValueError(
            "The graph has no scale factors to read. Accepted is an agent of kind 'nmn' as `nmn export` writes it: "
            f"Split(z @ kernel + bias). Received: {'z but no such nodes' if product else 'a graph without z'}"
        )
    kernel = constants[product.input[1]]
    offset = constants[next(name for name in total.input if name in constants)]
    ends = np.cumsum(constants[split.input[1]])[:-1]
    blocks = zip(np.split(kernel, ends, axis=1), np.split(offset, ends), strict=True)
    return [ScaleFactors(*block) for block in list(blocks)[::2]]


def _node(graph: onnx.GraphProto, kind: str, read: str) -> onnx.NodeProto | None:
    """The node of a kind that reads a tensor."""
    return next((node for node in graph.node if node.op_type == kind and read in node.input), None)
