"""Several seeds in one program learn what each learns alone."""

import dataclasses
import json

import keras
import numpy as np
import pytest
from numpy.testing import assert_allclose
from tiny_agents import tiny_agent

from nmn_keras import ActorCritic, cli, envs, presets, rollout

if keras.backend.backend() != "jax":
    pytest.skip("one program for several seeds is JAX's", allow_module_level=True)

import jax

from nmn_keras import lockstep

N, STEPS = 6, 40
LAYERS = {"gru_units": (5,), "hidden_units": (4,)}


def small_agent(name, seed=0):
    """A preset's agent with fewer units."""
    architecture, recipe = presets.get(name)
    return ActorCritic(dataclasses.replace(architecture, **LAYERS), recipe, seed)


@pytest.mark.parametrize(
    ("name", "env_kwargs"),
    [("b1-nmn", {}), ("b2-nmn", {}), ("b2-rnn", {"spawn_exclusion": 0.6}), ("b3-nmn", {})],
)
def test_a_rollout_in_the_graph_is_the_numpy_one(name, env_kwargs):
    agent = small_agent(name)
    agent.compile()
    vector = envs.make_vec(name[:2], N, **env_kwargs)
    in_numpy = rollout.play(
        vector,
        lambda *inputs: [np.asarray(x) for x in agent._policy(*inputs)],
        agent.architecture,
        STEPS,
        agent.recipe,
        np.random.default_rng(5),
    )
    dynamics = vector.unwrapped.dynamics
    draws = lockstep.draw(dynamics, N, STEPS, agent.architecture, agent.recipe, np.random.default_rng(5))
    in_graph = jax.jit(lambda drawn: lockstep.play(dynamics, agent.actor, agent.recipe, drawn))(draws)
    assert in_graph.keys() == in_numpy.arrays().keys()
    assert len(np.unique(in_numpy.reward)) > 1
    for field, expected in in_numpy.arrays().items():
        assert_allclose(in_graph[field], expected, rtol=1e-4, atol=1e-4, err_msg=field)


def test_agents_that_kept_different_numbers_of_updates_are_refused():
    begun, fresh = tiny_agent("paper"), tiny_agent("paper", seed=4)
    begun.fit("b1", episodes=4, verbose=0)
    with pytest.raises(ValueError, match=r"resume those that have begun by themselves first. Received: \[1, 0\]"):
        lockstep.fit([begun, fresh], "b1", [{}, {}])


@pytest.mark.parametrize(
    ("recipe", "episodes"),
    [("fast", (8, 12)), ("paper", (8, 8))],  # of the first two seeds one ends before the other
)
def test_seeds_learn_together_what_they_learn_alone(recipe, episodes, tmp_path):
    alone, together = ([tiny_agent(recipe, seed) for seed in (3, 4)] for _ in range(2))
    options = [
        {"episodes": e, "seed": s, "verbose": 0, "validation_episodes": 2}
        for e, s in zip(episodes, (3, 4), strict=True)
    ]
    for agent, chosen in zip(alone, options, strict=True):
        agent.fit("b1", **chosen)
    options = [{**chosen, "run_dir": tmp_path / str(i)} for i, chosen in enumerate(options)]
    lockstep.fit(together, "b1", options)
    for i, (one, other) in enumerate(zip(together, alone, strict=True)):
        assert (one.run.update, one.run.seed) == (other.run.update, other.run.seed) == (episodes[i] / 4, 3 + i)
        for name, values in other.history.history.items():
            assert_allclose(one.history.history[name], values, rtol=1e-3, atol=1e-4, err_msg=name)
        saved = ActorCritic.load(tmp_path / str(i))
        assert saved.run.update == one.run.update
        for variable, kept, expected in zip(one.variables, saved.variables, other.variables, strict=True):
            assert_allclose(variable, expected, rtol=1e-3, atol=1e-4, err_msg=variable.path)
            assert_allclose(kept, variable, rtol=0)


def test_the_command_trains_seeds_together(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    options = "train b1-nmn --seeds 0:2 --episodes 8 --episodes-per-update 4 --rollout-steps 20 --segment-steps 10"
    options += " --epochs 1 --validation-episodes 2 --validation-freq 1 --test-episodes 2 --quiet"
    assert cli.main([*options.split(), "--together"]) == 0
    for seed in range(2):
        run_dir = tmp_path / "runs" / f"b1-nmn-fast-s{seed}"
        origin = json.loads((run_dir / "origin.json").read_text())
        assert f"--seed {seed} --episodes 8" in origin["command"]
        assert "discounted_return" in (run_dir / "scores.json").read_text()
        assert ActorCritic.load(run_dir).run.update == 2
    capsys.readouterr()
    assert cli.main([*options.split(), "--together", "--resume"]) == 0
    assert capsys.readouterr().out.count("has ended") == 2
    assert cli.main([*options.split(), "--together"]) == 2
    assert "exists and is not empty" in capsys.readouterr().err


def test_what_cannot_go_into_the_program_is_refused():
    agent = tiny_agent()
    with pytest.raises(ValueError, match=r"shorter than an episode.*Received: 20 of 20 steps"):
        lockstep.fit([agent], "b1", [{"env_kwargs": {"max_episode_steps": 20}, "verbose": 0}])
    with pytest.raises(ValueError, match="need one architecture and one recipe"):
        lockstep.fit([agent, tiny_agent("paper")], "b1", [{}, {}])
