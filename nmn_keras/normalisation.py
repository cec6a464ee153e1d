"""Running statistics of what is played in training, and their frozen form inside a network."""

import dataclasses
from typing import Any

import keras
import numpy as np
from keras import ops

BOUND = 10.0
"""Standard deviations at which a normalised observation is clipped."""
_SMALLEST = 1e-4
"""A deviation below this one counts as none: what does not vary is not blown up."""


@keras.saving.register_keras_serializable("nmn_keras")
class Standardise(keras.layers.Layer):
    """`clip((x - mean) * factor, -10, 10)` with weights that no gradient changes; fresh, it only clips.

    Call arguments:
        inputs: `(..., O)`.

    Returns:
        `(..., O)`.
    """

    def build(self, input_shape):
        """Create `mean` and `factor`, one over the deviation, `(O,)` each."""
        self.mean = self.add_weight((input_shape[-1],), "zeros", trainable=False, name="mean", dtype="float32")
        self.factor = self.add_weight((input_shape[-1],), "ones", trainable=False, name="factor", dtype="float32")

    def call(self, inputs):
        """Apply the equation of the class docstring."""
        return ops.clip((inputs - self.mean) * self.factor, -BOUND, BOUND)

    def compute_output_shape(self, input_shape):
        """The inputs' shape."""
        return input_shape


@keras.saving.register_keras_serializable("nmn_keras")
class Scale(keras.layers.Layer):
    """`x * factor` with a weight that no gradient changes, 1 when fresh."""

    def build(self, input_shape):
        """Create `factor`, a scalar."""
        self.factor = self.add_weight((), "ones", trainable=False, name="factor", dtype="float32")

    def call(self, inputs):
        """Apply the equation of the class docstring."""
        return inputs * self.factor

    def compute_output_shape(self, input_shape):
        """The inputs' shape."""
        return input_shape


@dataclasses.dataclass(frozen=True)
class Moments:
    """Count, mean and sum of squared differences from the mean of all rows seen, float64.

    Reference: Chan, Golub and LeVeque 1983, the parallel update of a variance.
    """

    count: Any = 0.0
    mean: Any = 0.0
    squares: Any = 0.0

    def merge(self, rows) -> "Moments":
        """With further rows `(M, ...)`."""
        rows = np.asarray(rows, "float64")
        count, mean = self.count + len(rows), rows.mean(axis=0)
        shift = mean - self.mean
        squares = self.squares + ((rows - mean) ** 2).sum(axis=0) + shift**2 * self.count * len(rows) / count
        return Moments(np.float64(count), self.mean + shift * len(rows) / count, squares)

    def factor(self):
        """One over the deviation; 1 where nothing varies, or nothing was seen."""
        deviation = np.sqrt(self.squares / max(self.count, 1.0))
        return np.where(deviation > _SMALLEST, 1.0 / np.maximum(deviation, _SMALLEST), 1.0)


@dataclasses.dataclass(frozen=True)
class Statistics:
    """What a run has seen of observations and of discounted returns."""

    observation: Moments = Moments()
    discounted_return: Moments = Moments()

    def merge(self, observation, reward, ended, discount) -> "Statistics":
        """With a rollout that begins with a reset.

        Args:
            observation: `(T, N, O)`.
            reward: `(T, N)`.
            ended: `(T, N)`, 1 where an episode ended in any way.
            discount: of the returns.
        """
        rows = np.reshape(observation, (-1, observation.shape[-1]))
        returns = discounted_so_far(reward, ended, discount)
        return Statistics(self.observation.merge(rows), self.discounted_return.merge(returns.ravel()))

    def arrays(self) -> dict[str, np.ndarray]:
        """All numbers as a flat dict; nothing before anything was seen."""
        if not self.observation.count:
            return {}
        parts = dataclasses.asdict(self)
        return {f"statistics/{part}/{k}": np.asarray(v) for part, moments in parts.items() for k, v in moments.items()}

    @classmethod
    def restore(cls, arrays: dict[str, np.ndarray]) -> "Statistics":
        """The inverse of `arrays`; other arrays may be among them."""
        found: dict[str, dict] = {}
        for key in (key for key in arrays if key.startswith("statistics/")):
            _, part, name = key.split("/")
            found.setdefault(part, {})[name] = np.asarray(arrays[key])
        return cls(**{part: Moments(**numbers) for part, numbers in found.items()})


def discounted_so_far(reward, ended, discount) -> np.ndarray:
    """`g_t = discount * g_{t-1} + r_t`, from zero where an episode begins: `(T, N)`, float64.

    The sum that runs forward in time. Gymnasium's `NormalizeReward` takes it too, and forgets an episode a step sooner.
    """
    total, rows = np.zeros(reward.shape[1]), []
    for r, end in zip(np.asarray(reward, "float64"), ended, strict=True):
        total = discount * total + r
        rows.append(total)
        total = np.where(end > 0, 0.0, total)
    return np.stack(rows)
