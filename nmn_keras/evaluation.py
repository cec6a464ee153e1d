"""Scores of an agent on full episodes; needs neither Keras nor TensorFlow.

Works with everything that has `initial_state` and `act`: `ActorCritic`, `OnnxAgent`, `BayesOptimalPolicy`. If it has
`check_env` too, that is asked first whether it can play the environment.
"""

import math
from typing import Any

import numpy as np

from nmn_keras import envs
from nmn_keras.optima import KnownTaskOptima
from nmn_keras.stepper import Stepper

TEST_SEED = 0
"""Seed of the episodes that published scores are measured on."""
VALIDATION_SEED = 1
"""Seed of the episodes that choose a checkpoint or a training seed; never used for published scores."""

_BATCH = 500
_LONGEST = 100_000
"""Steps after which an episode that nothing has to end is taken for endless."""


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
        env: short name, Gymnasium id, spec, environment with a spec, vector environment, or factory. A vector
            environment plays as many episodes at once as it has environments, in any autoreset mode, and stays open.
        episodes: number of episodes, each of another task.
        deterministic: whether the policy's mode is played; else actions are sampled.
        seed: of tasks, environments and sampled actions.
        discount: of `discounted_return`; None = the benchmark's, 0.998 for other environments.
        env_kwargs: for the environment.

    Returns:
        `return` and `discounted_return` (means), `return_interval` and `discounted_return_interval` (95 %, normal, over
        episodes; of one episode there are none), `discounted_return_quantile_10` (the worst tenth ends here), `length`,
        what was asked for, and, where the optimum is known, `optimal_discounted_return` and `share` of it. Where it is
        known task by task (full episodes of b2 or b3 with the tasks of the default seed and discount), also
        `share_quantile_10`, below which a tenth of the tasks have their discounted return as a share of their own
        optimum, and `worst_tenth_share`, the summed return of that tenth over its summed optimum.

    Raises:
        ValueError: if the environment does not fit the agent, gives numbers that are not finite, or has no time limit
            and an episode goes on for 100,000 steps, or `episodes` is not positive.
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
        result[name] = mean = float(scores[name].mean())
        if episodes > 1:
            half = 1.96 * float(scores[name].std(ddof=1)) / math.sqrt(episodes)
            result[f"{name}_interval"] = [mean - half, mean + half]
    result["discounted_return_quantile_10"] = float(np.quantile(scores["discounted_return"], 0.1))
    optimum = benchmark and benchmark.optimal_return(round(result["length"]), discount)
    if optimum is not None:
        share = result["discounted_return"] / optimum
        result |= {"optimal_discounted_return": optimum, "share": share}
    if benchmark and benchmark.known_task and discount == benchmark.discount:
        if (scores["length"] == benchmark.episode_steps).all():
            tasks = episode_tasks(env, episodes, seed, env_kwargs)
            result |= task_shares(scores["discounted_return"], tasks, benchmark.known_task)
    return result


def task_shares(returns: np.ndarray, tasks: np.ndarray, known: KnownTaskOptima) -> dict[str, float]:
    """How far the worst tenth of the tasks is from its own optimum.

    Args:
        returns: discounted return of each episode `(episodes,)`.
        tasks: their tasks `(episodes, K)`.
        known: optima, task by task.

    Returns:
        `share_quantile_10` and `worst_tenth_share`, see `evaluate`; nothing where these are not the first tasks of
        `known`.
    """
    if not known.begin_with(tasks):
        return {}
    optimum = known.discounted[: len(returns)].astype("float64")
    shares = returns / optimum
    worst = np.argsort(shares, kind="stable")[: max(1, round(len(shares) / 10))]
    return {
        "share_quantile_10": float(np.quantile(shares, 0.1)),
        "worst_tenth_share": float(returns[worst].sum() / optimum[worst].sum()),
    }


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

    def play(vector, generator):
        return _play_chunk(agent, vector, deterministic, discount, generator)

    chunks = in_chunks(play, env, episodes, seed, env_kwargs)
    return {name: np.concatenate([chunk[name] for chunk in chunks])[:episodes] for name in chunks[0]}


def episode_tasks(env, episodes: int, seed: int = TEST_SEED, env_kwargs: dict | None = None) -> np.ndarray:
    """The tasks of the episodes that `play_episodes` plays `(episodes, K)`, of an environment that tells them."""
    begun = in_chunks(begin, env, episodes, seed, env_kwargs)
    return np.concatenate([info["task"] for _, info in begun])[:episodes]


def in_chunks(function, env, episodes: int, seed: int = TEST_SEED, env_kwargs: dict | None = None) -> list:
    """What `function(vector_env, generator)` gives for each of the vector environments that play the episodes.

    They have at most 500 rows. Whoever begins them with `begin` plays the episodes of `evaluate`. One that was given as
    it is plays round after round; of its last round there may be more than is needed.
    """
    results, start = [], 0
    while start < episodes:
        with envs.open_vec(env, min(_BATCH, episodes - start), **(env_kwargs or {})) as vector:
            results.append(function(vector, np.random.default_rng([seed, start, 2**31])))
            start += vector.num_envs
    return results


def begin(env, generator, options: dict | None = None):
    """Reset a vector environment with a seed of the generator's: observations and information."""
    return env.reset(seed=_seed(generator), options=options)


def _seed(generator):
    return int(generator.integers(2**31))


def _play_chunk(agent, env, deterministic, discount, generator):
    n, stepper = env.num_envs, Stepper(env)
    if check := getattr(agent, "check_env", None):
        check(env)
    observation = stepper.reset(_seed(generator))
    state = agent.initial_state(n)
    action, reward = np.zeros((n, len(stepper.spaces.action_low)), "float32"), np.zeros((n, 1), "float32")
    total, discounted, length = np.zeros(n), np.zeros(n), np.zeros(n, int)
    playing, worth = np.ones(n, bool), 1.0
    endless = getattr(env.spec, "max_episode_steps", None) is None
    while playing.any():
        if endless and length.max() >= _LONGEST:
            raise ValueError(
                "Full episodes are played, and one does not end: the environment has no time limit. Accepted is one "
                f"with `max_episode_steps` (gymnasium.make takes it). Received: an episode of {length.max():,} steps"
            )
        action, state = agent.act(observation, action, reward, state, rng=None if deterministic else generator)
        outcome = stepper.step(action)
        observation, reward = outcome.observation, outcome.reward[:, None].astype("float32")
        total += np.where(playing, outcome.reward, 0.0)
        discounted += np.where(playing, worth * outcome.reward, 0.0)
        length += playing
        playing &= ~outcome.ended
        worth *= discount
    return {"return": total, "discounted_return": discounted, "length": length}


def benchmark_of(env, env_kwargs: dict | None = None) -> envs.Benchmark | None:
    """The benchmark that an environment is, or None: arguments or wrappers that change the task make it another one.

    Args:
        env: what `evaluate` takes, or None.
        env_kwargs: for the environment.
    """
    env_id, kwargs = envs.identity(env)
    known = next((b for b in envs.BENCHMARKS.values() if env_id in (b.name, b.env_id)), None)
    return known and known.with_arguments({**kwargs, **(env_kwargs or {})})
