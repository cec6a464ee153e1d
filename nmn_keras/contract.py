"""The ONNX contract, version 1: what a `policy.onnx` holds and how it is checked.

One step of an agent, float32, `[batch, size]` tensors, its memory passed in and out. Whoever writes
or reads such a file takes the names from here.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import onnxruntime

CONTRACT_VERSION = "1"
INPUTS = ("observation", "prev_action", "prev_reward", "state_in")
POLICY_OUTPUTS = {
    "gaussian": ("action_mean", "action_log_std"),
    "direction": ("action_mean", "action_log_std"),
    "categorical": ("logits",),
}
"""What tells of the policy, to sample from it, by action head."""
OPTIONAL_OUTPUTS = ("z", "value")
GOLDEN_STEPS = 200
"""Steps in a file's `golden.npz`."""
KINDS = ("nmn", "rnn", "film", "hyper")
"""Kinds of network; an "nmn", and no other, has the output `z`."""
WORDS = ("contract_version", "agent", "kind", "env_id", "action_head")
JSON_TYPES = {
    "env_kwargs": dict,
    "observation_low": list,
    "observation_high": list,
    "action_low": list,
    "action_high": list,
    "action_scale": list,
    "action_offset": list,
    "signal_size": int,
    "state_layout": list,
    "initial_state": list,
}
OF_HEADS = {"gaussian": (), "direction": ("action_period",), "categorical": ("action_sizes",)}
"""Further metadata, lists, that an action head requires."""


def outputs_of(head: str) -> tuple[str, ...]:
    """Return the required outputs of an agent with that action head, in order."""
    return ("action", *POLICY_OUTPUTS[head], "state_out")


@dataclass(frozen=True)
class Contract:
    """What a file says about itself, checked."""

    metadata: dict[str, Any]
    """Its `metadata_props`; lists, dictionaries and numbers decoded."""
    inputs: dict[str, int]
    """The width of each input."""
    outputs: dict[str, int]
    """The width of each output, in the file's order."""


def read_contract(session: onnxruntime.InferenceSession, source: str) -> Contract:
    """Return the contract that an opened model fulfils.

    Args:
        session: the opened model.
        source: what to call it in errors.

    Raises:
        ValueError: the model does not follow contract version 1.
    """
    metadata = _decode_metadata(session.get_modelmeta().custom_metadata_map, source)
    inputs, outputs = _check_tensors(session, outputs_of(metadata["action_head"]), source)
    # The first files of this version do not say that there is no period.
    metadata.setdefault("action_period", [None] * outputs["action"])
    _check_metadata(metadata, inputs, outputs, source)
    return Contract(metadata, inputs, outputs)


def _decode_metadata(raw: Mapping[str, str], source: str) -> dict[str, Any]:
    """Decode `metadata_props`, in which everything but words is written as JSON."""
    if raw.get("contract_version") != CONTRACT_VERSION:
        raise ValueError(
            "The model is no agent that this version can step. Accepted is "
            f"`contract_version` {CONTRACT_VERSION!r} in its metadata. "
            f"Received: {raw.get('contract_version')!r} in {source}"
        )
    head = raw.get("action_head", "gaussian")
    if head not in OF_HEADS:
        raise ValueError(
            "The agent has an action head that this version does not know. "
            f"Accepted are {', '.join(OF_HEADS)}. Received: {head!r} in {source}"
        )
    required = (*WORDS, *JSON_TYPES, *OF_HEADS[head])
    missing = [key for key in required if key not in raw]
    if missing:
        raise ValueError(
            f"The agent's metadata is incomplete. Required are {', '.join(required)}. "
            f"Received: {source} without {', '.join(missing)}"
        )
    metadata: dict[str, Any] = dict(raw)
    # The runtime has no use for `scores`, but whoever reads the metadata wants it decoded.
    for key in (*JSON_TYPES, *({"action_period", "action_sizes", "scores"} & {*raw})):
        metadata[key] = _decode_value(key, raw[key], source)
    return metadata


def _decode_value(key: str, text: str, source: str) -> Any:
    kind = {**JSON_TYPES, "action_period": list, "action_sizes": list}.get(key, object)
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, kind):
        raise ValueError(
            f"The agent's metadata is damaged at `{key}`. Accepted is JSON of type "
            f"{kind.__name__}. Received: {text[:80]!r} in {source}"
        )
    return value


