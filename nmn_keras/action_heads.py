"""Action heads: how a network's numbers become a policy over actions, and how a played action comes back to it.

A policy is a diagonal Gaussian in network units, given by its mean and log-variance `(..., A)` each.
"""

import math

from keras import ops

from nmn_keras.periodic import circle


class GaussianHead:
    """The paper's head: the network gives the mean itself."""

    mean_outputs = 1
    """Numbers that the network gives for the mean of one action dimension."""
    feedback_inputs = 1
    """Numbers that come back to the network for one action dimension."""
    period = None
    """Period of an action, network units; None on a line."""

    @staticmethod
    def mean(raw):
        """Mean `(..., A)` of the network's output `(..., A)`."""
        return raw

    @staticmethod
    def feedback(action, period):
        """What the network sees of a played action: itself, taken modulo its period if it has one.

        Args:
            action: `(..., A)`, environment units.
            period: environment units, or None.
        """
        return action if period is None else ops.mod(action, period)


class DirectionHead:
    """Head of periodic actions: the network gives a vector, whose angle is the mean.

    A scalar mean must jump somewhere on the circle; this one need not. Actions are in half-turns; differences
    between them are taken on the circle, so that the density is a Gaussian wrapped once, and exact while the deviation
    is small against a half-turn: bound the log-variance from above.
    """

    mean_outputs = 2
    feedback_inputs = 2
    period = 2.0

    @staticmethod
    def mean(raw):
        """Angle `(..., A)` in [-1, 1] half-turns of vectors `(..., 2A)`: first components, then second ones."""
        size = raw.shape[-1] // 2
        # The angle of a zero vector has no gradient; fresh networks start near it.
        first, second = raw[..., :size] + 1e-6, raw[..., size:] + 1e-6
        return ops.arctan2(second, first) / math.pi

    @staticmethod
    def feedback(action, period):
        """Cosines, then sines of a played action `(..., A)`: `(..., 2A)`; displacements are linear in them."""
        return circle(action, period)


HEADS: dict[str, type[GaussianHead] | type[DirectionHead]] = {"gaussian": GaussianHead, "direction": DirectionHead}


def split_policy(architecture, output):
    """Actor output `(..., policy_units)` to mean and log-variance, `(..., A)` each, network units."""
    mean = architecture.head.mean(output[..., : -architecture.action_size])
    log_var = output[..., -architecture.action_size :] + architecture.log_var_offset
    if architecture.log_var_min is not None:
        log_var = ops.maximum(log_var, architecture.log_var_min)
    if architecture.log_var_max is not None:
        log_var = ops.minimum(log_var, architecture.log_var_max)
    return mean, log_var
