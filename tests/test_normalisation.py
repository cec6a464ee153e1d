import dataclasses
import itertools
import json

import gymnasium
import keras
import numpy as np
import onnxruntime
import pytest
from tiny_agents import LAYERS, RECIPES, assert_identical, perturb, snapshot, tiny_agent
from tiny_envs import Patchwork

from nmn_keras import ActorCritic, Architecture, OnnxAgent, rollout
from nmn_keras.export import export_agent
from nmn_keras.normalisation import Moments, Statistics, discounted_so_far

BOTH = {"normalise_observations": True, "normalise_rewards": True}
KINDS = {kind: {"signal_units": 3 if kind in ("nmn", "hyper") else 0} for kind in ("nmn", "rnn", "film", "hyper")}


def normalising(kind="nmn", **fields):
    """An agent for a small environment whose numbers are far from the order of 1."""
    architecture = Architecture.for_env(Patchwork, kind, **{**LAYERS, **KINDS[kind], **BOTH, **fields})
    return ActorCritic(architecture, RECIPES["fast"], seed=3)


def seen_something(agent, seed=0):
    """The agent with moved weights and statistics of made-up numbers."""
    rng = np.random.default_rng(seed)
    perturb(agent)
    observation = rng.normal([300.0, -2.0], [40.0, 0.01], (50, 4, 2))
    statistics = Statistics().merge(observation, 25.0 * rng.normal(size=(50, 4)), np.zeros((50, 4)), 0.9)
    for network in (agent.actor, agent.critic):
        network.assume(statistics)
    return agent, statistics


def inputs(agent, rows=5, seed=1):
    rng, a = np.random.default_rng(seed), agent.architecture
    observation = rng.normal([300.0, -2.0], [40.0, 0.01], (rows, 2)).astype("float32")
    others = [rng.normal(size=(rows, n)).astype("float32") for n in (a.action_size, 1, a.state_size)]
    return [observation, others[0], 25.0 * others[1], 0.3 * others[2]]


# The running numbers


def test_moments_of_parts_are_those_of_the_whole():
    rows = np.random.default_rng(0).normal([1e6, -3.0, 7.0], [1.0, 100.0, 0.0], (1000, 3))
    moments = Moments()
    for part in np.split(rows, [1, 17, 500]):
        moments = moments.merge(part)
    assert moments.count == 1000
    np.testing.assert_allclose(moments.mean, rows.mean(axis=0), rtol=1e-12)
    deviation = rows.std(axis=0)
    np.testing.assert_allclose(moments.factor()[:2], 1.0 / deviation[:2], rtol=1e-9)
    assert moments.factor()[2] == 1.0  # what does not vary is left as it is
    assert Moments().factor() == 1.0


def test_discounted_returns_are_sums_over_an_episode_so_far():
    rng = np.random.default_rng(2)
    rewards, ends = rng.normal(5.0, 3.0, (60, 2)), np.zeros((60, 2))
    ends[[7, 20, 21, 59], 0] = ends[30, 1] = 1.0
    found = discounted_so_far(rewards, ends, 0.9)
    for n in range(2):
        begun = 0
        for t in range(60):
            so_far = rewards[begun : t + 1, n]
            assert found[t, n] == pytest.approx(so_far @ 0.9 ** np.arange(len(so_far))[::-1], rel=1e-9)
            begun = t + 1 if ends[t, n] else begun


def test_the_reward_scale_is_gymnasiums():
    """Where no episode ends; at an end `NormalizeReward` forgets what came before one step sooner."""
    rewards = np.random.default_rng(3).normal(5.0, 3.0, 500)

    class Scripted(gymnasium.Env):
        observation_space = action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))
        coming = iter(rewards)

        def step(self, action):
            return np.zeros(1, "float32"), next(self.coming), False, False, {}

    env = gymnasium.wrappers.NormalizeReward(Scripted(), gamma=0.9)
    scaled = [env.step(np.zeros(1))[1] for _ in rewards][-1].item()
    nothing = np.zeros((500, 1))
    found = Statistics().merge(nothing[..., None], rewards[:, None], nothing, 0.9).discounted_return.factor()
    assert found == pytest.approx(scaled / rewards[-1], rel=1e-3)  # its count begins at 1e-4


def test_statistics_come_back_from_their_arrays():
    _, statistics = seen_something(normalising())
    again = Statistics.restore({"buffer/0/target": np.zeros(1), **statistics.arrays()})
    for part in ("observation", "discounted_return"):
        for field in dataclasses.fields(Moments):
            a, b = (getattr(getattr(s, part), field.name) for s in (statistics, again))
            np.testing.assert_array_equal(a, b)
    assert Statistics().arrays() == {} and Statistics.restore({}) == Statistics()


