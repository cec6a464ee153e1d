"""Scores of an agent on full episodes; needs neither Keras nor TensorFlow.

Works with everything that has `initial_state` and `act`: `ActorCritic`, `OnnxAgent`, `BayesOptimalPolicy`.
"""

import math
from typing import Any

import numpy as np

from nmn_keras import envs, spaces

TEST_SEED = 0
"""Seed of the episodes that published scores are measured on."""
VALIDATION_SEED = 1
"""Seed of the episodes that choose a checkpoint or a training seed; never used for published scores."""

_BATCH = 500


def evaluate(
    agent,
    env="b1",
    episodes: int = 1000,
    deterministic: bool = True,
    seed: int = TEST_SEED,
    discount: float | None = None,
    env_kwargs: dict | None = None,
) -> dict:
    """Play full episodes, each from empty memory, and summarise their returns.

    Args:
        agent: what acts.
        env: short name, Gymnasium id, spec, environment with a spec, or factory.
        episodes: number of episodes, each of another task.
        deterministic: whether the mean action is played; else actions are sampled.
        seed: of tasks, environments and sampled actions.
        discount: of `discounted_return`; None = the benchmark's, 0.998 for other environments.
        env_kwargs: for the environment.

    Returns:
        `return` and `discounted_return` (means), `return_interval` and `discounted_return_interval` (95 %,
        normal, over episodes), `discounted_return_quantile_10` (the worst tenth ends here), `length`, what was asked
        for, and, where the optimum is known, `optimal_discounted_return` and `share` of it.

    Raises:
        ValueError: if the environment does not fit the agent, gives numbers that are not finite, or `episodes` is not
            positive.
    """
    benchmark = benchmark_of(env, env_kwargs)
    if discount is None:
        discount = benchmark.discount if benchmark else 0.998
    scores = play_episodes(agent, env, episodes, deterministic, seed, discount, env_kwargs)
    result: dict[str, Any] = {
        "episodes": episodes,
        "deterministic": deterministic,
        "seed": seed,
        "discount": discount,
        "length": float(scores["length"].mean()),
    }
    for name in ("return", "discounted_return"):
        mean, half = _interval(scores[name])
        result |= {name: mean, f"{name}_interval": [mean - half, mean + half]}
    result["discounted_return_quantile_10"] = float(np.quantile(scores["discounted_return"], 0.1))
    optimum = benchmark and benchmark.optimal_return(round(result["length"]), discount)
    if optimum is not None:
        share = result["discounted_return"] / optimum
        result |= {"optimal_discounted_return": optimum, "share": share}
    return result


def play_episodes(
    agent,
    env,
    episodes: int,
    deterministic: bool = True,
    seed: int = TEST_SEED,
    discount: float = 0.998,
    env_kwargs: dict | None = None,
) -> dict[str, np.ndarray]:
    """Returns of each episode: `{"return", "discounted_return", "length"}`, each `(episodes,)`.

    Every environment plays one episode, so short episodes do not crowd out long ones.
    """
    if isinstance(episodes, bool) or not isinstance(episodes, int | np.integer) or episodes < 1:
        raise ValueError(f"`episodes` must be a positive integer. Received: episodes={episodes!r}")
    chunks = []
    for start in range(0, episodes, _BATCH):
        generator = np.random.default_rng([seed, start, 2**31])
        vector = envs.make_vec(env, min(_BATCH, episodes - start), **(env_kwargs or {}))
        try:
            chunks.append(_play_chunk(agent, vector, deterministic, discount, generator))
        finally:
            vector.close()
    return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}


def _play_chunk(agent, env, deterministic, discount, generator):
    n, actions = env.num_envs, len(spaces.describe(env).action_low)
    observation, _ = env.reset(seed=int(generator.integers(2**31)))
    observation, step = spaces.finite(observation, "observation", 0), 0
    state = agent.initial_state(n)
    action, reward = np.zeros((n, actions), "float32"), np.zeros((n, 1), "float32")
    total, discounted, length = np.zeros(n), np.zeros(n), np.zeros(n, int)
    playing, worth = np.ones(n, bool), 1.0
    while playing.any():
        action, state = agent.act(observation, action, reward, state, rng=None if deterministic else generator)
        observation, rewards, terminated, truncated, _ = env.step(action)
        step += 1
        observation = spaces.finite(observation, "observation", step)
        reward = spaces.finite(rewards, "reward", step)[:, None]
        total += np.where(playing, rewards, 0.0)
        discounted += np.where(playing, worth * rewards, 0.0)
        length += playing
        playing &= ~(terminated | truncated)
        worth *= discount
    return {"return": total, "discounted_return": discounted, "length": length}


def benchmark_of(env, env_kwargs: dict | None = None) -> envs.Benchmark | None:
    """The benchmark that an environment is, or None: arguments or wrappers that change the task make it another one.

    Args:
        env: what `evaluate` takes, or None.
        env_kwargs: for the environment.
    """
    spec = getattr(env, "spec", env)
    given = {*getattr(spec, "kwargs", {}), *(env_kwargs or {})}
    if given - {"max_episode_steps", "render_mode"} or getattr(spec, "additional_wrappers", None):
        return None
    env_id = getattr(spec, "id", env)
    known = (b for b in envs.BENCHMARKS.values() if env_id in (b.name, b.env_id))
    return next(known, None)


def _interval(values):
    """Mean and half width of its 95 % interval."""
    spread = values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return float(values.mean()), 1.96 * float(spread)
