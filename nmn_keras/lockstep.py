"""Several seeds of one run in one compiled program (JAX): a GPU does for all at once what it does for one.

Environments are played inside the program too, over the same dynamics as in numpy and with the same random numbers, so
a seed learns here what it learns alone, up to rounding. On a CPU one process per core is faster.
"""

import contextlib
import inspect
import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.utils import seeding
from keras import ops

from nmn_keras import envs, rollout
from nmn_keras.actor_critic import ActorCritic
from nmn_keras.callbacks import deferred_interrupt
from nmn_keras.envs.task_env import draw_start
from nmn_keras.envs.task_vector_env import TaskVectorEnv
from nmn_keras.updates.jax import compile_together


class Draws(NamedTuple):
    """All random numbers of a rollout of T steps in N environments."""

    task: np.ndarray
    """`(N, K)`."""
    position: np.ndarray
    """`(N, P)`, where the episodes begin."""
    uniform: np.ndarray
    """`(T, N, D)`, what the dynamics need in each step."""
    noise: np.ndarray
    """`(T, N, ...)`, of the sampled actions, as their head wants it; 0 where the mode is played."""
    explored: np.ndarray
    """`(T, N)`, 1 where the action is sampled."""


def fit(agents: Sequence[ActorCritic], env, options: Sequence[dict[str, Any]]) -> None:
    """Train agents of one architecture and recipe together, one update of all at a time.

    Args:
        agents: each with its own seed.
        env: a benchmark, or what makes another `TaskVectorEnv`; see `ActorCritic.fit`.
        options: further arguments of `ActorCritic.fit`, one dict per agent: `seed`, `run_dir`, `callbacks` and so on.

    Raises:
        ValueError: if the environment is not a `TaskVectorEnv`, its episodes are shorter than a rollout, agents differ,
            or an argument of `ActorCritic.fit` is refused.
        TrainingDiverged: if one of them diverges; all stop, and their last checkpoints stay as they were.
        KeyboardInterrupt: after a SIGINT, once the present update is whole and the checkpoints are written.
    """
    _check_alike(agents)
    with contextlib.ExitStack() as stack:
        interrupted = stack.enter_context(deferred_interrupt())
        loops = [
            stack.enter_context(contextlib.closing(_loop(agent, interrupted, env, chosen)))
            for agent, chosen in zip(agents, options, strict=True)
        ]
        going = [(agent, loop, next(loop)) for agent, loop in zip(agents, loops, strict=True)]
        program = None
        while going := [(agent, loop, due) for agent, loop, due in going if due is not None]:
            together, dues = [agent for agent, _, _ in going], [due for _, _, due in going]
            dynamics = _dynamics(*dues[0])
            program = program or compile_together(agents[0], partial(play, dynamics))
            logs = _update(program, dynamics, together, dues)
            going = [(agent, loop, loop.send(new)) for (agent, loop, _), new in zip(going, logs, strict=True)]
        if interrupted():
            raise KeyboardInterrupt


def play(dynamics, actor, recipe, draws: Draws) -> dict[str, Any]:
    """What `rollout.play` gives, computed inside a compiled program.

    Args:
        dynamics: the task family.
        actor: the actor network.
        recipe: says how long segments are.
        draws: the random numbers; its T is at most one episode's length.

    Returns:
        The arrays of a `Rollout`.
    """
    a, (steps, n) = actor.architecture, draws.explored.shape

    def step(carry, drawn):
        position, prev_action, prev_reward, state, keep = carry
        uniform, noise = drawn
        observation = dynamics.observation(position, draws.task, xp=jnp)
        output, _, state_out = actor.step(observation, prev_action, prev_reward, state)
        policy = a.head.policy(output)
        action = a.head.sample(policy, noise, ops)
        played = a.to_environment(action, ops)
        following, reward = dynamics.step(position, draws.task, played, uniform, xp=jnp)
        row = {
            "observation": observation,
            "prev_action": prev_action,
            "prev_reward": prev_reward,
            "keep": keep,
            "successor": dynamics.observation(following, draws.task, xp=jnp),
            "played": played,
            "action": action,
            "policy": policy,
            "reward": reward,
            "state": state,
        }
        return (following, played, reward[:, None], state_out, jnp.ones_like(keep)), row

    nothing = [jnp.zeros((n, size)) for size in (a.action_size, 1, a.state_size, 1)]
    _, rows = jax.lax.scan(step, (draws.position, *nothing), (draws.uniform, draws.noise))
    states = rows.pop("state")[:: recipe.segment_steps]
    zeros = jnp.zeros((steps, n))
    return {**rows, "explored": draws.explored, "actor_state": states, "terminated": zeros, "ended": zeros}