def _check_tensors(
    session: onnxruntime.InferenceSession, expected: tuple[str, ...], source: str
) -> tuple[dict[str, int], dict[str, int]]:
    """Check names, types and shapes; return the width of each input and of each output."""
    inputs = {tensor.name: tensor for tensor in session.get_inputs()}
    outputs = {tensor.name: tensor for tensor in session.get_outputs()}
    required, known = set(expected), {*expected, *OPTIONAL_OUTPUTS}
    if set(inputs) != set(INPUTS) or not required <= set(outputs) <= known:
        raise ValueError(
            f"The agent's tensors have other names. Accepted are inputs {', '.join(INPUTS)} and "
            f"outputs {', '.join(expected)} (optional: {', '.join(OPTIONAL_OUTPUTS)}). "
            f"Received: inputs {', '.join(inputs)}, outputs {', '.join(outputs)} in {source}"
        )
    for tensor in (*inputs.values(), *outputs.values()):
        shape = tensor.shape
        fits = len(shape) == 2 and not isinstance(shape[0], int) and isinstance(shape[1], int)
        if tensor.type != "tensor(float)" or not fits:
            raise ValueError(
                f"The agent's tensor `{tensor.name}` has another type. Accepted is tensor(float) "
                f"of shape [batch, size]. Received: {tensor.type} {shape} in {source}"
            )
    return (
        {name: tensor.shape[1] for name, tensor in inputs.items()},
        {name: tensor.shape[1] for name, tensor in outputs.items()},
    )


def _check_metadata(
    metadata: Mapping[str, Any],
    inputs: Mapping[str, int],
    outputs: Mapping[str, int],
    source: str,
) -> None:
    """Check that what the file says about itself agrees with its tensors."""
    observation, action, state = inputs["observation"], outputs["action"], outputs["state_out"]
    kind = metadata["kind"]
    _check_numbers(metadata, source)
    facts = [  # what, as it is, as it must be
        ("input prev_action", inputs["prev_action"], action),
        ("input prev_reward", inputs["prev_reward"], 1),
        ("input state_in", inputs["state_in"], state),
        *_policy_facts(metadata, outputs),
        ("kind", kind, kind if ("z" in outputs) == (kind == "nmn") else "nmn" if "z" in outputs else "one without z"),
        ("signal_size", metadata["signal_size"], outputs.get("z", 0)),
        ("observation_low", len(metadata["observation_low"]), observation),
        ("observation_high", len(metadata["observation_high"]), observation),
        ("action_low", len(metadata["action_low"]), action),
        ("action_high", len(metadata["action_high"]), action),
        ("action_scale", len(metadata["action_scale"]), action),
        ("action_offset", len(metadata["action_offset"]), action),
        ("action_period", len(metadata["action_period"]), action),
        ("initial_state", len(metadata["initial_state"]), state),
        ("state_layout", sum(part["size"] for part in metadata["state_layout"]), state),
    ]
    if kind not in KINDS:
        raise ValueError(
            "The agent has a kind of network that this version does not know. "
            f"Accepted are {', '.join(KINDS)}. Received: {kind!r} in {source}"
        )
    for what, found, accepted in facts:
        if found != accepted:
            raise ValueError(
                f"The agent contradicts itself: {what} does not fit the rest of the file. "
                f"Accepted is {accepted!r}. Received: {found!r} in {source}"
            )


def _check_numbers(metadata: Mapping[str, Any], source: str) -> None:
    """Check what the lists of the metadata hold."""

    def number(value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)

    def bound(value: Any) -> bool:
        return value is None or number(value)

    def part(value: Any) -> bool:
        return isinstance(value, dict) and isinstance(value.get("size"), int)

    accepted = {
        "finite numbers": (number, ("action_scale", "action_offset", "initial_state")),
        "numbers and null": (
            bound,
            ("observation_low", "observation_high", "action_low", "action_high", "action_period"),
        ),
        "parts with a size": (part, ("state_layout",)),
    }
    for what, (fits, keys) in accepted.items():
        for key in keys:
            if not all(map(fits, metadata[key])):
                raise ValueError(
                    f"The agent's metadata is damaged at `{key}`. Accepted are {what}. "
                    f"Received: {str(metadata[key])[:80]} in {source}"
                )


def _policy_facts(metadata: Mapping[str, Any], outputs: Mapping[str, int]) -> list[tuple[str, Any, Any]]:
    """What the action head asks of the file: what, as it is, as it must be."""
    action = outputs["action"]
    if metadata["action_head"] != "categorical":
        return [(f"output {name}", outputs[name], action) for name in POLICY_OUTPUTS[metadata["action_head"]]]
    sizes, low = metadata["action_sizes"], metadata["action_low"]
    whole = [size for size in sizes if isinstance(size, int) and size > 0]
    return [
        ("action_sizes", sizes, whole),
        ("number of action_sizes", len(sizes), action),
        ("output logits", outputs["logits"], sum(whole)),
        (
            "action_high",
            metadata["action_high"],
            [None if a is None else a + n - 1 for a, n in zip(low, whole, strict=False)],
        ),
        ("action_scale", metadata["action_scale"], [1.0] * action),
        ("action_offset", metadata["action_offset"], low),
    ]
