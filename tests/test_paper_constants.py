"""Every constant of the paper and of the authors' code, one row per constant, one column per benchmark.

The numbers are those of the paper's appendix (hyper-parameters, architectures, benchmarks) with its misprints corrected
and, where it prints none (L, L', scales, initialisation, the threshold of a revert), those of the authors' code. They
are written out here, so that a default that drifts anywhere between preset and environment fails.
"""

import dataclasses
import math

import numpy as np
import pytest

from nmn_keras import ActorCritic, envs, presets
from nmn_keras.envs.dynamics import plane

BENCHMARKS = ("b1", "b2", "b3")
PAPER = {name: {kind: presets.get(f"{name}-{kind}", "paper") for kind in ("nmn", "rnn")} for name in BENCHMARKS}

RECIPE = {  # symbol and field of the recipe: benchmarks 1, 2 and 3
    ("episodes in all", "episodes"): (20_000,) * 3,
    ("B", "episodes_per_update"): (50,) * 3,
    ("L, None = the episode", "rollout_steps"): (None,) * 3,
    ("L'", "trained_steps"): (400, 2000, 2000),
    ("T", "segment_steps"): (200,) * 3,
    ("gamma", "discount"): (0.998,) * 3,
    ("lambda", "trace"): (0.98,) * 3,
    ("a_lr", "actor_learning_rate"): (2e-4,) * 3,
    ("lower bound of a_lr, ours", "actor_learning_rate_min"): (1e-6,) * 3,
    ("upper bound of a_lr, ours", "actor_learning_rate_max"): (2e-3,) * 3,
    ("c_lr", "critic_learning_rate"): (6e-3,) * 3,
    ("clipping of gradients", "gradient_norm"): (None,) * 3,
    ("e_actor", "actor_epochs"): (20,) * 3,
    ("e_critic", "critic_epochs"): (10,) * 3,
    ("cmb", "critic_minibatch"): (25,) * 3,
    ("crb + 1", "critic_batches"): (3,) * 3,
    ("d_targ", "kl_target"): (0.003,) * 3,
    ("beta_0", "kl_penalty"): (1.0,) * 3,
    ("beta_max, 1 / beta_min", "kl_penalty_max"): (30.0,) * 3,
    ("d_thresh, 4 d_targ", "revert_kl"): (0.012,) * 3,
    ("eta", "excess_weight"): (50.0,) * 3,
}

ARCHITECTURE = {  # field of the architecture: benchmarks 1, 2 and 3, of the NMN and the RNN alike
    "observation_size": (1, 2, 4),
    "action_size": (1, 1, 1),
    "gru_units": ((50,), (100, 75), (100, 75)),
    "cell": ("gru",) * 3,
    "signal_activation": ("relu",) * 3,
    "observation_period": (None,) * 3,
    "action_low": ((-20.0,), (-1.0,), (-1.0,)),
    "action_high": ((20.0,), (1.0,), (1.0,)),
    "action_scale": ((5.0,), None, None),  # None is 1: a half-turn, pi radians
    "action_offset": (None,) * 3,
    "action_head": ("gaussian",) * 3,
    "action_period": (None, 2.0, 2.0),
    "feedback_scale": (1.0, math.pi, math.pi),  # the clipped action; the angle in [0, 2 pi)
    "reward_scale": (1.0,) * 3,
    "log_var_offset": (-1.0,) * 3,
    "log_var_min": (None,) * 3,
    "log_var_max": (None,) * 3,
    "shared_modulation": (False,) * 3,
    "action_sizes": (None,) * 3,
    "normalise_observations": (False,) * 3,
    "normalise_rewards": (False,) * 3,
    "initializer": ("normal",) * 3,
    "output_gain": (1.0,) * 3,
}
BY_KIND = {  # the rest: NMN, RNN
    "kind": {"nmn": ("nmn",) * 3, "rnn": ("rnn",) * 3},
    "signal_units": {"nmn": (20, 45, 45), "rnn": (0, 0, 0)},
    "hidden_units": {"nmn": ((10,), (30, 10), (30, 10)), "rnn": ((20, 10), (45, 30, 10), (45, 30, 10))},
    "activation": {"nmn": ("srelu",) * 3, "rnn": ("relu", "srelu", "srelu")},
}

