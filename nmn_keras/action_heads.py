"""Action heads: how a network's numbers become a policy over actions, and how a played action comes back to it.

A head owns the distribution: its parameters are packed in one array `(..., P)`, which is all that the rollout, the
losses and the recipes hold of it. Actions `(..., A)` are in network units unless another unit is named;
`Architecture.to_environment` maps them. Functions that play take the array module `xp`: numpy, or `keras.ops` inside a
graph; the others are `keras.ops`.
"""

import math

import numpy as np
from keras import ops

from nmn_keras import distributions
from nmn_keras.periodic import circle


class GaussianHead:
    """The paper's head: a diagonal Gaussian, whose mean the network gives itself.

    The packed policy is the mean, then the log-variance, A numbers each.
    """

    coloured = True
    """Whether its noise may be correlated in time."""
    mean_outputs = 1
    """Numbers that the network gives for the mean of one action dimension."""
    period: float | None = None
    """Period of an action, network units; None on a line."""

    def __init__(self, architecture):
        self._architecture = architecture
        self._size = architecture.action_size

    @property
    def outputs(self) -> int:
        """Length of the network's output."""
        return (self.mean_outputs + 1) * self._size

    @property
    def policy_size(self) -> int:
        """P."""
        return 2 * self._size

    @property
    def feedback_size(self) -> int:
        """Numbers that come back to the network of an action."""
        return self._size

    def policy(self, output):
        """The packed policy `(..., P)` of the network's output `(..., outputs)`."""
        a = self._architecture
        mean = self._mean(output[..., : -self._size])
        log_var = output[..., -self._size :] + a.log_var_offset
        if a.log_var_min is not None:
            log_var = ops.maximum(log_var, a.log_var_min)
        if a.log_var_max is not None:
            log_var = ops.minimum(log_var, a.log_var_max)
        return ops.concatenate([mean, log_var], axis=-1)

    def noise(self, generator, shape) -> np.ndarray:
        """What `sample` needs, from a numpy generator: standard normal, float32 `(*shape, A)`."""
        return generator.standard_normal((*shape, self._size), dtype="float32")

    def sample(self, policy, noise, xp=np):
        """Actions `(..., A)`, unclipped; where the noise is zero, the mean."""
        mean, log_var = self._unpack(policy)
        return mean + xp.exp(0.5 * log_var) * noise

    def log_prob(self, policy, action):
        """Log-density of actions: `(...)`."""
        mean, log_var = self._unpack(policy)
        return distributions.gaussian_log_prob(action, mean, log_var, self.period)

    def kl(self, policy, new_policy):
        """Divergence KL(old || new): `(...)`."""
        mean, log_var = self._unpack(policy)
        new_mean, new_log_var = self._unpack(new_policy)
        return distributions.gaussian_kl(mean, log_var, new_mean, new_log_var, self.period)

    def entropy(self, policy):
        """Entropy, nats: `(...)`."""
        return distributions.gaussian_entropy(self._unpack(policy)[1])

    def feedback(self, action):
        """What the network sees of a played action `(..., A)`, environment units: itself, within its period."""
        period = self._architecture.action_period
        return action if period is None else ops.mod(action, period)

    def contract_outputs(self, policy):
        """The ONNX contract's outputs of a policy."""
        mean, log_var = self._unpack(policy)
        return self._contract(mean, 0.5 * log_var)

    def packed(self, outputs) -> np.ndarray:
        """The policy of the contract's outputs, numpy arrays."""
        return np.concatenate([outputs["action_mean"], 2.0 * outputs["action_log_std"]], axis=-1)

    def folding(self):
        """Factor and offset on each of the network's outputs, by which `folded_outputs` wants them changed."""
        factor, offset = np.ones(self.outputs), np.zeros(self.outputs)
        factor[-self._size :], offset[-self._size :] = 0.5, 0.5 * self._architecture.log_var_offset
        return factor, offset

    def folded_outputs(self, output):
        """The contract's outputs of the network's output with factor and offset in it: fewer operations."""
        a = self._architecture
        mean, log_std = ops.split(output, [output.shape[-1] - self._size], axis=-1)
        low, high = (None if bound is None else 0.5 * bound for bound in (a.log_var_min, a.log_var_max))
        log_std = log_std if low is None else ops.maximum(log_std, low)
        return self._contract(self._mean(mean), log_std if high is None else ops.minimum(log_std, high))

    def summary(self, policy) -> dict[str, float]:
        """What is logged of the policies `(T, N, P)` of a rollout."""
        return {"deviation": float(np.exp(0.5 * self._unpack(policy)[1]).mean())}

    def _mean(self, raw):
        return raw

    def _unpack(self, policy):
        return policy[..., : self._size], policy[..., self._size :]

    def _contract(self, mean, log_std):
        action = self._architecture.to_environment(mean, ops)
        return {"action": action, "action_mean": mean, "action_log_std": log_std}


