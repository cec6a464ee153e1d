"""Agents small enough to train in a test, and how to compare two of them bit for bit."""

import numpy as np

from nmn_keras import ActorCritic, Architecture
from nmn_keras.recipes import FastRecipe, PaperRecipe
from nmn_keras.run import Run

LAYERS = {"gru_units": (5,), "signal_units": 3, "hidden_units": (4,)}
ROLLOUT = {"episodes": 16, "episodes_per_update": 4, "rollout_steps": 20, "segment_steps": 10}
RECIPES = {
    "fast": FastRecipe(**ROLLOUT, epochs=2, minibatches_per_epoch=2),
    "paper": PaperRecipe(
        **ROLLOUT, trained_steps=20, actor_epochs=3, critic_epochs=2, critic_minibatch=4, critic_batches=2
    ),
}
"""Four updates each. The critic's buffer of the paper recipe fills in the second."""

EXTRA = {"training_commit": "abc", "scores": {"sampled": 1.5}}
"""Metadata of the export that tests share."""


def tiny_agent(recipe="fast", seed=3, **fields):
    """An agent for benchmark 1."""
    architecture = Architecture.for_env("b1", action_scale=(5.0,), **{**LAYERS, **fields})
    return ActorCritic(architecture, RECIPES[recipe], seed)


class Resettable:
    """A compiled agent that can be put back to where it began, since compiling takes seconds."""

    def __init__(self, agent):
        self.agent = agent
        self.agent.compile()
        self._initial = [array(variable) for variable in self._variables()]

    def reset(self):
        for variable, value in zip(self._variables(), self._initial, strict=True):
            variable.assign(value)
        self.agent.run = Run()
        return self.agent

    def _variables(self):
        return [*self.agent.variables, *(v for optimizer in self.agent.optimizers for v in optimizer.variables)]


def snapshot(agent):
    """All that training changes: weights, optimisers, adapted numbers, critic batches."""
    run = agent.run
    return {
        **{variable.path: array(variable) for variable in agent.variables},
        **{f"optimizer {i} {j}": array(v) for i, o in enumerate(agent.optimizers) for j, v in enumerate(o.variables)},
        **{f"coefficient {name}": array(value) for name, value in run.coefficients.items()},
        **{f"buffer {i} {name}": array(x) for i, batch in enumerate(run.buffer) for name, x in batch.items()},
        "updates": array([run.update, run.updates]),
    }


def array(x):
    """A copy as numpy; `asarray` is what Keras's variables understand."""
    return np.array(np.asarray(x))


def assert_identical(one, other):
    """Compare snapshots bit for bit."""
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name, strict=True)


def perturb(agent, seed=0, deviation=0.3):
    """Move all weights, biases included, so that nothing is zero and every part of the network matters."""
    rng = np.random.default_rng(seed)
    for variable in agent.variables:
        variable.assign(variable.value + rng.normal(0.0, deviation, variable.shape).astype("float32"))
    return agent
