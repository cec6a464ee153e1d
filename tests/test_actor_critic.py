import dataclasses
import json
import threading

import gymnasium
import keras
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, Sequence
from gymnasium.vector import SyncVectorEnv
from tiny_agents import LAYERS, RECIPES, assert_identical, perturb, snapshot, tiny_agent
from tiny_envs import Faulty, Patchwork, Unsupported

from nmn_keras import ActorCritic, Architecture, envs
from nmn_keras.actor_critic import TrainingDiverged
from nmn_keras.evaluation import VALIDATION_SEED
from nmn_keras.export import FILES, export_agent

VECTOR = Box(-1.0, 1.0, (1,), np.float32)


def at_update(update, action):
    """A callback that acts once so many updates are done."""

    def on_epoch_end(epoch, logs):
        if epoch + 1 == update:
            action()

    return keras.callbacks.LambdaCallback(on_epoch_end=on_epoch_end)


# Training


@pytest.mark.parametrize("recipe", ["fast", "paper"])
def test_fit_gives_a_history_with_one_entry_per_update(recipe, request):
    agent = request.getfixturevalue(f"{recipe}_agent")
    before = snapshot(agent)
    history = agent.fit("b1", verbose=0)
    assert isinstance(history, keras.callbacks.History) and history is agent.history
    assert history.epoch == [0, 1, 2, 3]
    expected = {"reward", "return", "discounted_return", "share", "policy_loss", "value_loss", "kl"}
    assert expected <= history.history.keys()
    assert {len(values) for values in history.history.values()} == {4}
    assert np.isfinite([*history.history.values()]).all()
    assert min(history.history["value_loss"]) > 0 and len({*history.history["reward"]}) == 4
    after = snapshot(agent)
    assert all((before[v.path] != after[v.path]).any() for v in agent.trainable_variables)


def test_the_rates_are_the_recipes(fast_agent):
    rates = fast_agent.fit("b1", verbose=0).history["actor_learning_rate"]
    first = RECIPES["fast"].actor_learning_rate
    assert rates[0] == first and (np.diff(rates) < 0).all() and rates[-1] <= first / 4
    used = [float(np.asarray(o.learning_rate)) for o in fast_agent.optimizers]
    assert used == pytest.approx([rates[-1], RECIPES["fast"].critic_learning_rate / 4])


def test_the_seed_alone_decides(fast_agent, resettable_fast):
    fast_agent.fit("b1", verbose=0)
    first = snapshot(fast_agent)
    resettable_fast.reset().fit("b1", verbose=0, seed=3)  # the constructor's
    assert_identical(first, snapshot(fast_agent))
    resettable_fast.reset().fit("b1", verbose=0, seed=4)
    other = snapshot(fast_agent)
    assert all((first[v.path] != other[v.path]).any() for v in fast_agent.trainable_variables)


def test_first_weights_follow_from_the_seed(fast_agent):
    again, other = tiny_agent(seed=3).get_weights(), tiny_agent(seed=4).get_weights()
    for ours, same, different in zip(fast_agent.get_weights(), again, other, strict=True):
        np.testing.assert_array_equal(ours, same)
        assert (ours != different).any() or not ours.any()
    assert (fast_agent.actor.get_weights()[0] != fast_agent.critic.get_weights()[0]).any()


@pytest.mark.parametrize("recipe", ["fast", "paper"])
def test_a_saved_run_goes_on_as_if_it_had_never_stopped(recipe, request, tmp_path):
    agent = request.getfixturevalue(f"{recipe}_agent")
    saved = {}

    def save():
        agent.save(tmp_path)
        saved.update(snapshot(agent))

    agent.fit("b1", verbose=0, callbacks=[at_update(2, save)])
    whole = snapshot(agent)
    loaded = ActorCritic.load(tmp_path)
    assert_identical(saved, snapshot(loaded))
    assert (loaded.recipe, loaded.architecture, loaded.seed) == (agent.recipe, agent.architecture, agent.seed)
    assert len(loaded.run.buffer) == agent.recipe.critic_batches - 1
    config = json.loads((tmp_path / "config.json").read_text())
    assert config == json.loads(json.dumps(agent.get_config())) == json.loads(json.dumps(loaded.get_config()))
    again = request.getfixturevalue(f"resettable_{recipe}").reset()  # has nothing of what it learnt, and is compiled
    again.restore(tmp_path)
    assert_identical(saved, snapshot(again))
    assert again.fit(resume=True, verbose=0).epoch == [2, 3]
    assert_identical(whole, snapshot(again))


