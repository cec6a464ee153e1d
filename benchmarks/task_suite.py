"""Train players on public tasks, one process and one JSON file for each row, player and seed.

    pip install -e .[jax,peers,mujoco,box2d,popgym]
    python benchmarks/task_suite.py --rows cartpole-novel --players nmn recurrent-ppo --seeds 0 1 --results DIR

What DIR holds is not run again. Our players have `nmn_keras.defaults` and no number of the row but its steps.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import gymnasium
import numpy as np
from task_rows import PEERS, ROWS
from tasks import Joined, PeerAgent, forget, join

from nmn_keras import envs, spaces

PLAYERS = ("nmn", "rnn", "memoryless", "recurrent-ppo", "told")
TEST_SEED, TEST_EPISODES = 7, 100


class Masked(gymnasium.ObservationWrapper, gymnasium.utils.RecordConstructorArgs):
    """Sets some observed numbers to 0."""

    def __init__(self, env: gymnasium.Env, masked: tuple[int, ...]):
        gymnasium.utils.RecordConstructorArgs.__init__(self, masked=masked)
        super().__init__(env)
        self.mask = np.ones(env.observation_space.shape, np.float32)
        self.mask[list(masked)] = 0.0

    def observation(self, observation):
        return observation * self.mask


def factory(row, told: bool):
    def make():
        env = envs.make(row.env, **row.kwargs, **({"tell": True} if told else {}))
        return Masked(env, row.masked) if row.masked else env

    return make


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), help="(all)")
    parser.add_argument("--players", nargs="+", choices=PLAYERS, default=list(PLAYERS), help="(all)")
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(5)), help="(0 to 4)")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once (%(default)s)")
    parser.add_argument("--steps", type=int, help="environment steps instead of the row's")
    parser.add_argument("--results", type=Path, required=True, help="directory of the results")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.rows[0], arguments.players[0], arguments.seeds[0], arguments.steps, arguments.results)
        return
    arguments.results.mkdir(parents=True, exist_ok=True)
    jobs = [(row, p, s) for row in arguments.rows for p in arguments.players for s in arguments.seeds]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        failed = [
            job for job, code in zip(jobs, pool.map(lambda job: start(job, arguments), jobs), strict=True) if code
        ]
    if failed:
        raise SystemExit(f"These failed, their words are above: {failed}")


def start(job, arguments) -> int:
    """Run a job in a process of its own unless its result is there or there is no such player."""
    row, player, seed = job
    if (player == "told" and not ROWS[row].told) or path_of(arguments.results, *job).exists():
        return 0
    command = [sys.executable, __file__, "--worker", "--rows", row, "--players", player, "--seeds", str(seed)]
    command += ["--results", str(arguments.results)] + (["--steps", str(arguments.steps)] if arguments.steps else [])
    environment = {"KERAS_BACKEND": "jax", "OMP_NUM_THREADS": "1", **os.environ}
    environment["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    return subprocess.run(command, env=environment).returncode


def path_of(results: Path, row: str, player: str, seed: int) -> Path:
    return results / f"{row}-{player}-s{seed}.json"


def work(name: str, player: str, seed: int, steps: int | None, results: Path) -> None:
    """Train, test, and write the result whole or not at all."""
    row, steps = ROWS[name], steps or ROWS[name].steps
    train = train_peer if player == "recurrent-ppo" else train_ours
    agent, played, seconds = train(row, player, seed, steps)
    from nmn_keras import evaluate

    score = evaluate(agent, factory(row, player == "told"), episodes=TEST_EPISODES, seed=TEST_SEED)
    packages = ("nmn_keras", "keras", "jax", "numpy", "gymnasium", "sb3-contrib", "mujoco", "popgym")
    result = {
        "row": name, "player": player, "seed": seed, "steps": played, "processor_seconds": seconds, "score": score,
        "versions": {package: _version(package) for package in packages},
    }  # fmt: skip
    target = path_of(results, name, player, seed)
    target.with_suffix(".part").write_text(json.dumps(result, indent=1))
    target.with_suffix(".part").replace(target)


def _version(package):
    try:
        return version(package)
    except ImportError:
        return None


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def train_ours(row, player, seed, steps):
    from nmn_keras import ActorCritic, defaults

    make, kind = factory(row, player == "told"), "rnn" if player == "rnn" else "nmn"
    recipe = defaults.derive(make, kind).recipe
    episodes = max(recipe.episodes_per_update, round(steps / recipe.rollout_steps))
    agent = ActorCritic.for_env(make, kind, seed=seed, recipe={"episodes": episodes})
    if player == "memoryless":
        forget(agent.actor), forget(agent.critic)
    begun = processor_seconds()
    agent.compile()
    agent.fit(make, seed=seed, verbose=0)
    return agent, agent.run.episodes * recipe.rollout_steps, processor_seconds() - begun


class Normalised(PeerAgent):
    """RecurrentPPO that sees what VecNormalize makes of observations."""

    def __init__(self, model, task, found, vector):
        super().__init__(model, task, found)
        self.vector = vector

    def act(self, observation, prev_action, prev_reward, state, *, rng=None):
        seen = join(self.found, 1.0, observation, prev_action, prev_reward)
        seen = self.vector.normalize_obs(seen) if hasattr(self.vector, "normalize_obs") else seen
        lstm = state[None, :, : self.units], state[None, :, self.units :]
        action, lstm = self.policy.predict(seen, lstm, np.zeros(len(state), bool), deterministic=rng is None)
        return np.float32(np.reshape(action, (len(state), -1))), np.concatenate([part[0] for part in lstm], axis=1)


def train_peer(row, player, seed, steps):
    import torch
    from sb3_contrib import RecurrentPPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    torch.set_num_threads(1)
    numbers, make = dict(PEERS[row.peer]), factory(row, False)
    normalize, count = numbers.pop("normalize", None), numbers.pop("n_envs")
    for name in ("learning_rate", "clip_range"):
        if isinstance(numbers.get(name), str):
            first = float(numbers[name].removeprefix("lin_"))
            numbers[name] = lambda left, first=first: first * left
    policy = dict(numbers.pop("policy_kwargs", {}))
    if "activation_fn" in policy:
        policy["activation_fn"] = getattr(torch.nn, policy["activation_fn"])
    vector = make_vec_env(lambda: Joined(make(), 1.0), count, seed=seed)
    if normalize is not None:
        vector = VecNormalize(vector, gamma=numbers["gamma"], **normalize)
    model = RecurrentPPO("MlpLstmPolicy", vector, policy_kwargs=policy, seed=seed, device="cpu", **numbers)
    begun = processor_seconds()
    model.learn(steps)
    return Normalised(model, None, spaces.describe(make()), vector), model.num_timesteps, processor_seconds() - begun


if __name__ == "__main__":
    main()