def draw(dynamics, episodes: int, steps: int, architecture, recipe, generator) -> Draws:
    """Draw what `rollout.play` and `TaskVectorEnv` would, in their order."""
    seed, explored, noise = rollout.draw(recipe, steps, episodes, architecture.head, generator)
    rng, _ = seeding.np_random(seed)
    task, position = draw_start(dynamics, rng, (episodes,), {})
    uniform = rng.random((steps, episodes, dynamics.draws[2]))
    return Draws(*(x.astype("float32") for x in (task, position, uniform, noise, explored)))


def _loop(agent, interrupted, env, options):
    """`ActorCritic.fit` without its updates."""
    arguments = inspect.signature(agent.fit).bind(env, **options)
    arguments.apply_defaults()
    return agent.fitting(interrupted, **arguments.arguments)


def _update(program, dynamics, agents, dues):
    """One rollout and update of all agents; the logs of each."""
    plans, draws = [], []
    for agent, (vector, steps) in zip(agents, dues, strict=True):
        generator = np.random.default_rng([agent.run.seed, agent.run.update])
        plans.append(agent.plan_update(steps, vector.num_envs))
        draws.append(draw(dynamics, vector.num_envs, steps, agent.architecture, agent.recipe, generator))
    results = program(agents, draws, [agent.run.buffer for agent in agents], plans)
    return [
        {
            **rollout.summary(reward, policy, agent.architecture.head, agent.benchmark()),
            **agent.end_update(batch, logs),
        }
        for agent, ((reward, policy), batch, logs) in zip(agents, results, strict=True)
    ]


def check_env(env, steps: int | None, env_kwargs: dict[str, Any] | None = None) -> None:
    """Refuse an environment that cannot be played inside a compiled program.

    Args:
        env: what `fit` takes.
        steps: of a rollout; None = a whole episode.
        env_kwargs: arguments of the environment.

    Raises:
        ValueError: if the environment is not a `TaskVectorEnv`, or its episodes are not longer than a rollout.
    """
    with envs.open_vec(env, 1, **(env_kwargs or {})) as vector:
        _dynamics(vector, math.inf if steps is None else steps)


def _dynamics(vector, steps):
    inner = vector.unwrapped
    if not isinstance(inner, TaskVectorEnv):
        raise ValueError(
            "Only the project's own environments are played inside a compiled program. Train each seed in a process "
            f"of its own instead. Received: {vector}"
        )
    if steps >= inner.max_episode_steps:
        raise ValueError(
            "A rollout inside a compiled program must be shorter than an episode. Train each seed in a process of its "
            f"own instead, or lower `rollout_steps`. Received: {steps} of {inner.max_episode_steps} steps"
        )
    return inner.dynamics


def _check_alike(agents):
    kinds = {(agent.architecture, agent.recipe) for agent in agents}
    if len(kinds) != 1:
        raise ValueError(f"Agents that train together need one architecture and one recipe. Received: {kinds}")
    architecture = agents[0].architecture
    if architecture.normalise_observations or architecture.normalise_rewards:
        raise ValueError(
            "Agents that normalise observations or rewards do not train together in one program: their statistics "
            "change between updates, outside of it. Train each seed in a process of its own. Received: "
            f"normalise_observations={architecture.normalise_observations}, "
            f"normalise_rewards={architecture.normalise_rewards}"
        )
    kept = [len(agent.run.buffer) for agent in agents]
    if len({*kept}) != 1:
        raise ValueError(
            "The critics of agents that train together must learn from as many earlier updates each: resume those that "
            f"have begun by themselves first. Received: {kept} earlier updates are kept of them"
        )
