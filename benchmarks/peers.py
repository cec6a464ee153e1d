"""Training on benchmark 1: ours against sb3-contrib's RecurrentPPO, same machine, one run.

    pip install -e .[jax,peers]
    python benchmarks/peers.py
    python benchmarks/peers.py --rounds 1 --target 4400

All play the same numpy environments, 64 at once, 200 steps an update, and the fast recipe and RecurrentPPO make the
same number of passes over the same number of samples (4 epochs of 4 minibatches) at the same rates and clipping.
RecurrentPPO has an LSTM for the actor and one for the critic, as many parameters as our networks, and is given the last
action and reward in its observation; it backpropagates through whole episodes, we through 50 steps. The paper recipe
stands beside them (50 episodes of 1400 steps, 20 actor and 10 critic epochs).

Each trains in a process of its own on one core, in turn. Speed is that of updates after the first ones, which compile.
Time to the target counts everything but the evaluations (sampled actions, 100 full episodes, every 10 updates).
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

BENCHMARK, PRESET, EPISODES, STEPS = "b1", "b1-nmn", 64, 200
WARM_UP = 4  # the paper's critic buffer fills over three updates, each of which compiles anew
CHECKED_EVERY, TEST_EPISODES, TEST_SEED = 10, 100, 7
COMPETITORS = {  # name: (recipe, Keras backend); the peer has neither
    "ours, JAX": ("fast", "jax"),
    "ours, TensorFlow": ("fast", "tensorflow"),
    "RecurrentPPO": (None, None),
    "ours, JAX, paper recipe": ("paper", "jax"),
}


def main() -> None:
    arguments = parse_arguments()
    if arguments.worker:
        recipe, backend = COMPETITORS[arguments.worker]
        train: Any = train_ours if backend else train_peer
        print(json.dumps(train(recipe, arguments.updates, arguments.target, arguments.limit, arguments.seed)))
        return
    print(f"    python {' '.join(sys.argv)}\n")
    rounds = [{name: run_worker(name, arguments, seed) for name in COMPETITORS} for seed in range(arguments.rounds)]
    print_table(rounds, arguments)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", type=int, default=8, help="timed for the speed (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each, by seed (%(default)s)")
    parser.add_argument("--target", type=float, help="train on to this discounted return, and say how long it took")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds after which to give up (%(default)s)")
    parser.add_argument("--worker", choices=COMPETITORS, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    return parser.parse_args()


class Clock:
    """Seconds of training: updates are ticked, evaluations left out."""

    def __init__(self, updates: int, target: float | None, limit: float, score: Callable[[], float]):
        self.updates, self.target, self.limit, self.score = updates, target, limit, score
        self.ticks, self.reached, self.last = [time.perf_counter()], None, float("nan")

    def tick(self) -> bool:
        """Note the end of an update; whether to train on."""
        self.ticks.append(time.perf_counter())
        done = len(self.ticks) - 1
        if self.target is None:
            return done < WARM_UP + self.updates
        if done % CHECKED_EVERY == 0:
            self.last = self.score()
            if self.last >= self.target:
                self.reached = self.ticks[-1] - self.ticks[0]
            pause = time.perf_counter() - self.ticks[-1]
            self.ticks = [tick + pause for tick in self.ticks]
        return self.reached is None and self.ticks[-1] - self.ticks[0] < self.limit

    def result(self, steps_per_update: int, parameters: int) -> dict[str, Any]:
        """What was measured."""
        timed = self.ticks[WARM_UP : WARM_UP + self.updates + 1]
        return {
            "steps_per_second": (len(timed) - 1) * steps_per_update / (timed[-1] - timed[0]),
            "seconds_to_target": self.reached,
            "last_score": self.last,
            "updates": len(self.ticks) - 1,
            "parameters": parameters,
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }


def train_ours(recipe: str, updates: int, target: float | None, limit: float, seed: int) -> dict[str, Any]:
    """Train with `ActorCritic.fit` on the present backend."""
    import keras

    from nmn_keras import ActorCritic

    agent = ActorCritic.from_preset(PRESET, recipe, seed)
    clock = Clock(updates, target, limit, lambda: score(agent))

    def tick(epoch, logs):
        agent.stop_training = not clock.tick()

    agent.fit(BENCHMARK, verbose=0, callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=tick)])
    steps = agent.recipe.episodes_per_update * (agent.recipe.rollout_steps or 1400)
    return clock.result(steps, agent.count_params())


def score(agent) -> float:
    """Discounted return of sampled actions on full episodes."""
    from nmn_keras import evaluate

    scores = evaluate(agent, BENCHMARK, episodes=TEST_EPISODES, deterministic=False, seed=TEST_SEED)
    return scores["discounted_return"]


def train_peer(recipe: None, updates: int, target: float | None, limit: float, seed: int) -> dict[str, Any]:
    """Train with sb3-contrib's RecurrentPPO."""
    import torch
    from sb3_contrib import RecurrentPPO
    from stable_baselines3.common.callbacks import BaseCallback

    torch.set_num_threads(1)
    policy = {
        "lstm_hidden_size": 44,
        "net_arch": {"pi": [20, 10], "vf": [20, 10]},
        "activation_fn": torch.nn.ReLU,
    }
    model = RecurrentPPO(
        "MlpLstmPolicy",
        vector_env(),
        learning_rate=2e-3,
        n_steps=STEPS,
        batch_size=EPISODES * STEPS // 4,
        n_epochs=4,
        gamma=0.95,
        gae_lambda=0.95,
        clip_range=0.2,
        max_grad_norm=0.5,
        policy_kwargs=policy,
        seed=seed,
        device="cpu",
    )
    clock = Clock(updates, target, limit, lambda: score(PeerAgent(model)))

    class Ticks(BaseCallback):
        """A rollout ends before its update: the tick at the next one's start is the end of the update."""

        going = True

        def _on_rollout_start(self) -> None:
            if self.num_timesteps:
                self.going = clock.tick()

        def _on_step(self) -> bool:
            return self.going

    model.learn(10**9, callback=Ticks())
    return clock.result(EPISODES * STEPS, sum(p.numel() for p in model.policy.parameters()))