def test_a_stopped_run_goes_on_in_the_same_agent(fast_agent, resettable_fast):
    fast_agent.fit("b1", verbose=0)
    whole = snapshot(fast_agent)
    agent = resettable_fast.reset()
    history = agent.fit("b1", verbose=0, callbacks=[at_update(1, lambda: setattr(agent, "stop_training", True))])
    assert (history.epoch, agent.run.update, agent.run.updates) == ([0], 1, 4)
    assert agent.fit(resume=True, verbose=0).epoch == [1, 2, 3]
    assert_identical(whole, snapshot(agent))
    assert agent.fit(resume=True, verbose=0).epoch == []  # there is nothing left to do
    assert_identical(whole, snapshot(agent))
    assert agent.fit(resume=True, episodes=18, verbose=0).epoch == [4]  # rounded up to one update more


def test_validation_is_logged_when_due_and_changes_nothing(fast_agent, resettable_fast):
    kwargs = {"env_kwargs": {"max_episode_steps": 25}, "verbose": 0}
    fast_agent.fit("b1", **kwargs)
    without = snapshot(fast_agent)
    agent, seen = resettable_fast.reset(), []
    watch = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append("val_return" in logs))
    history = agent.fit("b1", validation_episodes=3, validation_freq=3, callbacks=[watch], **kwargs)
    assert seen == [False, False, True, True]  # each third, and the last
    assert_identical(without, snapshot(agent))
    scores = agent.evaluate(episodes=3, seed=VALIDATION_SEED)
    assert scores["length"] == 25  # the training environment's arguments
    for name in ("return", "discounted_return", "share"):
        assert history.history[f"val_{name}"][-1] == scores[name]


def test_fit_works_outside_of_the_main_thread(fast_agent):
    thread = threading.Thread(target=fast_agent.fit, args=("b1",), kwargs={"verbose": 0})
    thread.start()
    thread.join()
    assert fast_agent.run.update == 4


def test_an_environment_is_remembered_by_its_arguments(fast_agent, tmp_path):
    env = gymnasium.make("nmn_keras/MovingTarget-v0", alpha_max=2.0, max_episode_steps=30, render_mode="rgb_array")
    history = fast_agent.fit(env, episodes=4, verbose=0)
    assert "share" not in history.history  # the optimum is another task's
    fast_agent.save(tmp_path)
    run = ActorCritic.load(tmp_path).run
    assert (run.env_id, run.env_kwargs) == (env.spec.id, {"alpha_max": 2.0, "max_episode_steps": 30})
    assert fast_agent.evaluate(episodes=2)["length"] == 30


# Other environments


def test_several_action_dimensions_and_episodes_that_end_early(tmp_path):
    architecture = Architecture.for_env(Patchwork, **LAYERS)
    assert (architecture.observation_size, architecture.action_size) == (2, 3)
    assert architecture.action_low == (-1.0, 0.5, None) and architecture.action_high == (3.0, 0.75, None)
    assert architecture.action_scale == (2.0, 0.125, 1.0) and architecture.action_offset == (1.0, 0.625, 0.0)
    agent = ActorCritic(architecture, RECIPES["fast"], seed=0)
    before = agent.get_weights()
    history = agent.fit(Patchwork, episodes=8, verbose=0, run_dir=tmp_path / "run")
    assert history.epoch == [0, 1] and "share" not in history.history
    assert all((a != b).any() for a, b in zip(before, agent.get_weights(), strict=True))
    scores = agent.evaluate(Patchwork, 10, deterministic=False)  # it would refuse an action outside of its space
    assert 3 < scores["length"] < 9
    loaded = ActorCritic.load(tmp_path / "run")
    with pytest.raises(ValueError, match="`env` is missing"):
        loaded.fit(resume=True)


