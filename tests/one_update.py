"""Losses, gradients and compiled updates of a small agent on the present Keras backend, written to an npz file.

Run by `test_backends_agree.py` with one argument, the file. Nothing in it depends on the backend but the rounding.
"""

import sys

import drawn_rollout
import numpy as np
from keras.ops import convert_to_numpy
from on_backend import on_tensors, value_and_gradients

from nmn_keras.actor_critic import ActorCritic
from nmn_keras.architecture import Architecture
from nmn_keras.recipes import FastRecipe, PaperRecipe
from nmn_keras.run import Run
from nmn_keras.updates import batch

STEPS, ROWS, SEGMENT = 16, 6, 4
ARCHITECTURE = Architecture(
    "nmn", 2, 1, (6,), 4, hidden_units=(5,), action_low=(-1.0,), action_high=(2.0,), reward_scale=0.2
)
SIZES = {"episodes_per_update": ROWS, "rollout_steps": STEPS, "segment_steps": SEGMENT, "discount": 0.9}
FAST = FastRecipe(**SIZES, epochs=2, minibatches_per_epoch=3, kl_target=0.002)
PAPER = PaperRecipe(**SIZES, trained_steps=12, actor_epochs=3, critic_epochs=2, critic_minibatch=7, critic_batches=2)


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


def prepare(agent, rollout):
    """Actor batch and critic batch of a rollout, as numpy arrays."""
    names = list(rollout.arrays())

    def run(*arrays):
        return batch.prepare(agent.critic, agent.recipe, dict(zip(names, arrays, strict=True)))

    return on_tensors(run, *rollout.arrays().values())[:2]


def losses_and_gradients(agent, actor_batch, critic_batch):
    """Of both losses, with weights that have moved on since the rollout was played."""
    rng, coefficients = np.random.default_rng(1), agent.recipe.coefficients()
    losses = {
        "actor": lambda: batch.actor_loss(agent.actor, agent.recipe, actor_batch, coefficients)[0],
        "critic": lambda: batch.critic_loss(agent.critic, critic_batch),
    }
    found = {}
    for role, loss in losses.items():
        network = getattr(agent, role)
        network.set_weights([w + rng.normal(0.0, 0.02, w.shape) for w in network.get_weights()])
        value, gradients = value_and_gradients(loss, network.trainable_variables)
        found |= {f"loss/{role}": value, **numbered(f"gradient/{role}", gradients)}
    return found


def everything(agent, prefix):
    """Weights and optimiser slots as they are now."""
    found = {}
    for role in ("actor", "critic"):
        found |= numbered(f"{prefix}/{role}", getattr(agent, role).trainable_variables)
        found |= numbered(f"{prefix}/{role}_slots", getattr(agent.optimizers, role).variables)
    return found


def start(recipe):
    """A compiled agent at the start of a run, and a rollout of its policy."""
    agent = ActorCritic(ARCHITECTURE, recipe, seed=11)
    agent.compile()
    agent.run = Run(seed=5, updates=10, coefficients=recipe.coefficients())
    return agent, play(agent, seed=2)


def fast_update():
    agent, rollout = start(FAST)
    return {**everything(agent, "before"), **agent.train_step(rollout), **everything(agent, "after")}


def paper_updates():
    """An update with an earlier critic batch in the buffer, and one at a rate so high that it must be reverted."""
    agent, rollout = start(PAPER)
    found = everything(agent, "before")
    actor_batch, critic_batch = prepare(agent, play(agent, seed=3))
    agent.run.buffer = [critic_batch]
    found |= {**agent.train_step(rollout), **everything(agent, "after")}
    agent.run.coefficients["actor_learning_rate"] = 0.5
    found["reverted_again"] = agent.train_step(rollout)["reverted"]
    found |= everything(agent, "reverted")
    fresh = ActorCritic(ARCHITECTURE, PAPER, seed=11)
    return found | losses_and_gradients(fresh, actor_batch, critic_batch)


def main(output):
    parts = {"fast": fast_update(), "paper": paper_updates()}
    np.savez(output, **{f"{name}/{key}": value for name, part in parts.items() for key, value in part.items()})


if __name__ == "__main__":
    main(sys.argv[1])