def vector_env():
    """Our numpy environments as stable-baselines3 wants them: observation, last action and scaled reward in one."""
    import gymnasium
    import numpy as np
    from stable_baselines3.common.vec_env import VecEnv

    from nmn_keras import envs

    class Adapter(VecEnv):
        def __init__(self):
            self.env = envs.make_vec(BENCHMARK, EPISODES, max_episode_steps=STEPS)
            space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32)
            super().__init__(EPISODES, space, gymnasium.spaces.Box(-4.0, 4.0, (1,), np.float32))

        def reset(self):
            observation, _ = self.env.reset(seed=self._seeds[0])
            self._reset_seeds()
            return join(observation, np.zeros((EPISODES, 1)), np.zeros(EPISODES))

        def step_async(self, actions):
            self.actions = 5.0 * actions

        def step_wait(self):
            observation, reward, _, truncated, info = self.env.step(self.actions)
            goes_on = 1.0 - truncated
            joined = join(observation, self.actions * goes_on[:, None], reward * goes_on)
            infos = [{} for _ in range(EPISODES)]
            for i in np.flatnonzero(truncated):
                last = join(info["final_obs"][i][None], self.actions[i : i + 1], reward[i : i + 1])[0]
                infos[i] = {"terminal_observation": last, "TimeLimit.truncated": True}
            return joined, reward, truncated, infos

        def close(self):
            self.env.close()

        def get_attr(self, attr_name, indices=None):
            return [None] * EPISODES

        def set_attr(self, attr_name, value, indices=None):
            raise NotImplementedError

        def env_method(self, method_name, *args, indices=None, **kwargs):
            raise NotImplementedError

        def env_is_wrapped(self, wrapper_class, indices=None):
            return [False] * EPISODES

    return Adapter()


def join(observation, action, reward):
    """What RecurrentPPO is given to see (N, 3)."""
    import numpy as np

    return np.concatenate([observation, action, 0.1 * reward[:, None]], axis=1).astype("float32")


class PeerAgent:
    """RecurrentPPO under `evaluate`: its LSTM states, actor's and critic's, ride in the packed state."""

    def __init__(self, model):
        self.policy, self.units = model.policy, model.policy.lstm_actor.hidden_size

    def initial_state(self, batch_size: int):
        """Zeros (N, 2 units)."""
        import numpy as np

        return np.zeros((batch_size, 2 * self.units), "float32")

    def act(self, observation, prev_action, prev_reward, state, *, rng=None):
        """Actions (N, 1) and states (N, 2 units)."""
        import numpy as np

        lstm = state[None, :, : self.units], state[None, :, self.units :]
        action, lstm = self.policy.predict(
            join(observation, prev_action, prev_reward[:, 0]),
            lstm,
            np.zeros(len(state), bool),
            deterministic=rng is None,
        )
        return 5.0 * action, np.concatenate([part[0] for part in lstm], axis=1)


def run_worker(name: str, arguments: argparse.Namespace, seed: int) -> dict[str, Any]:
    """One turn in a process of its own, pinned to one core where the system can."""
    pin = ["taskset", "-c", "0"] if sys.platform == "linux" else []
    command = [*pin, sys.executable, __file__, "--worker", name, "--updates", str(arguments.updates)]
    command += ["--seed", str(seed), "--limit", str(arguments.limit)]
    command += [] if arguments.target is None else ["--target", str(arguments.target)]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"}
    environment |= {"KERAS_BACKEND": COMPETITORS[name][1] or "jax", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def print_table(rounds: list[dict[str, dict[str, Any]]], arguments: argparse.Namespace) -> None:
    print("| | parameters | environment steps/s, median (range) | over RecurrentPPO | peak memory |")
    print("|---|---|---|---|---|")
    for name in COMPETITORS:
        speeds = [turn[name]["steps_per_second"] for turn in rounds]
        ratios = [turn[name]["steps_per_second"] / turn["RecurrentPPO"]["steps_per_second"] for turn in rounds]
        print(
            f"| {name} | {rounds[0][name]['parameters']:,} | {spread(speeds, ',.0f')} | {spread(ratios, '.1f')} "
            f"| {max(turn[name]['peak_mb'] for turn in rounds):,.0f} MB |"
        )
    if arguments.target is None:
        return
    print(f"\n| seconds to a discounted return of {arguments.target:g} | by seed (last score where not reached) |")
    print("|---|---|")
    for name in COMPETITORS:
        print(f"| {name} | {', '.join(reached(turn[name]) for turn in rounds)} |")


def reached(turn: dict[str, Any]) -> str:
    seconds = turn["seconds_to_target"]
    return f"not ({turn['last_score']:.0f})" if seconds is None else f"{seconds:.0f} ({turn['updates']} updates)"


def spread(values: list[float], style: str) -> str:
    return f"{statistics.median(values):{style}} ({min(values):{style}} to {max(values):{style}})"


if __name__ == "__main__":
    main()