def test_pendulum():
    architecture = Architecture.for_env("Pendulum-v1", kind="rnn", gru_units=(5,), hidden_units=(4,))
    assert architecture.action_scale == (2.0,) and architecture.signal_units == 0
    agent = ActorCritic(architecture, dataclasses.replace(RECIPES["paper"], rollout_steps=None, critic_batches=1))
    history = agent.fit("Pendulum-v1", episodes=8, verbose=0)
    assert history.epoch == [0, 1] and max(history.history["reward"]) < 0
    steps = np.array(history.history["return"]) / history.history["reward"]
    assert steps == pytest.approx(200, rel=1e-5)  # L is the episode's length
    assert agent.evaluate(episodes=2)["length"] == 200


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_training_in_low_precision_and_the_float32_of_its_export(policy, tmp_path):
    default = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        agent = tiny_agent()
        before = agent.get_weights()
        agent.fit("b1", episodes=8, verbose=0, run_dir=tmp_path / "run")
        export_agent(agent, tmp_path, "tiny")
    finally:
        keras.config.set_dtype_policy(default)
    assert all((a != b).any() for a, b in zip(before, agent.get_weights(), strict=True))
    export_agent(ActorCritic.load(tmp_path / "run"), tmp_path / "float32", "tiny")
    for file in FILES:
        assert (tmp_path / file).read_bytes() == (tmp_path / "float32" / file).read_bytes()


# Acting