DYNAMICS = {  # field of the dynamics, by benchmark
    "b1": {"alpha_max": 10.0, "observation_max": 5.0, "action_max": 20.0, "hit_radius": 1.0, "hit_reward": 10.0},
    "b2": {
        "spawn_exclusion": 0.0, "target_radius": 0.4, "move": 0.25, "cone": math.pi / 4,
        "target_reward": 100.0, "step_reward": -2.0,
    },
    "b3": {
        "spawn_exclusion": 0.0, "target_radius": 0.4, "move": 0.25,
        "good_reward": 100.0, "bad_reward": -50.0, "step_reward": 0.0,
    },
}  # fmt: skip
LENGTHS = {"b1": 1400, "b2": 4000, "b3": 5000}  # L


@pytest.mark.parametrize("column, benchmark", [*enumerate(BENCHMARKS)])
@pytest.mark.parametrize("kind", ["nmn", "rnn"])
def test_the_recipe_has_the_authors_numbers_on_every_benchmark(column, benchmark, kind):
    _, recipe = PAPER[benchmark][kind]
    expected = {field: row[column] for (_, field), row in RECIPE.items()}
    assert dataclasses.asdict(recipe) == expected  # all fields: a new one needs its row
    assert (recipe.deterministic_share, recipe.entropy_weight, recipe.noise_color) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("column, benchmark", [*enumerate(BENCHMARKS)])
@pytest.mark.parametrize("kind", ["nmn", "rnn"])
def test_the_networks_are_the_appendixs(column, benchmark, kind):
    architecture, _ = PAPER[benchmark][kind]
    expected = {field: row[column] for field, row in ARCHITECTURE.items()}
    expected |= {field: rows[kind][column] for field, rows in BY_KIND.items()}
    assert dataclasses.asdict(architecture) == expected


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_the_worlds_are_the_appendixs(benchmark):
    env = envs.make(benchmark)
    assert dataclasses.asdict(env.unwrapped.dynamics) == DYNAMICS[benchmark]
    assert env.spec.max_episode_steps == LENGTHS[benchmark] == envs.BENCHMARKS[benchmark].episode_steps
    assert envs.BENCHMARKS[benchmark].discount == 0.998
    assert (plane.REACH, plane.TARGET_REACH, plane.SPAWN_REACH) == (2.0, 1.0, 1.5)


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_an_agent_of_a_preset_is_trained_with_them(benchmark):
    """What `nmn train b3-nmn --recipe paper` makes: recipe, optimisers and the weights' distribution."""
    agent = ActorCritic.from_preset(f"{benchmark}-nmn", recipe="paper")
    agent.compile()
    assert agent.recipe == PAPER[benchmark]["nmn"][1]
    for optimizer, rate in zip(agent.optimizers, (2e-4, 6e-3), strict=True):
        config = optimizer.get_config()
        assert type(optimizer).__name__ == "Adam" and float(optimizer.learning_rate) == np.float32(rate)
        assert (config["beta_1"], config["beta_2"], config["epsilon"]) == (0.9, 0.999, 1e-8)
        assert not config["amsgrad"] and not config["weight_decay"]
        assert not any(config[name] for name in ("clipnorm", "global_clipnorm", "clipvalue"))
    for network in (agent.actor, agent.critic):
        kernels = [np.asarray(w) for w in network.get_weights() if w.ndim == 2]
        drawn = np.concatenate([kernel.ravel() for kernel in kernels])
        assert 0.17 < np.abs(drawn).max() <= 0.2  # normal with deviation 0.1, cut at two deviations
        assert drawn.std() == pytest.approx(0.1 * 0.8796, rel=0.03)  # that of a normal cut there
        assert not any(w.any() for w in network.get_weights() if w.ndim == 1)
