"""How many rows an agent must be stepped with, so that a row's result does not depend on its company.

onnxruntime takes some functions (sines, exponentials) of several floats at once, and of those left over in another
way, whose last bit differs. Which functions an agent has and how many floats are taken at once depends on the agent
and on the machine; so it is tried.
"""

import functools

import numpy as np

from nmn_keras.runtime import OnnxAgent

TRIED = (1, 2, 4, 8, 16)
COMPANY = 64
"""Rows that are stepped together and in packets."""


@functools.cache
def packet_of(agent: OnnxAgent) -> int:
    """Return the least number of rows in whose multiples every row's result is bit by bit the same."""
    rng = np.random.default_rng(0)
    sizes = (agent.observation_size, agent.action_size, 1, agent.state_size)
    inputs = [rng.normal(size=(COMPANY, size)).astype(np.float32) for size in sizes]
    together = agent.step(*inputs)
    return next((rows for rows in TRIED if _agree(agent, inputs, together, rows)), TRIED[-1])


def _agree(agent: OnnxAgent, inputs: list[np.ndarray], together: dict[str, np.ndarray], rows: int) -> bool:
    """Whether batches of `rows`, of twice and of three times as many give what all rows together give."""
    for size in (rows, 2 * rows, 3 * rows):
        for first in range(0, COMPANY - size + 1, size):
            part = agent.step(*(array[first : first + size] for array in inputs))
            if any(not np.array_equal(part[name], together[name][first : first + size]) for name in part):
                return False
    return True