def test_actions_are_the_mean_or_drawn_around_it_and_inside_the_bounds(exported):
    agent, rows = exported[0], 4000
    inputs = [np.full((rows, 1), x, "float32") for x in (2.0, -3.0, 1.5)]
    state = np.full((rows, agent.architecture.state_size), 0.3, "float32")
    outputs = agent.step(*inputs, state)
    mean, deviation = 5.0 * outputs["action_mean"][0], 5.0 * np.exp(outputs["action_log_std"][0])
    action, state_out = agent.act(*inputs, state)
    np.testing.assert_allclose(action, np.clip(np.tile(mean, (rows, 1)), -20, 20), rtol=1e-5)
    np.testing.assert_array_equal(state_out, outputs["state_out"])
    drawn, sampled_state = agent.act(*inputs, state, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(sampled_state, state_out)
    assert drawn.mean() == pytest.approx(mean[0], abs=5 * deviation[0] / np.sqrt(rows))
    assert drawn.std() == pytest.approx(deviation[0], rel=5 / np.sqrt(2 * rows))
    wild, _ = agent.act(*inputs, 50.0 * state, rng=np.random.default_rng(0))
    extreme, _ = agent.act(1e4 * inputs[0], *inputs[1:], state)
    assert np.abs(wild).max() <= 20.0 and np.abs(extreme).max() <= 20.0
    assert {a.dtype.name for a in (action, state_out, drawn)} == {"float32"}


def test_memory_starts_empty_and_is_all_that_is_carried(exported):
    agent = exported[0]
    state = agent.initial_state(2)
    assert state.shape == (2, agent.architecture.state_size) and not state.any()
    inputs = [np.float32([[1.0], [2.0]]), np.float32([[0.5], [0.0]]), np.float32([[-1.0], [3.0]])]
    _, state = agent.act(*inputs, state)
    first, _ = agent.act(*inputs, state)
    again, _ = agent.act(*inputs, state)
    np.testing.assert_array_equal(first, again)  # nothing hides in the agent
    alone, _ = agent.act(*(x[1:] for x in inputs), state[1:])
    np.testing.assert_allclose(alone, first[1:], rtol=1e-5)  # rows do not see each other
    assert (agent.act(*inputs, agent.initial_state(2))[0] != first).any()


@pytest.mark.parametrize("at", range(4))
def test_inputs_of_another_shape_are_refused(exported, at):
    agent = exported[0]
    name = ("observation", "prev_action", "prev_reward", "state")[at]
    sizes = (1, 1, 1, agent.architecture.state_size)
    for shape in ((2, sizes[at] + 1), (sizes[at],), (3, sizes[at]), ()):
        arrays = [np.zeros(shape if i == at else (2, size), "float32") for i, size in enumerate(sizes)]
        blamed = "`prev_action`" if (at, len(shape)) == (0, 2) and shape[1] == 1 else f"`{name}`"
        with pytest.raises(ValueError, match=f"{blamed} does not fit the agent.*shape"):
            agent.act(*arrays)


# What is refused


def refused(call, agent, error, message):
    """The error, with nothing changed by it."""
    before, run = snapshot(agent), agent.run
    with pytest.raises(error, match=message):
        call()
    assert_identical(before, snapshot(agent))
    assert agent.run is run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"episodes": 0}, "`episodes` must be an integer >= 1. Received: episodes=0"),
        ({"episodes": True}, "`episodes` must be an integer >= 1. Received: episodes=True"),
        ({"episodes": 8.0}, "`episodes` must be an integer >= 1. Received: episodes=8.0"),
        ({"seed": -1}, "`seed` must be an integer >= 0. Received: seed=-1"),
        ({"seed": "3"}, "`seed` must be an integer >= 0. Received: seed='3'"),
        ({"checkpoint_freq": 0}, "`checkpoint_freq` must be an integer >= 1"),
        ({"validation_freq": 0}, "`validation_freq` must be an integer >= 1"),
        ({"validation_episodes": -1}, "`validation_episodes` must be an integer >= 0"),
        ({"env": "b9"}, "Unknown environment. Known: b1, .*Received: 'b9'"),
        ({"env": None}, "`env` is missing: a short name"),
        ({"env_kwargs": {"alpha_max": object()}}, "kept with the run, as JSON"),
        ({"callbacks": keras.callbacks.BackupAndRestore("b.weights.h5")}, "brings back weights alone, not the run"),
        ({"env": "CartPole-v1"}, r"does not fit the agent.*sizes \(1, 1\). Received: \(4, 1\)"),
        ({"env": lambda: Unsupported(VECTOR, Discrete(2))}, r"numbers of choices are None .*Received: \(2,\)"),
        ({"env": SyncVectorEnv([Faulty] * 3)}, r"as many environments .* in an update .* 4. Received: 3"),
        ({"env": "Pendulum-v1"}, r"does not fit the agent.*sizes \(1, 1\). Received: \(3, 1\)"),
        ({"env": lambda: Unsupported(Box(0, 255, (8, 8, 3), np.uint8), VECTOR)}, r"Received: \(192, 1\)"),
        ({"env": lambda: Unsupported(Sequence(VECTOR), VECTOR)}, "observation space is not supported.*Sequence"),
        ({"env": lambda: Unsupported(VECTOR, Box(0, 3, (1,), np.int32))}, "floating-point numbers.*int32"),
        ({"env": lambda: Unsupported(VECTOR, VECTOR)}, r"bounds exceed the environment's, \[-1.\] to \[1.\]"),
    ],
)
def test_fit_refuses_before_anything_changes(fast_agent, tmp_path, arguments, message):
    run_dir = tmp_path / "run"
    arguments = {"env": "b1", "run_dir": run_dir, **arguments}
    refused(lambda: fast_agent.fit(**arguments), fast_agent, ValueError, message)
    assert not run_dir.exists()


