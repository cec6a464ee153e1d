"""An agent by the name that a user gives it, and its scores as they are printed."""

import json
from pathlib import Path

BENCHMARK_EPISODES, OTHER_EPISODES = 1000, 100
"""Test episodes where none are asked for: a benchmark's are short of work, another task's may be slow."""


def open_agent(name, runtime="keras", zoo=None):
    """An agent by zoo name, or from a run directory with its best-validated weights."""
    from nmn_keras import checkpoint
    from nmn_keras import zoo as published

    if not checkpoint.exists(name):
        return published.load(name, runtime=runtime, zoo=zoo)
    if runtime != "keras":
        raise ValueError(f"A run directory is evaluated with Keras; export it first. Received: runtime={runtime!r}")
    from nmn_keras.actor_critic import ActorCritic

    agent = ActorCritic.load(name)
    best = Path(name) / "best.weights.h5"
    if best.exists():
        agent.load_weights(best)
    return agent


def environment(agent):
    """Id and arguments of the environment that an agent was trained on.

    Raises:
        ValueError: if it was made by a factory, which no file remembers.
    """
    trained = getattr(agent, "run", agent)  # an `ActorCritic` has it in its run
    if trained.env_id is None:
        raise ValueError(
            "The agent was trained on an environment that cannot be made again by name. Accepted are agents of an "
            "environment registered with Gymnasium; with others, call `evaluate` or `fit` in Python. Received: an "
            "environment made by a factory"
        )
    return trained.env_id, trained.env_kwargs


def score(agent, episodes=None, path=None):
    """Evaluate deterministic and sampled actions, print both, and keep them.

    Args:
        agent: what has `evaluate`.
        episodes: of each; None = 1000 of a benchmark, 100 of another task.
        path: of a JSON file for the scores.
    """
    from nmn_keras.evaluation import benchmark_of

    benchmark = benchmark_of(*environment(agent))
    if episodes is None:
        episodes = BENCHMARK_EPISODES if benchmark else OTHER_EPISODES
    scores = {
        mode: agent.evaluate(episodes=episodes, deterministic=mode == "deterministic")
        for mode in ("deterministic", "sampled")
    }
    describe = _of_benchmark if benchmark else _of_other
    for mode, found in scores.items():
        print(f"{mode:>13}: {describe(found)}; {episodes} episode{'s' if episodes > 1 else ''}")
    if path is not None:
        Path(path).write_text(json.dumps(scores, indent=1))
    return scores


def _of_benchmark(found):
    """The paper's measure first."""
    share = f", {found['share']:.1%} of the optimum" if "share" in found else ""
    interval = _interval(found, "discounted_return")
    return f"discounted return {found['discounted_return']:.1f} {interval}{share}; undiscounted {found['return']:.1f}"


def _of_other(found):
    """What is usual elsewhere: the undiscounted return."""
    discounted = f"discounted by {found['discount']} {found['discounted_return']:.1f}"
    return f"return {found['return']:.1f} {_interval(found, 'return')}; {discounted}; length {found['length']:.0f}"


def _interval(found, name):
    known = found.get(f"{name}_interval")
    return "[{:.1f}, {:.1f}]".format(*known) if known else "(no interval)"
