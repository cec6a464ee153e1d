"""Groups of seeds with known scores, for tests of what is said about them."""

import numpy as np

from nmn_keras.analysis.trained import MODES, Group, Seed

EPISODES, PER_UPDATE = 1280, 64


def group(agent: str, share: float, seeds: int = 15, spread: float = 0.01, recipe: str = "fast") -> Group:
    """Seeds that learn linearly up to about `share` of the optimum, evenly spread around it."""
    whole = recipe == "paper"
    made = Group(agent, recipe, EPISODES, PER_UPDATE, 0, 100, None if whole else 200)
    made.steps = made.benchmark.episode_steps if whole else 200
    for seed, offset in enumerate(np.linspace(-1, 1, seeds) * spread if seeds > 1 else [0.0]):
        reached = share + float(offset)
        updates = np.arange(1, EPISODES // PER_UPDATE + 1)
        curve = [float(value) for value in made.optimum * reached * np.minimum(updates / 4, 1)]
        score = made.best("sampled") * reached
        scores = {mode: {"discounted_return": score, "share": reached, "episodes": 10} for mode in MODES}
        made.seeds.append(Seed(seed, curve, [(EPISODES, score)], scores, f"nmn train {agent} --seed {seed}", "c" * 40))
    return made
