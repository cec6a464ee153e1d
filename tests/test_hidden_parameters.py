import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from nmn_keras import envs, evaluation
from nmn_keras.architecture import Architecture
from nmn_keras.run import environment_identity

ID = "nmn_keras/HiddenParameters-v0"
CARTPOLE = {
    "env": "CartPole-v1",
    "parameters": {"unwrapped.length": [0.25, 1.5], "masspole": {"log_uniform": [0.05, 1]}},
}
PENDULUM = {"env": "Pendulum-v1", "parameters": {"unwrapped.m": [0.5, 2.0], "unwrapped.l": {"choice": [0.5, 1, 2]}}}
GEARS = "unwrapped.model.actuator_gear[:, 0]"
MOTORS = {"env": "HalfCheetah-v5", "parameters": {GEARS: {"scale": [0.3, 1.5], "each": True}}}


def inner(env):
    return env.unwrapped.env.unwrapped


def make(parameters, env="CartPole-v1", **others):
    return envs.make(ID, env=env, parameters=parameters, **others)


def test_an_episode_is_one_of_the_inner_environment_with_these_attributes():
    hidden, plain = envs.make(ID, **CARTPOLE), gymnasium.make("CartPole-v1").unwrapped
    tasks = []
    for seed in (3, 4):
        seen, info = hidden.reset(seed=seed)
        tasks.append(info["task"])
        plain.length, plain.masspole = info["task"]
        plain.total_mass, plain.polemass_length = plain.masspole + plain.masscart, plain.masspole * plain.length
        expected, _ = plain.reset(seed=seed)
        for step in range(20):
            np.testing.assert_array_equal(seen, expected)
            seen, reward, terminated, _, info = hidden.step(step // 2 % 2)
            expected, wanted, ended, _, _ = plain.step(step // 2 % 2)
            assert (reward, terminated) == (wanted, ended)
            np.testing.assert_array_equal(info["task"], tasks[-1])
            if ended:
                break
    assert (tasks[0] != tasks[1]).all() and info["task"].shape == (2,)


def test_draws_follow_their_laws():
    env = make(
        {"length": [0.25, 1.5], "gravity": {"log_uniform": [1, 100]}, "force_mag": {"choice": [5, 20]}, "tau": 0.01}
    )
    env.reset(seed=0)
    tasks = np.stack([env.reset()[1]["task"] for _ in range(2000)])
    np.testing.assert_allclose(np.quantile(tasks[:, 0], [0, 0.5, 1]), [0.25, 0.875, 1.5], atol=0.05)
    np.testing.assert_allclose(np.log10(np.quantile(tasks[:, 1], [0, 0.5, 1])), [0, 1, 2], atol=0.1)
    assert set(tasks[:, 2]) == {5.0, 20.0} and abs((tasks[:, 2] == 5).mean() - 0.5) < 0.05
    assert set(tasks[:, 3]) == {0.01}


def test_a_task_can_be_asked_for_and_moves_no_later_numbers():
    free, fixed = envs.make(ID, **PENDULUM), envs.make(ID, **PENDULUM)
    first, _ = free.reset(seed=8)
    options = {"task": [3.0, 0.7], "x_init": 0.0}
    begun, info = fixed.reset(seed=8, options=options)
    assert options == {"task": [3.0, 0.7], "x_init": 0.0}
    assert inner(fixed).m == 3.0 and inner(fixed).l == 0.7 and begun[0] == 1.0 != first[0]
    np.testing.assert_array_equal(info["task"], [3.0, 0.7])
    np.testing.assert_array_equal(free.reset()[1]["task"], fixed.reset()[1]["task"])
    info["task"][:] = 0.0
    assert (fixed.unwrapped.task > 0.0).all()


def test_set_task_changes_the_physics_within_an_episode():
    env, other = envs.make(ID, **PENDULUM), envs.make(ID, **PENDULUM)
    with pytest.raises(ResetNeeded):
        env.unwrapped.set_task([1.0, 1.0])
    for each in (env, other):
        each.reset(seed=1, options={"task": [1.0, 1.0]})
        each.step(np.float32([1.0]))
    env.unwrapped.set_task([2.0, 1.0])
    assert (env.step(np.float32([2.0]))[0] != other.step(np.float32([2.0]))[0]).any()
    with pytest.raises(ValueError, match=r"\(2,\) is accepted"):
        env.unwrapped.set_task([1.0])
    np.testing.assert_array_equal(env.unwrapped.task, [2.0, 1.0])


def test_changes_come_at_their_step():
    env = make({"unwrapped.m": 1.0}, "Pendulum-v1", changes=[{"at": [3, 6], "parameters": {"unwrapped.m": [2.0, 4.0]}}])
    env.reset(seed=0)
    found = set()
    for _ in range(60):
        _, info = env.reset()
        masses = [info["task"][0]]
        for _ in range(8):
            masses.append(env.step(np.float32([0.0]))[4]["task"][0])
        first = int(np.argmax(np.array(masses) != 1.0))
        assert masses[:first] == [1.0] * first and len(set(masses[first:])) == 1 and 2.0 <= masses[-1] <= 4.0
        assert inner(env).m == masses[-1]
        found.add(first)
    assert found == {3, 4, 5, 6}


def test_scales_do_not_pile_up():
    env = make({"unwrapped.length": {"scale": [0.5, 2.0]}}, tell=True)
    env.reset(seed=0)
    for _ in range(50):
        seen, info = env.reset()
        assert inner(env).length == pytest.approx(0.5 * info["task"][0])
        assert seen[-1] == pytest.approx(2 * (info["task"][0] - 0.5) / 1.5 - 1, abs=1e-6)


def test_a_player_is_told_only_if_it_is_asked_for():
    secret, told = envs.make(ID, **CARTPOLE), envs.make(ID, **CARTPOLE, tell=True)
    seen, _ = secret.reset(seed=5)
    more, info = told.reset(seed=5)
    np.testing.assert_array_equal(more[:4], seen)
    logs = np.log([0.05, info["task"][1], 1.0])
    normalised = [(info["task"][0] - 0.875) / 0.625, 2 * (logs[1] - logs[0]) / (logs[2] - logs[0]) - 1]
    np.testing.assert_allclose(more[4:], normalised, rtol=1e-5)
    assert secret.observation_space.shape == (4,) and told.observation_space.shape == (6,)


class Tower(gymnasium.Env):
    """A constructor with an argument, a chain of values, an array of the class, and a value `reset` renews."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    shared = np.ones(3)

    def __init__(self, height=2.0, grip=3.0):
        self.height = height
        self.grip = grip
        self.floors = height / 2
        self.doors = 4 * self.floors
        self.name = str(self.grip)
        self.weight = height

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.weight = 3 * self.height
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, False, False, {}


def test_what_the_constructor_computed_is_computed_anew():
    env = envs.HiddenParameters(Tower(), {"height": 6.0})
    env.reset()
    assert (env.env.floors, env.env.doors, env.env.weight) == (3.0, 12.0, 18.0)
    with pytest.raises(ValueError, match=r"`name` is computed from `grip`.*an entry of `derived`"):
        envs.HiddenParameters(Tower(), {"grip": 1.0})
    env = envs.HiddenParameters(Tower(), {"grip": [1.0, 2.0]}, {"name": None, "doors": "2 ** grip - -height"})
    _, info = env.reset(seed=0)
    assert env.env.doors == pytest.approx(2 ** info["task"][0] + 2.0)


def test_arrays_of_a_class_are_not_shared():
    one, other = (envs.HiddenParameters(Tower(), {"shared[1:]": {"scale": [2, 3], "each": True}}) for _ in range(2))
    task = one.reset(seed=0)[1]["task"]
    np.testing.assert_array_equal(one.env.shared, [1.0, *task])
    np.testing.assert_array_equal(other.env.shared, np.ones(3))
    np.testing.assert_array_equal(Tower.shared, np.ones(3))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"parameters": {"unwrapped.lenth": 1}}, "Numbers of CartPoleEnv: force_mag, gravity, length.*lenth'"),
        ({"parameters": {"unwrapped.state": 1}}, "not a number.*Received: NoneType"),
        ({"parameters": {"unwrapped.length[0]": 1}}, "an index that does not fit"),
        ({"parameters": {"unwrapped.length()": 1}}, "Not a path"),
        ({"parameters": {}}, "not empty"),
        ({"parameters": {"length": [2, 1]}}, "low first"),
        ({"parameters": {"length": {"log_uniform": [0, 1]}}}, "above 0"),
        ({"parameters": {"length": {"normal": [0, 1]}}}, "a law has one name"),
        ({"parameters": {"length": "long"}}, "finite numbers"),
        ({"parameters": {"length": [0, float("nan")]}}, "finite numbers"),
        ({"parameters": {"length": {"scale": [1, 2], "each": True}}}, "`each` is for arrays"),
        ({"parameters": {"length": 1, "unwrapped.length": 2}}, "twice"),
        ({"parameters": {"x_threshold": 1}}, "observation_space` is computed from"),
        ({"parameters": {"length": 1}, "derived": {"total_mass": "len(x)"}}, "arithmetic"),
        ({"parameters": {"length": 1}, "changes": [{"at": -1, "parameters": {}}]}, "a step from 0"),
        ({"parameters": {"length": 1}, "changes": [{"at": 1, "parameters": {"gravity": 1}}]}, "`parameters`: length"),
    ],
)  # fmt: skip
def test_what_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        envs.make(ID, env="CartPole-v1", **arguments)


@pytest.mark.parametrize("arguments", [CARTPOLE, PENDULUM, CARTPOLE | {"tell": True}])
def test_gymnasium_checker_has_nothing_to_say(arguments):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*(symmetric and normalized space|ender|not set a spec|infinity).*")
        check_env(envs.make(ID, **arguments).unwrapped, skip_render_check=True)


def test_it_is_an_environment_like_another():
    env = envs.make_vec(ID, 3, **CARTPOLE)
    _, info = env.reset(seed=0)
    assert info["task"].shape == (3, 2) and len(np.unique(info["task"])) == 6
    assert environment_identity(envs.make(ID, **CARTPOLE), {}) == environment_identity(ID, CARTPOLE)
    again = envs.make(envs.make(ID, **CARTPOLE))
    np.testing.assert_array_equal(again.reset(seed=2)[1]["task"], envs.make(ID, **CARTPOLE).reset(seed=2)[1]["task"])
    assert Architecture.for_env(ID, env_kwargs=CARTPOLE | {"tell": True}).observation_size == 6
    tasks = evaluation.episode_tasks(ID, 4, env_kwargs=CARTPOLE)
    assert tasks.shape == (4, 2) and len(np.unique(tasks)) == 8
    picture = envs.make(ID, **CARTPOLE, render_mode="rgb_array")
    picture.reset(seed=0)
    assert picture.render().ndim == 3


def test_a_trial_keeps_the_physics():
    trial = envs.make("nmn_keras/Trial-v0", env=ID, episodes=3, env_kwargs=CARTPOLE)
    _, info = trial.reset(seed=0)
    for _ in range(3):
        ended = False
        while not ended:
            _, _, terminated, _, later = trial.step(1)
            ended = later["episode_ended"]
        np.testing.assert_array_equal(later["task"], info["task"])
    assert terminated


def track(env, steps=30):
    env.action_space.seed(0)
    return np.array([np.append(*env.step(env.action_space.sample())[:2]) for _ in range(steps)])


@pytest.fixture
def mujoco():
    pytest.importorskip("imageio", reason="pip install nmn_keras[mujoco]")
    return pytest.importorskip("mujoco", reason="pip install nmn_keras[mujoco]")


def test_mujoco_with_factors_of_one_is_mujoco(mujoco):
    paths = ("model.body_mass", "model.body_inertia", "model.actuator_gear", "model.opt.gravity[2]")
    hidden = make({f"unwrapped.{path}": {"scale": 1.0} for path in paths}, "HalfCheetah-v5")
    plain = gymnasium.make("HalfCheetah-v5")
    np.testing.assert_array_equal(hidden.reset(seed=1)[0], plain.reset(seed=1)[0])
    np.testing.assert_array_equal(track(hidden), track(plain))


def test_mujoco_computes_its_constants_anew(mujoco):
    env = make({"unwrapped.model.body_mass": {"scale": 2.0}}, "HalfCheetah-v5")
    before = inner(env).model.body_subtreemass.copy(), inner(env).model.dof_M0.copy()
    env.reset(seed=0)
    np.testing.assert_allclose(inner(env).model.body_subtreemass, 2 * before[0])
    assert (inner(env).model.dof_M0[:2] > 1.5 * before[1][:2]).all()


def test_a_motor_weakens(mujoco):
    changes = [{"at": 5, "parameters": {GEARS: {"elements": [2], "law": 0.1}}}]
    env, steady = envs.make(ID, **MOTORS, changes=changes), envs.make(ID, **MOTORS)
    gears = inner(env).model.actuator_gear[:, 0].copy()
    for episode in range(2):
        (_, info), _ = env.reset(seed=episode), steady.reset(seed=episode)
        first = info["task"]
        np.testing.assert_allclose(inner(env).model.actuator_gear[:, 0], gears * first)
        assert first.shape == (6,) and len(set(first)) == 6 and (first >= 0.3).all()
        weak, strong = track(env), track(steady)
        np.testing.assert_array_equal(weak[:5], strong[:5])
        assert (weak[5:] != strong[5:]).any(axis=1).all()
        np.testing.assert_array_equal(env.unwrapped.task, np.where(np.arange(6) == 2, 0.1, first))


def test_half_cheetahs_goals(mujoco):
    for goal, tasks in (("Direction", {-1.0, 1.0}), ("Velocity", None)):
        env = envs.make(f"nmn_keras/HalfCheetah{goal}-v0")
        found = {float(env.reset(seed=seed)[1]["task"][0]) for seed in range(12)}
        assert found == tasks if tasks else min(found) >= 0.0 and max(found) <= 2.0 and len(found) == 12
        action = np.full(6, 0.5, np.float32)
        _, reward, _, _, info = env.step(action)
        speed, task = info["x_velocity"], info["task"][0]
        gain = task * speed if tasks else -abs(speed - task)
        assert reward == pytest.approx(gain - 0.05 * 6 * 0.25) and info["reward_goal"] == pytest.approx(gain)
        assert env.spec.max_episode_steps == 200 and env.observation_space.shape == (17,)
        assert envs.make(env.spec.id, tell=True).observation_space.shape == (18,)


def test_lunar_lander_flies_under_the_drawn_gravity():
    pytest.importorskip("Box2D", reason="pip install nmn_keras[box2d]")
    env = make({"unwrapped.gravity": [-11.0, -2.0]}, "LunarLander-v3")
    task = env.reset(seed=0)[1]["task"]
    assert inner(env).world.gravity.y == pytest.approx(task[0])