# Inside a network


@pytest.mark.parametrize("kind", KINDS)
def test_fresh_statistics_change_nothing(kind):
    """Mean 0 and factor 1: the network is the one without."""
    with_, without = normalising(kind), normalising(kind, **dict.fromkeys(BOTH, False))
    for network, other in ((with_.actor, without.actor), (with_.critic, without.critic)):
        for a, b in zip(network.trainable_variables, other.trainable_variables, strict=True):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    near = [np.float32([[3.0, -9.0]]), *(x[:1] for x in inputs(with_)[1:])]
    for name, array in with_.step(*near).items():
        np.testing.assert_array_equal(array, without.step(*near)[name])


@pytest.mark.parametrize("kind", KINDS)
def test_a_network_under_statistics_is_the_plain_one_fed_normalised_numbers(kind):
    agent, statistics = seen_something(normalising(kind))
    plain = perturb(normalising(kind, **dict.fromkeys(BOTH, False)))
    plain.set_weights(
        [np.asarray(v) for v in agent.variables if "standardise" not in v.path and "scale_reward" not in v.path]
    )
    observation, action, reward, state = inputs(agent)
    observation[0, 1] = 50.0  # five thousand deviations away
    moments = statistics.observation
    seen = np.clip((observation - moments.mean) / np.sqrt(moments.squares / moments.count), -10.0, 10.0)
    assert seen[0, 1] == 10.0
    scaled = reward * statistics.discounted_return.factor()
    found = agent.step(observation, action, reward, state)
    expected = plain.step(seen, action, scaled, state)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5, err_msg=name)
    if kind == "nmn":  # the memory holds what was seen, not what was observed
        np.testing.assert_allclose(found["state_out"][:, :2], seen, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sequence_equals_steps(kind):
    agent, _ = seen_something(normalising(kind))
    steps = [inputs(agent, seed=seed)[:3] for seed in range(6)]
    keep = np.ones((6, 5, 1), "float32")
    keep[3, 2] = 0.0
    state = agent.initial_state(5)
    output, states = agent.actor.sequence(*(np.stack(x) for x in zip(*steps, strict=True)), state, keep)
    for t, step in enumerate(steps):
        expected, state = agent.actor(*step, np.asarray(state) * keep[t])
        np.testing.assert_allclose(np.asarray(output)[t], np.asarray(expected), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(np.asarray(states)[t], np.asarray(state), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_exported_graph_holds_them(kind, tmp_path):
    agent, _ = seen_something(normalising(kind))
    files = [export_agent(agent, tmp_path / name, "tiny")["policy.onnx"] for name in ("one", "two")]
    assert files[0].read_bytes() == files[1].read_bytes()
    session = onnxruntime.InferenceSession(files[0])
    names = ("observation", "prev_action", "prev_reward", "state_in")
    for rows in (1, 3, 64):
        arrays = inputs(agent, rows)
        arrays[0][0, 1] = 50.0
        found = session.run(None, dict(zip(names, arrays, strict=True)))
        expected = agent.step(*arrays)
        for tensor, array in zip(session.get_outputs(), found, strict=True):
            scale = max(1.0, np.abs(expected[tensor.name]).max())
            assert np.abs(array - expected[tensor.name]).max() <= 1e-5 * scale, tensor.name
    golden = np.load(tmp_path / "one" / "golden.npz")["observation"]
    assert 150.0 < golden[..., 0].min() and golden[..., 0].max() < 450.0  # drawn where the agent has been
    assert OnnxAgent(files[0]).initial_state(1).shape[1] == agent.architecture.state_size


# In training


def test_a_policy_is_learnt_from_under_the_statistics_it_played_under(tmp_path):
    agent = normalising()
    agent.compile()
    seen, update = [], agent._update

    def watch(played, *rest):
        policy, state = [], np.zeros_like(played["actor_state"][0])
        for t in range(len(played["reward"])):
            output, state = agent.actor(
                *(played[n][t] for n in ("observation", "prev_action", "prev_reward")), state * played["keep"][t]
            )
            policy.append(np.asarray(agent.architecture.head.policy(output)))
            state = np.asarray(state)
        log_prob = agent.architecture.head.log_prob
        ratio = np.exp(
            np.asarray(log_prob(np.stack(policy), played["action"]) - log_prob(played["policy"], played["action"]))
        )
        seen.append((np.abs(ratio - 1.0).max(), np.asarray(agent.actor.standardise.mean).copy()))
        return update(played, *rest)

    agent._update = watch
    agent.fit(Patchwork, episodes=12, verbose=0)
    assert max(ratio for ratio, _ in seen) < 1e-4
    means = [mean for _, mean in seen]
    assert (means[0] != 0.0).any()  # of a rollout before the first update
    assert all((a != b).any() for a, b in itertools.pairwise(means))  # and again between updates
    np.testing.assert_array_equal(np.asarray(agent.actor.standardise.mean), np.asarray(agent.critic.standardise.mean))
    assert agent.run.statistics.observation.count == 4 * 20 * 4


def test_statistics_are_those_of_what_was_played(monkeypatch):
    rollouts, play = [], rollout.play
    monkeypatch.setattr(rollout, "play", lambda *args: rollouts.append(play(*args)) or rollouts[-1])
    agent = normalising()
    history = agent.fit(Patchwork, episodes=8, verbose=0)
    observed = np.concatenate([played.observation.reshape(-1, 2) for played in rollouts])
    returns = []
    for played in rollouts:
        for n in range(4):
            total = 0.0
            for reward, ended in zip(played.reward[:, n].astype(float), played.ended[:, n], strict=True):
                total = agent.recipe.discount * total + reward
                returns.append(total)
                total = 0.0 if ended else total
    np.testing.assert_allclose(np.asarray(agent.actor.standardise.mean), observed.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(np.asarray(agent.actor.standardise.factor), 1.0 / observed.std(axis=0), rtol=1e-5)
    np.testing.assert_allclose(float(np.asarray(agent.critic.scale.factor)), 1.0 / np.std(returns), rtol=1e-5)
    assert history.history["reward"][-1] == pytest.approx(rollouts[-1].reward.mean(), rel=1e-5)  # logs stay raw


def test_acting_and_evaluating_change_no_statistics():
    agent, _ = seen_something(normalising())
    before = snapshot(agent)
    agent.evaluate(Patchwork, 5)
    agent.act(*inputs(agent), rng=np.random.default_rng(0))
    assert_identical(before, snapshot(agent))


def test_a_saved_run_goes_on_as_if_it_had_never_stopped(tmp_path):
    whole, half = normalising(), normalising()
    whole.fit(Patchwork, episodes=16, verbose=0)
    half.fit(Patchwork, episodes=16, verbose=0, run_dir=tmp_path / "run", callbacks=[stop_after(2, half)])
    loaded = ActorCritic.load(tmp_path / "run")
    assert loaded.run.statistics.observation.count == half.run.statistics.observation.count == 3 * 20 * 4
    loaded.fit(Patchwork, resume=True, verbose=0)
    assert_identical(snapshot(whole), snapshot(loaded))
    assert_statistics_equal(whole, loaded)


def stop_after(updates, agent):
    def on_epoch_end(epoch, logs):
        agent.stop_training = epoch + 1 == updates

    return keras.callbacks.LambdaCallback(on_epoch_end=on_epoch_end)


def assert_statistics_equal(one, other):
    for name, array in one.run.statistics.arrays().items():
        np.testing.assert_array_equal(array, other.run.statistics.arrays()[name], err_msg=name)


# What is refused, and what old files hold


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"normalise_observations": True, "observation_period": 2.0}, "give either `observation_period` or"),
        ({"normalise_rewards": 1}, "`normalise_rewards` must be True or False. Received: normalise_rewards=1"),
        ({"initializer": "he"}, r"`initializer` must be one of \('normal', 'orthogonal'\). Received: initializer='he'"),
        ({"output_gain": 0.0}, "`output_gain` must be positive and finite. Received: output_gain=0.0"),
    ],
)
def test_fields_that_do_not_fit_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Architecture.for_env(Patchwork, **fields)


def test_configurations_without_the_fields_are_still_read(tmp_path):
    new = ("normalise_observations", "normalise_rewards", "initializer", "output_gain")
    agent = tiny_agent()
    agent.save(tmp_path)
    index = json.loads((tmp_path / "checkpoint.json").read_text())
    assert "statistics" not in index["state"]
    old = {key: value for key, value in agent.architecture.get_config().items() if key not in new}
    assert Architecture.from_config(json.loads(json.dumps(old))) == agent.architecture
    assert not agent.non_trainable_variables


def test_training_together_in_one_program_is_refused():
    pytest.importorskip("jax")
    from nmn_keras import lockstep

    with pytest.raises(ValueError, match=r"do not train together in one program.*normalise_observations=True"):
        lockstep.fit([normalising(), normalising()], Patchwork, [{}, {}])
