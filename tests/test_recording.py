"""What is recorded of an agent: the published episodes, the networks' own signals and gains, the server's lock."""

import numpy as np
import pytest
from keras import ops

from nmn_keras import envs, evaluation, zoo
from nmn_keras.analysis.player import Player
from nmn_keras.analysis.recording import record
from nmn_keras.analysis.scale_factors import read_scale_factors
from nmn_keras.layers import NMNDense
from serve.sessions import layout_of, lock_session, open_session, unlock_session
from serve.steps import PlannedStep, take_steps

NMN = [name for name in zoo.list_agents() if zoo.card(name)["kind"] == "nmn"]


@pytest.mark.parametrize("deterministic", [True, False])
def test_recorded_episodes_are_those_of_the_published_scores(deterministic, monkeypatch):
    monkeypatch.setattr(evaluation, "_BATCH", 8)  # two vector environments, the second smaller
    agent = zoo.load("b1-nmn", "onnx")
    played = record(agent, "b1", 12, 200, deterministic=deterministic)
    scores = evaluation.play_episodes(agent, "b1", 12, deterministic, env_kwargs={"max_episode_steps": 200})
    np.testing.assert_allclose(played.rewards.sum(axis=0), scores["return"], rtol=1e-5)
    worth = 0.998 ** np.arange(200)
    np.testing.assert_allclose(worth @ played.rewards, scores["discounted_return"], rtol=1e-5)
    np.testing.assert_array_equal(played.tasks, evaluation.episode_tasks("b1", 12))


def test_a_recording_is_what_the_environment_did(monkeypatch):
    monkeypatch.setattr(evaluation, "_BATCH", 3)
    tasks = np.hstack([np.linspace(-0.9, 0.9, 20).reshape(5, 4), [[1], [-1], [-1], [1], [-1]]])
    played = record(zoo.load("b3-nmn", "onnx"), "b3", 5, 60, tasks=tasks, signal_steps=(7, 3))
    np.testing.assert_array_equal(played.tasks, tasks)
    assert played.signal_steps.tolist() == [3, 7] and played.signals.shape == (2, 5, 45)
    dynamics = envs.make("b3").unwrapped.dynamics
    for step in range(60):
        here = played.positions[step]
        np.testing.assert_allclose(dynamics.observation(here, tasks), played.observations[step], atol=1e-5)
        following, reward = dynamics.step(here.astype(float), tasks, played.actions[step], np.zeros((5, 2)))
        np.testing.assert_array_equal(reward, played.rewards[step])
        moved = (reward == 0) & (step < 59)
        np.testing.assert_allclose(following[moved], played.positions[min(step + 1, 59)][moved], atol=1e-5)
    assert (played.rewards > 0).any() and (played.rewards == 0).any()


@pytest.mark.parametrize("name", NMN)
def test_signals_and_scale_factors_are_those_of_the_keras_network(name):
    """z of a sequence that was recorded step by step; gains as ratios of what each layer gives."""
    network, bench = zoo.load(name).actor, name[:2]
    played = record(zoo.load(name, "onnx"), bench, 4, 50, signal_steps=range(50))
    before = [np.concatenate([np.zeros_like(x[:1]), x[:-1]]) for x in (played.actions, played.rewards[..., np.newaxis])]
    state = np.zeros((4, network.architecture.state_size), np.float32)
    _, states = network.sequence(played.observations, *before, state, np.ones((50, 4, 1), np.float32))
    memory = np.asarray(states)[..., -network.architecture.gru_units[-1] :]
    z = np.asarray(network.signal(memory))
    np.testing.assert_allclose(played.signals, z, atol=2e-4 * np.abs(z).max())

    published = read_scale_factors(zoo.path(name, "policy.onnx").read_bytes())
    assert len(published) == len(network.main) >= 1
    some = z[[5, 49], :2].reshape(4, -1)
    for layer, factors in zip(network.main, published, strict=True):
        linear = NMNDense(layer.units, None, layer.scale_offset, shared=layer.shared)  # the same without saturation
        inputs = np.random.default_rng(0).normal(size=(4, layer.kernel.shape[0])).astype(np.float32)
        linear.build(inputs.shape, some.shape)
        linear.set_weights(layer.get_weights())
        rise = np.asarray(linear(inputs, some)) - np.asarray(linear(np.zeros_like(inputs), some))
        product = np.asarray(ops.matmul(inputs, layer.kernel))
        np.testing.assert_allclose(product * factors(some), rise, atol=1e-4 * np.abs(rise).max())
        assert np.abs(factors(some) - factors(np.zeros_like(some))).max() > 0.05


