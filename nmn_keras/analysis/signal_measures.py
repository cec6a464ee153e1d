"""What z and the scale factors of a recording do: how they depend on the task, move, change sign and vanish."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmn_keras.analysis.decoding import explained, predict_held_out
from nmn_keras.analysis.recording import Recording
from nmn_keras.analysis.scale_factors import ScaleFactors

NEAR = 0.1
"""A scale factor that is nearer to 0 than this is called near 0; a plain layer has 1."""
SHARE = 0.05
"""Share of the episodes in which a neuron must do something for it to be counted."""
QUANTILES = (0.1, 0.5, 0.9)


def told(signals: NDArray, secrets: dict[str, NDArray]) -> dict[str, NDArray]:
    """Give what signals (N, Z) tell of each secret (N, K): held-out R^2 with interval (3,)."""
    return {name: explained(secret, predict_held_out(signals, secret)) for name, secret in secrets.items()}


def made_of(signals: NDArray, causes: dict[str, NDArray]) -> dict[str, NDArray]:
    """Give the share of the variance of signals (N, Z) that follows from each cause (N, K): held-out R^2 (3,)."""
    return {name: explained(signals, predict_held_out(cause, signals)) for name, cause in causes.items()}


def spread(signals: NDArray) -> float:
    """Give how far the signals (N, Z) of episodes lie apart: their standard deviation, over all dimensions."""
    return float(np.sqrt(signals.var(axis=0).sum()))


def motion(before: NDArray, after: NDArray) -> float:
    """Give how far signals (N, Z) move in a step, against how far those of two episodes lie apart: 0 where they rest.

    The root of E|z' - z|^2 / (2 var z); 1 where a step changes them as much as another episode would.
    """
    apart = 2.0 * before.var(axis=0).sum()
    return float(np.sqrt(np.square(after - before).sum(axis=1).mean() / apart)) if apart > 1e-8 else float("nan")


def by_bins(values: NDArray, task: NDArray, edges: NDArray) -> NDArray:
    """Give quantiles 0.1, 0.5 and 0.9 (3, B, D) of values (N, D) in B bins of a task (N,); NaN in an empty bin."""
    place = np.digitize(task, edges) - 1
    bins = [values[place == number] for number in range(len(edges) - 1)]
    nothing = np.full((len(QUANTILES), values.shape[1]), np.nan)
    return np.stack([np.quantile(one, QUANTILES, axis=0) if len(one) else nothing for one in bins], axis=1)


def count_neurons(layers: Sequence[ScaleFactors], recording: Recording, step: int, span: range) -> list[dict[str, Any]]:
    """Count what the scale factors of the neurons of each layer do.

    Args:
        layers: of the agent.
        recording: with the signals of the step and of the span.
        step: at which tasks are compared.
        span: steps in which the changes within an episode are looked for.

    Returns:
        For each layer `units`; `signs` below -0.1 in at least 5 % of the episodes and above 0.1 in as many, at the
        step; `within`, from the one to the other in the span, in at least 5 % of the episodes; `near`, within 0.1 of 0
        in at least 5 % of the episodes, at the step; `lowest` and `highest` factor at the step.
    """
    counted = []
    for layer in layers:
        factors = layer(recording.signal_at(step))
        over_time = layer(np.stack([recording.signal_at(number) for number in span]))
        within = (over_time < -NEAR).any(axis=0) & (over_time > NEAR).any(axis=0)
        counted.append(
            {
                "units": factors.shape[1],
                "signs": _count((factors < -NEAR).mean(axis=0), (factors > NEAR).mean(axis=0)),
                "within": _count(within.mean(axis=0)),
                "near": _count((np.abs(factors) < NEAR).mean(axis=0)),
                "lowest": float(factors.min()),
                "highest": float(factors.max()),
            }
        )
    return counted


def _count(*shares):
    """The number of neurons whose shares of the episodes are all large enough."""
    return int(np.all([share >= SHARE for share in shares], axis=0).sum())


def dimension_kinds(signals: NDArray, task: NDArray, state: NDArray) -> dict[str, Any]:
    """Sort the dimensions of z by what they follow, among episodes that differ in one task component alone.

    Args:
        signals: (N, Z).
        task: (N, 1).
        state: (N, K), what the modulator sees of the state.

    Returns:
        `of_task` and `of_state`, the share (Z,) of each dimension's variance that follows from the task and from the
        state (held-out R^2, at least 0); `task`, the number of dimensions of which the task explains at least half;
        `constant`, of which it explains less than 0.05; `state`, those of which the state explains at least half and
        the task does not.
    """
    shares = []
    for cause in (task, state):
        error = np.square(signals - predict_held_out(cause, signals)).mean(axis=0)
        shares.append(np.maximum(0.0, 1.0 - error / np.maximum(signals.var(axis=0), 1e-12)))
    of_task, of_state = shares
    return {
        "of_task": of_task,
        "of_state": of_state,
        "task": int((of_task >= 0.5).sum()),
        "constant": int((of_task < 0.05).sum()),
        "state": int(((of_task < 0.5) & (of_state >= 0.5)).sum()),
    }
