"""Playing to learn: the only place that steps environments during training."""

import dataclasses

import numpy as np

from nmn_keras.envs import Benchmark
from nmn_keras.spaces import finite


@dataclasses.dataclass(frozen=True)
class Rollout:
    """T steps of N parallel environments, time-major float32, from a reset with empty memory.

    Where an episode ends the next one follows in the same row, so nothing is padded; `keep` marks the seams.
    """

    observation: np.ndarray
    """`(T, N, O)`, environment units."""
    prev_action: np.ndarray
    """`(T, N, A)`, the action really played one step before, environment units; zero where an episode begins."""
    prev_reward: np.ndarray
    """`(T, N, 1)`, the reward of the step before; zero where an episode begins."""
    keep: np.ndarray
    """`(T, N, 1)`, 0 where an episode begins, else 1."""
    successor: np.ndarray
    """`(T, N, O)`, what was observed after the step, before any reset."""
    played: np.ndarray
    """`(T, N, A)`, the action played, environment units."""
    action: np.ndarray
    """`(T, N, A)`, the action sampled, network units, unclipped."""
    mean: np.ndarray
    """`(T, N, A)`, mean of the policy that played, network units."""
    log_var: np.ndarray
    """`(T, N, A)`, its log-variance."""
    reward: np.ndarray
    """`(T, N)`."""
    terminated: np.ndarray
    """`(T, N)`, 1 where the episode ended and nothing follows, else 0."""
    ended: np.ndarray
    """`(T, N)`, 1 where the episode ended in any way, else 0."""
    explored: np.ndarray
    """`(T, N)`, 1 where the action was sampled, 0 where the mean was played."""
    actor_state: np.ndarray
    """`(ceil(T / segment_steps), N, S)`, the packed state before each segment's first step."""

    def arrays(self) -> dict[str, np.ndarray]:
        """The fields as a dict."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


def play(env, policy, architecture, steps, recipe, generator) -> Rollout:
    """Play `steps` steps in every environment of a vector environment.

    Args:
        env: vector environment with SAME_STEP autoreset.
        policy: callable `(observation, prev_action, prev_reward, state) -> (mean, log_var, state)`.
        architecture: the actor's `Architecture`.
        steps: T.
        recipe: says how long segments are, before each of which the actor's state is kept, and which share of them is
            played with the mean action; the others are sampled.
        generator: numpy generator from which the environments' seed and all noise are drawn.

    Raises:
        ValueError: if an observation or a reward is not finite.
        FloatingPointError: if an action is not.
    """
    n, a = env.num_envs, architecture
    seed, explored, noise = draw(recipe, steps, n, a.action_size, generator)
    observation, _ = env.reset(seed=seed)
    observation = finite(observation, "observation", 0)
    prev_action, prev_reward = np.zeros((n, a.action_size), "float32"), np.zeros((n, 1), "float32")
    state, keep = np.zeros((n, a.state_size), "float32"), np.zeros((n, 1), "float32")
    rows, states = [], []
    for t in range(steps):
        if t % recipe.segment_steps == 0:
            states.append(state)
        mean, log_var, state = policy(observation, prev_action, prev_reward, state)
        action = _sample(mean, log_var, noise[t], t)
        played = a.to_environment(action)
        following, reward, terminated, truncated, info = env.step(played)
        following = finite(following, "observation", t + 1)
        reward = finite(reward, "reward", t + 1)
        ended = terminated | truncated
        successor = finite(_successor(following, ended, info), "final observation", t + 1)
        before = (observation, prev_action, prev_reward, keep)
        rows.append((*before, successor, played, action, mean, log_var, reward, terminated, ended))
        keep = 1.0 - ended[:, None].astype("float32")
        observation, prev_action, prev_reward = following, played * keep, reward[:, None] * keep
        state = state * keep if ended.any() else state
    names = [field.name for field in dataclasses.fields(Rollout)]
    columns = {
        name: np.stack(column).astype("float32", copy=False)
        for name, column in zip(names, zip(*rows, strict=True), strict=False)
    }
    return Rollout(**columns, explored=explored, actor_state=np.stack(states))


def _sample(mean, log_var, noise, step):
    """Actions in network units; a policy that has diverged is told from an environment that gives bad numbers."""
    with np.errstate(over="ignore", invalid="ignore"):
        action = mean + np.exp(0.5 * log_var) * noise
    if not np.isfinite(action).all():
        raise FloatingPointError(f"non-finite action at step {step}")
    return action


def draw(recipe, steps, n, action_size, generator):
    """Seed of the environments, which segments are sampled `(steps, n)` and the noise `(steps, n, action_size)`."""
    seed = int(generator.integers(2**31))
    segments = -(-steps // recipe.segment_steps)
    sampled = generator.random((segments, n)) >= recipe.deterministic_share
    explored = np.repeat(sampled, recipe.segment_steps, axis=0)[:steps].astype("float32")
    noise = generator.standard_normal((steps, n, action_size), dtype="float32")
    return seed, explored, noise * explored[..., None]


def summary(reward, log_var, benchmark: Benchmark | None = None) -> dict[str, float]:
    """What is logged of a rollout: reward per step, returns from its start, share of the optimum where it is known.

    Takes its rewards `(T, N)` and log-variances `(T, N, A)`.
    `discounted_return` is over the rollout's T steps, sampled actions, at the benchmark's discount (0.998 elsewhere);
    `share` is against the optimum over as many steps.
    """
    discount = benchmark.discount if benchmark else 0.998
    steps = len(reward)
    worth = discount ** np.arange(steps)
    logs = {
        "reward": float(reward.mean()),
        "return": float(reward.sum(axis=0).mean()),
        "discounted_return": float((worth @ reward).mean()),
        "deviation": float(np.exp(0.5 * log_var).mean()),
    }
    optimum = benchmark and benchmark.optimal_return(steps, discount)
    return logs | ({"share": logs["discounted_return"] / optimum} if optimum else {})


def _successor(following, ended, info):
    """Observations after the step; where an episode ended, `following` already belongs to the next one."""
    if not ended.any():
        return following
    successor = following.copy()
    for i in np.flatnonzero(ended):
        successor[i] = info["final_obs"][i]
    return successor
