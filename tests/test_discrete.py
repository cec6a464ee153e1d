"""A task without one vector to see and without real numbers to play: from training to what a server answers."""

import dataclasses

import gymnasium
import httpx
import numpy as np
import onnx
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from server_process import serving
from tiny_agents import LAYERS, RECIPES, Resettable, assert_identical, snapshot
from tiny_envs import Menu

from nmn_keras import ActorCritic, Architecture, OnnxAgent, contract, zoo
from nmn_keras.client import AgentClient, play
from nmn_keras.evaluation import evaluate
from nmn_keras.publish import publish

ENV_ID = "tests/Menu-v0"
gymnasium.register(ENV_ID, entry_point=Menu)


def vector(mode):
    return SyncVectorEnv([Menu] * RECIPES["fast"].episodes_per_update, autoreset_mode=mode)


@pytest.fixture(scope="module")
def resettable():
    recipe = dataclasses.replace(RECIPES["fast"], actor_learning_rate=0.01, critic_learning_rate=0.01)
    return Resettable(ActorCritic(Architecture.for_env(ENV_ID, **LAYERS, reward_scale=0.1), recipe, seed=3))


@pytest.fixture(scope="module")
def trained(resettable, tmp_path_factory):
    """The agent's state after four updates, its logs, and its run directory."""
    run_dir, agent = tmp_path_factory.mktemp("run") / "menu", resettable.reset()
    history = agent.fit(ENV_ID, verbose=0, validation_episodes=4, validation_freq=2, run_dir=run_dir).history
    return snapshot(agent), history, run_dir


@pytest.fixture(scope="module")
def published(trained, tmp_path_factory):
    """A zoo with the agent in it."""
    directory = tmp_path_factory.mktemp("published") / "zoo"
    publish("menu", [trained[2]], directory, episodes=5)
    return directory


@pytest.mark.parametrize("mode", AutoresetMode)
def test_training_does_not_depend_on_how_episodes_are_begun_anew(resettable, trained, mode):
    agent = resettable.reset()
    history = agent.fit(vector(mode), verbose=0, validation_episodes=4, validation_freq=2).history
    assert_identical(trained[0], snapshot(agent))
    assert history == trained[1]
    assert 0.0 < history["entropy"][0] <= np.log(6) + 1e-6 and np.isfinite(history["kl"]).all()


def test_an_agent_learns_which_choice_pays(resettable):
    """Of six pairs of choices the best one pays 12 a step, the others 0 to 11."""
    agent = resettable.reset()
    history = agent.fit(ENV_ID, episodes=240, verbose=0).history
    assert history["reward"][0] < 9.0
    scores = agent.evaluate(episodes=20)
    assert scores["return"] > 11.5 * scores["length"]


def test_the_published_file_plays_as_the_agent_does(published):
    keras_agent, agent = ActorCritic.load_published(published / "menu"), zoo.load("menu", runtime="onnx", zoo=published)
    assert agent.metadata["action_sizes"] == [3, 2] and agent.action_sizes == (3, 2)
    assert (agent.metadata["action_low"], agent.metadata["action_high"]) == ([0, -1], [2, 0])
    flat = gymnasium.spaces.flatten_space(Menu.observation_space)
    np.testing.assert_array_equal(agent.observation_low, flat.low)
    for deterministic in (True, False):  # one generator, one sequence of choices
        expected = keras_agent.evaluate(Menu, episodes=6, deterministic=deterministic)
        assert evaluate(agent, Menu, episodes=6, deterministic=deterministic) == expected
    drawn = agent.sample(
        {"logits": np.tile(np.float32([[5.0, -20.0, 5.0, -9.0, 9.0]]), (500, 1))}, np.random.default_rng(0)
    )
    assert {*drawn[:, 0]} == {0.0, 2.0} and (drawn[:, 1] == 0.0).all()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"action_sizes": "[2, 2]"}, "contradicts itself: output logits"),
        ({"action_sizes": "[3.0, 2]"}, "contradicts itself: action_sizes"),
        ({"action_sizes": "[5]"}, "contradicts itself: number of action_sizes"),
        ({"action_high": "[2, 1]"}, "contradicts itself: action_high"),
        ({"action_offset": "[0, 0]"}, "contradicts itself: action_offset"),
        ({"action_head": "gaussian"}, "tensors have other names.* action_mean"),
        ({"action_head": "beta"}, "action head that this version does not know.*categorical. Received: 'beta'"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(published, changed, words):
    model = onnx.load(published / "menu" / "policy.onnx")
    metadata = {prop.key: prop.value for prop in model.metadata_props}
    onnx.helper.set_model_props(model, metadata | changed)
    with pytest.raises(ValueError, match=words):
        OnnxAgent(model.SerializeToString())


def test_a_server_steps_it_over_every_protocol(published):
    agent, env = zoo.load("menu", runtime="onnx", zoo=published), gymnasium.make(ENV_ID)
    expected, action, reward, state = [], np.zeros((1, 2)), [[0.0]], agent.initial_state(1)
    observation, _ = env.reset(seed=1)
    rows = []
    for _ in range(3):
        rows.append(gymnasium.spaces.flatten(Menu.observation_space, observation).tolist())
        outputs = agent.decide(*agent.check([rows[-1]], action, reward, state))
        action, state = outputs["action"], outputs["state_out"]
        observation, paid, *_ = env.step(action[0].astype(int))
        reward = [[paid]]
        expected.append((outputs["action"][0].tolist(), outputs["logits"][0].tolist(), paid))
    with serving(published) as server, httpx.Client(base_url=server.url) as http:
        card = http.get("/v1/agents/menu").json()
        assert card["action"] == {"low": [0, -1], "high": [2, 0], "sizes": [3, 2]}
        outputs = [(tensor["name"], tensor["shape"]) for tensor in http.get("/v2/models/menu").json()["outputs"]]
        assert [*dict(outputs)] == [*contract.outputs_of("categorical")[:-1], "z", "state_out"]
        for transport in ("http", "websocket"):
            with AgentClient(server.url, "menu", transport=transport, include="logits") as client:
                reward = None
                for row, (chosen, logits, paid) in zip(rows, expected, strict=True):
                    assert client.step(row, reward).tolist() == chosen
                    assert client.last.logits.tolist() == logits and client.last.action_mean is None
                    reward = paid
        reward = {}
        for step, (row, (chosen, logits, paid)) in enumerate(zip(rows, expected, strict=True)):
            tensors = [{"name": "observation", "shape": [1, 14], "datatype": "FP32", "data": row}, *reward.values()]
            parameters = {"sequence_id": 5, "sequence_start": step == 0}
            answer = http.post("/v2/models/menu/infer", json={"inputs": tensors, "parameters": parameters}).json()
            data = {tensor["name"]: tensor["data"] for tensor in answer["outputs"]}
            assert (data["action"], data["logits"]) == (chosen, logits)
            reward = {"reward": {"name": "prev_reward", "shape": [1, 1], "datatype": "FP32", "data": [paid]}}
        with AgentClient(server.url, "menu", deterministic=False, seed=4, batch=2) as client:
            sampled = play(SyncVectorEnv([Menu] * 2, autoreset_mode=AutoresetMode.SAME_STEP), client, 3, seed=2)
        with AgentClient(server.url, "menu") as client:
            (single,) = play(env, client, seed=1)
            assert client.steps == env.unwrapped.length
        assert len(sampled) == 6 and single >= sum(paid for *_, paid in expected)