def test_a_graph_without_modulation_is_refused():
    with pytest.raises(ValueError, match=r"no scale factors to read.*Received: a graph without z"):
        read_scale_factors(zoo.path("b1-rnn", "policy.onnx").read_bytes())


def test_a_lock_is_that_of_a_session():
    agent = zoo.load("b3-nmn", "onnx")
    session, player = open_session("b3-nmn", agent, None, now=0.0, batch=3), Player(agent, 3, 1)
    env, rewards, signals = envs.make_vec("b3", 3), np.zeros(3), []
    observation, _ = env.reset(seed=5)
    for step in range(80):
        if step in (0, 40):
            session, player.locked[:] = lock_session(session, agent), True
        if step in (15, 60):
            session, player.locked[:] = unlock_session(session), False
        planned = PlannedStep(session, observation.tolist(), None, rewards.tolist(), b"")
        (session,) = take_steps(agent, [planned], 0.0)
        answered, outputs = layout_of(agent).answered(session), player.act(observation)
        for name, value in (("action", "action"), ("z", "z"), ("state_out", "memory")):
            np.testing.assert_allclose(outputs[value], answered[name], atol=1e-5)
        observation, rewards, *_ = env.step(outputs["action"])
        player.receive(rewards)
        signals.append(outputs["z"])
    still = np.abs(np.diff(signals, axis=0)).max(axis=(1, 2)) < 1e-6  # of each step but the first
    assert still[:14].all() and still[39:59].all()
    assert not still[15:39].any() and not still[60:].any()


def test_episodes_are_locked_one_by_one():
    agent = zoo.load("b1-nmn", "onnx")
    player, free = Player(agent, 2, 1), Player(agent, 2, 1)
    rng, signals = np.random.default_rng(0), []
    for step in range(20):
        player.locked[:] = [step >= 10, False]
        observation, rewards = rng.uniform(-5, 5, (2, 1)).astype(np.float32), rng.uniform(-9, 9, 2)
        outputs, expected = player.act(observation), free.act(observation)
        np.testing.assert_array_equal(outputs["z"][1], expected["z"][1])
        player.receive(rewards)
        free.receive(rewards)
        signals.append(outputs["z"][0])
    assert np.ptp(signals[9:], axis=0).max() == 0 < np.ptp(signals[:9], axis=0).max()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("CartPole-v1", 2, 10), "of a benchmark .b1, b2, b3.*Received: env='CartPole-v1'"),
        (("b1", 2, 1401), "steps=1401"),
        (("b1", 2, 0), "steps=0"),
    ],
)
def test_what_cannot_be_recorded_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        record(None, *arguments)


def test_steps_without_signals_are_named():
    with pytest.raises(ValueError, match=r"`signal_steps` must be in \[0, 10\). Received: \[3, 10\]"):
        record(None, "b1", 2, 10, signal_steps=(3, 10))
    played = record(zoo.load("b1-rnn", "onnx"), "b1", 2, 5, signal_steps=[2, 4])
    assert played.signal_at(4).shape == (2, 50)
    with pytest.raises(ValueError, match=r"Accepted: \[2, 4\]. Received: 3"):
        played.signal_at(3)