def test_a_vector_environment_is_known_by_what_it_was_made_of(fast_agent):
    many = envs.make_vec("b1", 4, max_episode_steps=50)
    history = fast_agent.fit(many, episodes=4, validation_episodes=2, verbose=0).history
    assert "val_share" in history
    assert (fast_agent.run.env_id, fast_agent.run.env_kwargs) == (
        "nmn_keras/MovingTarget-v0",
        {"max_episode_steps": 50},
    )
    fast_agent.fit(many, episodes=8, resume=True, verbose=0)  # it was left open
    assert fast_agent.run.update == 2
    assert fast_agent.evaluate(episodes=3)["length"] == 50.0
    with pytest.raises(TypeError, match=r"takes no arguments. Received: env_kwargs=\{'alpha_max': 3.0\}"):
        fast_agent.fit(many, env_kwargs={"alpha_max": 3.0})


def test_a_run_goes_on_with_its_own_environment(fast_agent):
    fast_agent.fit("b1", episodes=4, env_kwargs={"alpha_max": np.float32(8.0)}, verbose=0)
    assert fast_agent.run.env_kwargs == {"alpha_max": 8.0} and type(fast_agent.run.env_kwargs["alpha_max"]) is float
    for env, kwargs in (("b1", {"alpha_max": 3.0}), (None, {"alpha_max": 3.0}), (envs.make("b1"), {}), ("b2", {})):

        def go_on(env=env, kwargs=kwargs):
            fast_agent.fit(env, episodes=8, resume=True, env_kwargs=kwargs)

        refused(go_on, fast_agent, ValueError, "goes on with its own environment.*alpha_max': 8.0")
    fast_agent.fit("b1", episodes=8, resume=True, verbose=0)
    assert fast_agent.run.update == 2


def test_a_recipe_that_does_not_fit_the_environment_is_refused(fast_agent):
    endless = dataclasses.replace(RECIPES["fast"], rollout_steps=None)
    agent = ActorCritic(fast_agent.architecture, endless)
    agent.compile()
    refused(lambda: agent.fit(Faulty), agent, ValueError, "no episode length.*needs `rollout_steps`")
    short = {"max_episode_steps": 9}
    refused(lambda: agent.fit("b1", env_kwargs=short), agent, ValueError, "at least one segment.*segment_steps=10")


@pytest.mark.parametrize(("what", "step"), [("start", 0), ("reward", 2), ("observation", 4)])
def test_numbers_that_are_not_finite_stop_training(fast_agent, what, step):
    before = fast_agent.get_weights()
    with pytest.raises(ValueError, match=rf"non-finite .* at step {step} in environments \[0, 1, 2, 3\]"):
        fast_agent.fit(lambda: Faulty(what), verbose=0)
    assert all((a == b).all() for a, b in zip(before, fast_agent.get_weights(), strict=True))


def test_unknown_names_list_the_known_ones(fast_agent):
    with pytest.raises(ValueError, match=r"Unknown preset. Known: \['b1-film', .*'b1-nmn', .*Received: 'b1'"):
        ActorCritic.from_preset("b1")
    with pytest.raises(ValueError, match=r"Unknown recipe. Known: \['fast', 'paper'\]. Received: 'slow'"):
        ActorCritic.from_preset("b1-nmn", recipe="slow")
    with pytest.raises(TypeError, match=r"must be a nmn_keras.Architecture .*Received: 'b1-nmn'"):
        ActorCritic("b1-nmn")
    with pytest.raises(ValueError, match=r"`seed` must be an integer >= 0. Received: seed=0.5"):
        ActorCritic(fast_agent.architecture, seed=0.5)
    with pytest.raises(ValueError, match="no run to resume"):
        tiny_agent().fit(resume=True)


def test_optimisers_may_be_chosen_but_not_their_schedule(tmp_path):
    agent = tiny_agent()
    agent.compile(keras.optimizers.SGD(0.25, momentum=0.5), "rmsprop")
    assert (agent.recipe.actor_learning_rate, agent.recipe.critic_learning_rate) == (0.25, pytest.approx(0.001))
    agent.save(tmp_path)
    loaded = ActorCritic.load(tmp_path)
    assert [type(o) for o in loaded.optimizers] == [keras.optimizers.SGD, keras.optimizers.RMSprop]
    assert (loaded.optimizers.actor.momentum, loaded.recipe) == (0.5, agent.recipe)
    one = keras.optimizers.SGD(0.1)
    with pytest.raises(ValueError, match=r"an optimiser each.*Received: 'sgd.*' twice"):
        tiny_agent().compile(one, one)
    schedule = keras.optimizers.schedules.ExponentialDecay(1e-3, 10, 0.9)
    with pytest.raises(ValueError, match=r"`critic_optimizer` needs a number.*not a schedule.*ExponentialDecay"):
        tiny_agent().compile(critic_optimizer=keras.optimizers.Adam(schedule))


