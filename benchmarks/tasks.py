"""Tasks that are none of our benchmarks: ours, the same network without memory, and sb3-contrib's RecurrentPPO.

    pip install -e .[jax,peers]
    python benchmarks/tasks.py
    python benchmarks/tasks.py --tasks bandit --seeds 5

Each learner gets the same environments, 16 at once, the same number of steps, of passes over them and of minibatches,
the same rates, discount, trace, clipping and gradient norm; nobody was tuned further. "Without memory" is our network
whose state, last action and last reward are zeros in every step, while playing and while learning. RecurrentPPO has an
LSTM of 50 units for the actor and one for the critic, and sees the last action (one-hot where it is discrete) and the
last reward beside the observation; it backpropagates through a whole rollout, we through a segment.

Scored are full test episodes with the deterministic action, undiscounted; one process per task and learner, one core.
"""

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import gymnasium
import numpy as np

from nmn_keras import envs, spaces

ENVS, TEST_SEED, UNITS = 16, 7, 50
LEARNERS = ("NMN", "NMN without memory", "RecurrentPPO")


class Seen(gymnasium.ObservationWrapper):
    """Lets some numbers of an observation be seen."""

    def __init__(self, env: gymnasium.Env, seen: list[int]):
        super().__init__(env)
        self.seen, space = seen, env.observation_space
        self.observation_space = gymnasium.spaces.Box(space.low[seen], space.high[seen], dtype=np.float32)

    def observation(self, observation):
        return observation[self.seen].astype(np.float32)


@dataclasses.dataclass(frozen=True)
class Task:
    """An environment and the numbers to learn it with."""

    make: Callable[[], gymnasium.Env]
    """Makes one."""
    updates: int
    rollout_steps: int
    """Of an update and environment."""
    discount: float
    reward_scale: float
    """Factor on the reward that is fed back."""
    segment_steps: int = 50
    test_episodes: int = 100
    needs_memory: str = "no"

    @property
    def steps(self) -> int:
        """Environment steps of a training."""
        return self.updates * ENVS * self.rollout_steps


TASKS = {
    "cartpole": Task(
        lambda: Seen(gymnasium.make("CartPole-v1"), [0, 2]), 80, 200, 0.98, 1.0, needs_memory="velocities hidden"
    ),
    "pendulum": Task(lambda: gymnasium.make("Pendulum-v1"), 80, 200, 0.95, 0.1),
    "pendulum-angle": Task(
        lambda: Seen(gymnasium.make("Pendulum-v1"), [0, 1]), 80, 200, 0.95, 0.1, needs_memory="velocity hidden"
    ),
    "bandit": Task(
        lambda: envs.make("nmn_keras/Trial-v0", env="nmn_keras/Bandit-v0", episodes=10, env_kwargs={"arms": 5}),
        160, 100, 0.99, 1.0, test_episodes=2000, needs_memory="arms hidden",
    ),
}  # fmt: skip


def recipe_of(task: Task):
    from nmn_keras.recipes import FastRecipe

    return FastRecipe(
        episodes=task.updates * ENVS,
        episodes_per_update=ENVS,
        rollout_steps=task.rollout_steps,
        segment_steps=task.segment_steps,
        discount=task.discount,
        deterministic_share=0.0,
    )


def main() -> None:
    arguments = parse_arguments()
    if arguments.worker:
        train = train_peer if arguments.worker == "RecurrentPPO" else train_ours
        print(json.dumps(train(arguments.worker, TASKS[arguments.tasks[0]], range(arguments.seeds))))
        return
    print(f"    python {' '.join(sys.argv)}\n")
    print(f"| task | needs memory | steps | {' | '.join(LEARNERS)} |\n|{'---|' * (3 + len(LEARNERS))}")
    for name in arguments.tasks:
        seeds = [arguments.peer_seeds if learner == "RecurrentPPO" else arguments.seeds for learner in LEARNERS]
        cells = [shown(run_worker(name, *each)) for each in zip(LEARNERS, seeds, strict=True)]
        print(f"| {name} | {TASKS[name].needs_memory} | {TASKS[name].steps:,} | {' | '.join(cells)} |", flush=True)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS), help="(all)")
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each learner (%(default)s)")
    parser.add_argument("--peer-seeds", type=int, default=3, help="trainings of RecurrentPPO, slower (%(default)s)")
    parser.add_argument("--worker", choices=LEARNERS, help=argparse.SUPPRESS)
    return parser.parse_args()