class DirectionHead(GaussianHead):
    """Head of periodic actions: the network gives a vector, whose angle is the mean.

    A scalar mean must jump somewhere on the circle; this one need not. Actions are in half-turns; differences
    between them are taken on the circle, so that the density is a Gaussian wrapped once, and exact while the deviation
    is small against a half-turn: bound the log-variance from above.
    """

    mean_outputs = 2
    period = 2.0

    @property
    def feedback_size(self) -> int:
        """Numbers that come back to the network of an action."""
        return 2 * self._size

    def feedback(self, action):
        """Cosines, then sines of a played action `(..., A)`: `(..., 2A)`; displacements are linear in them."""
        return circle(action, self._architecture.action_period)

    def _mean(self, raw):
        """Angle `(..., A)` in [-1, 1] half-turns of vectors `(..., 2A)`: first components, then second ones."""
        # The angle of a zero vector has no gradient; fresh networks start near it.
        first, second = raw[..., : self._size] + 1e-6, raw[..., self._size :] + 1e-6
        return ops.arctan2(second, first) / math.pi


class CategoricalHead:
    """Head of discrete actions: independent choices, whose logits the network gives; the packed policy is the logits.

    A choice is its number from 0, as a float; environment units begin at the space's `start`. It comes back to the
    network as one-hot vectors, all zeros for a number that is none of the choices.
    """

    coloured = False
    period: float | None = None

    def __init__(self, architecture):
        self._architecture = architecture
        self._sizes = architecture.action_sizes

    @property
    def outputs(self) -> int:
        """Length of the network's output."""
        return sum(self._sizes)

    @property
    def policy_size(self) -> int:
        """P."""
        return sum(self._sizes)

    @property
    def feedback_size(self) -> int:
        """Numbers that come back to the network of an action."""
        return sum(self._sizes)

    def policy(self, output):
        """The packed policy `(..., P)` of the network's output: itself."""
        return output

    def noise(self, generator, shape) -> np.ndarray:
        """What `sample` needs, from a numpy generator: standard Gumbel, float32 `(*shape, P)`."""
        return generator.gumbel(size=(*shape, self.policy_size)).astype("float32")

    def sample(self, policy, noise, xp=np):
        """Choices `(..., A)` (Gumbel 1954: the largest of logit plus noise); where the noise is zero, the likeliest."""
        scores = distributions.by_dimension(policy + noise, self._sizes)
        return xp.stack([_first_largest(part, xp) for part in scores], axis=-1)

    def log_prob(self, policy, action):
        """Log-probability of choices: `(...)`."""
        return distributions.categorical_log_prob(self._one_hot(action), policy, self._sizes)

    def kl(self, policy, new_policy):
        """Divergence KL(old || new): `(...)`."""
        return distributions.categorical_kl(policy, new_policy, self._sizes)

    def entropy(self, policy):
        """Entropy, nats: `(...)`."""
        return distributions.categorical_entropy(policy, self._sizes)

    def feedback(self, action):
        """One-hot vectors `(..., P)` of a played action `(..., A)`, environment units."""
        return self._one_hot(action, self._architecture.scaling()[1])

    def contract_outputs(self, policy):
        """The ONNX contract's outputs of a policy."""
        action = self.sample(policy, 0.0, ops)
        return {"action": self._architecture.to_environment(action, ops), "logits": policy}

    def packed(self, outputs) -> np.ndarray:
        """The policy of the contract's outputs, numpy arrays."""
        return outputs["logits"]

    def folding(self):
        """Factor and offset on each of the network's outputs; see `GaussianHead.folding`."""
        return np.ones(self.outputs), np.zeros(self.outputs)

    def folded_outputs(self, output):
        """The contract's outputs of the network's output."""
        return self.contract_outputs(output)

    def summary(self, policy) -> dict[str, float]:
        """What is logged of the policies `(T, N, P)` of a rollout: entropy, nats."""
        shifted = [part - part.max(axis=-1, keepdims=True) for part in distributions.by_dimension(policy, self._sizes)]
        logs = [part - np.log(np.exp(part).sum(axis=-1, keepdims=True)) for part in shifted]
        return {"entropy": float(sum(-(np.exp(part) * part).sum(axis=-1).mean() for part in logs))}

    def _one_hot(self, action, first=None):
        """1 at each dimension's choice `(..., P)`; `first` are the numbers of the first choices, 0 if None."""
        first = np.zeros(len(self._sizes), "float32") if first is None else first
        parts = []
        for i, size in enumerate(self._sizes):
            distance = ops.abs(ops.subtract(action[..., i : i + 1], first[i] + np.arange(size, dtype="float32")))
            parts.append(ops.cast(distance < 0.5, "float32"))
        return parts[0] if len(parts) == 1 else ops.concatenate(parts, axis=-1)


def _first_largest(x, xp):
    """Number of the first largest element, float32: what argmax gives, but argmax of Keras cannot be exported."""
    size = x.shape[-1]
    is_largest = x >= xp.max(x, axis=-1, keepdims=True)
    return xp.min(xp.where(is_largest, np.arange(size, dtype="float32"), np.float32(size)), axis=-1)


Head = GaussianHead | CategoricalHead
HEADS: dict[str, type[Head]] = {"gaussian": GaussianHead, "direction": DirectionHead, "categorical": CategoricalHead}