# Run directories


def test_another_agents_run_is_refused(fast_agent, tmp_path):
    other = tiny_agent(gru_units=(6,))
    other.save(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    message = r"holds another architecture.*'gru_units': \(\[6\], \[5\]\)"
    refused(lambda: fast_agent.restore(tmp_path), fast_agent, ValueError, message)
    fast_agent.run.updates = 4
    go_on = {"resume": True, "run_dir": tmp_path}
    refused(lambda: fast_agent.fit("b1", **go_on), fast_agent, ValueError, message)
    for call in (lambda: fast_agent.fit("b1", run_dir=tmp_path), lambda: fast_agent.save(tmp_path, overwrite=False)):
        refused(call, fast_agent, FileExistsError, "exists and is not empty")
    assert before == {path.name: path.read_bytes() for path in tmp_path.iterdir()}


def test_another_recipe_or_seed_is_refused(fast_agent, paper_agent, tmp_path):
    paper_agent.save(tmp_path / "paper")
    message = r"holds another recipe.*'name': \('paper', 'fast'\)"
    refused(lambda: fast_agent.restore(tmp_path / "paper"), fast_agent, ValueError, message)
    fast_agent.run = dataclasses.replace(fast_agent.run, updates=4, seed=8)
    fast_agent.save(tmp_path / "eight")
    fast_agent.run = dataclasses.replace(fast_agent.run, seed=9)
    go_on = {"resume": True, "run_dir": tmp_path / "eight"}
    refused(lambda: fast_agent.fit("b1", **go_on), fast_agent, ValueError, r"holds another run.*'seed': \(8, 9\)")


def test_a_spoilt_run_directory_changes_nothing(fast_agent, tmp_path):
    perturb(tiny_agent()).save(tmp_path)
    path = next(tmp_path.glob("agent-*"))
    path.write_bytes(path.read_bytes()[:-1])
    refused(lambda: fast_agent.restore(tmp_path), fast_agent, ValueError, rf"{path.name} is truncated or was altered")
    with pytest.raises(ValueError, match="No whole checkpoint found"):
        ActorCritic.load(tmp_path / "nowhere")


def test_a_diverging_run_stops_and_leaves_the_last_good_checkpoint(fast_agent, tmp_path):
    good, run_dir = {}, tmp_path / "run"

    def spoil():
        good.update(snapshot(fast_agent))
        fast_agent.run.coefficients["actor_learning_rate"] = 1e30

    with pytest.raises(TrainingDiverged, match=r"diverged in update 3 of 4: .*'policy_loss': (nan|inf)"):
        fast_agent.fit("b1", verbose=0, run_dir=run_dir, checkpoint_freq=2, callbacks=[at_update(2, spoil)])
    loaded = ActorCritic.load(run_dir)
    found = snapshot(loaded)
    assert found["coefficient actor_learning_rate"] == 1e30
    assert_identical({**good, "coefficient actor_learning_rate": np.array(1e30)}, found)
    assert np.isfinite(np.concatenate([w.ravel() for w in loaded.get_weights()])).all()


def test_a_policy_that_overflows_counts_as_divergence(fast_agent):
    bias = next(v for v in fast_agent.actor.variables if v.path.endswith("main_1/bias"))
    bias.assign(np.float32([0.0, 500.0]))
    with pytest.raises(TrainingDiverged, match="diverged in update 1 of 4: non-finite action at step 0"):
        fast_agent.fit("b1", verbose=0)