def run_worker(task: str, learner: str, seeds: int) -> list[dict[str, float]]:
    """All seeds of a learner in a process of its own."""
    command = [sys.executable, __file__, "--worker", learner, "--tasks", task, "--seeds", str(seeds)]
    environment = {**os.environ, "KERAS_BACKEND": "jax", "OMP_NUM_THREADS": "1"}
    environment["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def shown(scores: list[dict[str, float]]) -> str:
    """Median return, those of the seeds, median processor time of a training."""
    returns = [score["return"] for score in scores]
    seconds = statistics.median(score["seconds"] for score in scores)
    each = ", ".join(f"{value:.1f}" for value in sorted(returns))
    return f"**{statistics.median(returns):.1f}** ({each}), {seconds:.0f} s"


def train_ours(learner: str, task: Task, seeds) -> list[dict[str, float]]:
    """Train the seeds in turn with one compiled update."""
    from nmn_keras import ActorCritic, Architecture

    architecture = Architecture.for_env(task.make, reward_scale=task.reward_scale, gru_units=(UNITS,), log_var_min=-5.0)

    def fresh(seed: int) -> ActorCritic:
        agent = ActorCritic(architecture, recipe_of(task), seed)
        if learner == "NMN without memory":
            forget(agent.actor), forget(agent.critic)
        return agent

    agent = fresh(0)
    agent.compile()
    blank = [[np.asarray(v).copy() for v in optimizer.variables] for optimizer in agent.optimizers]
    scores = []
    for seed in seeds:
        agent.set_weights(fresh(seed).get_weights())
        for optimizer, values in zip(agent.optimizers, blank, strict=True):
            for variable, value in zip(optimizer.variables, values, strict=True):
                variable.assign(value)
        begun = time.process_time()
        agent.fit(task.make, seed=seed, verbose=0)
        seconds = time.process_time() - begun
        scores.append({"return": test(agent, task), "seconds": seconds})
    return scores


def forget(network) -> None:
    """Make a network, otherwise the same, start every step from an empty memory."""

    class Memoryless(type(network)):
        def step(self, observation, *memory):
            return super().step(observation, *(0.0 * x for x in memory))

        def sequence(self, observation, *memory_and_keep):
            return super().sequence(observation, *(0.0 * x for x in memory_and_keep))

    network.__class__ = Memoryless


def test(agent, task: Task) -> float:
    """Mean return of full test episodes."""
    from nmn_keras import evaluate

    return evaluate(agent, task.make, episodes=task.test_episodes, seed=TEST_SEED)["return"]


class Joined(gymnasium.Wrapper):
    """Observation, last action and scaled last reward in one vector, which is all that RecurrentPPO is given."""

    def __init__(self, env: gymnasium.Env, reward_scale: float):
        super().__init__(env)
        self.found, self.reward_scale = spaces.describe(env), reward_scale
        size = len(join(self.found, reward_scale, *nothing(self.found, 1))[0])
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32)

    def reset(self, **kwargs):
        observation, info = self.env.reset(**kwargs)
        _, action, reward = nothing(self.found, 1)
        return join(self.found, self.reward_scale, self.found.row(observation)[None], action, reward)[0], info

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        played = np.float32(np.reshape(action, (1, -1)))
        seen = join(self.found, self.reward_scale, self.found.row(observation)[None], played, np.float32([[reward]]))
        return seen[0], float(reward), terminated, truncated, info


def nothing(found: spaces.Spaces, n: int):
    """Observation, action and reward `(n, ...)` of nothing."""
    return tuple(np.zeros((n, size), "float32") for size in (len(found.observation_low), len(found.action_low), 1))


def join(found: spaces.Spaces, reward_scale: float, observation, action, reward):
    """What RecurrentPPO is given to see `(N, ...)`."""
    if found.action_sizes is not None:
        one_hot = [action[:, [i]] - found.action_low[i] == np.arange(n) for i, n in enumerate(found.action_sizes)]
        action = np.concatenate(one_hot, axis=1)
    return np.concatenate([observation, action, reward_scale * reward], axis=1).astype("float32")


class PeerAgent:
    """RecurrentPPO under `evaluate`: its LSTM states, actor's and critic's, ride in the packed state."""

    def __init__(self, model, task: Task, found: spaces.Spaces):
        self.policy, self.task, self.found = model.policy, task, found
        self.units = model.policy.lstm_actor.hidden_size

    def initial_state(self, batch_size: int):
        return np.zeros((batch_size, 2 * self.units), "float32")

    def act(self, observation, prev_action, prev_reward, state, *, rng=None):
        seen = join(self.found, self.task.reward_scale, observation, prev_action, prev_reward)
        lstm = state[None, :, : self.units], state[None, :, self.units :]
        action, lstm = self.policy.predict(seen, lstm, np.zeros(len(state), bool), deterministic=rng is None)
        rows = np.float32(np.reshape(action, (len(state), -1)))
        return rows, np.concatenate([part[0] for part in lstm], axis=1)


def train_peer(learner: str, task: Task, seeds) -> list[dict[str, float]]:
    """Train with sb3-contrib's RecurrentPPO, with our recipe's numbers."""
    import torch
    from sb3_contrib import RecurrentPPO
    from stable_baselines3.common.env_util import make_vec_env

    torch.set_num_threads(1)
    recipe, scores = recipe_of(task), []
    for seed in seeds:
        vector = make_vec_env(lambda: Joined(task.make(), task.reward_scale), ENVS, seed=seed)
        model = RecurrentPPO(
            "MlpLstmPolicy",
            vector,
            learning_rate=lambda left: recipe.actor_learning_rate * left,
            n_steps=task.rollout_steps,
            batch_size=ENVS * task.rollout_steps // recipe.minibatches_per_epoch,
            n_epochs=recipe.epochs,
            gamma=recipe.discount,
            gae_lambda=recipe.trace,
            clip_range=recipe.clip,
            max_grad_norm=recipe.gradient_norm,
            policy_kwargs={"lstm_hidden_size": UNITS, "net_arch": {"pi": [20, 10], "vf": [20, 10]}},
            seed=seed,
            device="cpu",
        )
        begun = time.process_time()
        model.learn(task.steps)
        seconds = time.process_time() - begun
        agent = PeerAgent(model, task, spaces.describe(task.make()))
        scores.append({"return": test(agent, task), "seconds": seconds})
    return scores


if __name__ == "__main__":
    main()
