"""Losses, gradients and compiled updates of a small agent on the present Keras backend, written to an npz file.

Usage: KERAS_BACKEND=... python tests/one_update.py OUTPUT.npz (nothing in it depends on the backend but the rounding).
"""

import os
import sys

import drawn_rollout
import numpy as np
from keras.ops import convert_to_numpy

from nmn_keras.actor_critic import ActorCritic, Run
from nmn_keras.networks import Architecture
from nmn_keras.recipes import FastRecipe, PaperRecipe
from nmn_keras.updates import batch

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "backends"))
from on_backend import on_tensors, value_and_gradients  # noqa: E402

STEPS, ROWS, SEGMENT = 16, 6, 4
ARCHITECTURE = Architecture(
    "nmn", 2, 1, (6,), 4, hidden_units=(5,), action_low=(-1.0,), action_high=(2.0,), reward_scale=0.2
)
SIZES = {"episodes_per_update": ROWS, "rollout_steps": STEPS, "segment_steps": SEGMENT, "discount": 0.9}
RECIPES = {
    "fast": FastRecipe(**SIZES, epochs=2, minibatches_per_epoch=3, kl_target=0.002),
    "paper": PaperRecipe(
        **SIZES, trained_steps=12, actor_epochs=3, critic_epochs=2, critic_minibatch=7, critic_batches=2
    ),
}


def draw_endings():
    """Terminations and truncations in the middle of a segment, at its edge and at the end."""
    ends = np.full((STEPS, ROWS), "", dtype=object)
    ends[5, 0] = ends[7, 1] = ends[15, 3] = "terminated"
    ends[3, 1] = ends[10, 2] = ends[15, 4] = "truncated"
    return ends


def play(agent, seed):
    """A rollout of the agent's policy, a quarter of its segments with the mean action."""
    explored = np.ones((STEPS, ROWS))
    explored[:SEGMENT, ::2] = explored[2 * SEGMENT : 3 * SEGMENT, 1] = 0.0
    weights = agent.actor.get_weights()
    return drawn_rollout.play(ARCHITECTURE, weights, STEPS, draw_endings(), SEGMENT, seed, explored)


def numbered(prefix, arrays):
    return {f"{prefix}/{i:02}": convert_to_numpy(x) for i, x in enumerate(arrays)}


def losses_and_gradients(agent, rollout):
    """Of both losses, with weights that have moved on since the rollout was played."""
    recipe, names = agent.recipe, list(rollout.arrays())
    for network in (agent.actor, agent.critic):
        rng = np.random.default_rng(1)
        network.set_weights([w + rng.normal(0.0, 0.02, w.shape) for w in network.get_weights()])

    def prepare(*arrays):
        return batch.prepare(agent.critic, recipe, dict(zip(names, arrays, strict=True)))

    actor_batch, critic_batch, _ = on_tensors(prepare, *rollout.arrays().values())
    coefficients = recipe.coefficients()
    losses = {
        "actor": lambda: batch.actor_loss(agent.actor, recipe, actor_batch, coefficients)[0],
        "critic": lambda: batch.critic_loss(agent.critic, critic_batch),
    }
    found = {}
    for role, loss in losses.items():
        value, gradients = value_and_gradients(loss, getattr(agent, role).trainable_variables)
        found |= {f"loss/{role}": value, **numbered(f"gradient/{role}", gradients)}
    return found


def everything(agent, prefix):
    """Weights and optimiser slots as they are now."""
    found = {}
    for role in ("actor", "critic"):
        found |= numbered(f"{prefix}/{role}", getattr(agent, role).trainable_variables)
        found |= numbered(f"{prefix}/{role}_slots", getattr(agent.optimizers, role).variables)
    return found


def updates(agent, rollout):
    """One compiled update; for the paper's recipe a second one that must be reverted."""
    agent.compile()
    agent.run = Run(seed=5, updates=10, coefficients=agent.recipe.coefficients())
    found = everything(agent, "before")
    logs = [agent.train_step(rollout)]
    found |= everything(agent, "after")
    if agent.recipe.name == "paper":
        agent.run.coefficients["actor_learning_rate"] = 0.5
        logs.append(agent.train_step(rollout))
        found |= everything(agent, "reverted")
    return found | {f"logs/{i}/{k}": v for i, log in enumerate(logs) for k, v in log.items()}


def main(output):
    found = {}
    for name, recipe in RECIPES.items():
        agent = ActorCritic(ARCHITECTURE, recipe, seed=11)
        rollout = play(agent, seed=2)
        parts = updates(agent, rollout)
        parts |= losses_and_gradients(ActorCritic(ARCHITECTURE, recipe, seed=11), rollout)
        found |= {f"{name}/{key}": np.asarray(value) for key, value in parts.items()}
    np.savez(output, **found)


if __name__ == "__main__":
    main(sys.argv[1])
