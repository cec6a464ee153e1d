"""Episodes of a Gymnasium environment here, played by an agent there."""

from typing import Any

import numpy as np

from nmn_keras import scalars
from nmn_keras.client.agents import AgentClient


def play(
    env: Any,
    client: AgentClient,
    episodes: int = 1,
    seed: int | None = None,
    options: dict[str, Any] | None = None,
) -> list[float]:
    """Play episodes and return their undiscounted returns.

    The session's memory goes on where it is and is kept from one episode to the next: `client.reset()` before empties
    it. An episode that was terminated and one that was truncated end alike: the environment is reset, the server told
    (`begin_episode`), and the first step of the next episode bears the last reward, from which the agent still learns.
    The very last reward is not told, for no step follows it.

    Args:
        env: a Gymnasium environment, or a vector environment of N = `client.batch` whose autoreset mode is SAME_STEP or
            DISABLED. Its observations are flattened as `gymnasium.spaces.flatten` does it; actions outside its action
            space are not clipped here.
        client: its session.
        episodes: how many; of a vector environment, how many each of its N environments plays.
        seed: of the environment's first reset; None leaves its generator as it is.
        options: of every reset but those that a vector environment makes by itself.

    Returns:
        `episodes` returns in order; of a vector environment `episodes * N`: the first episodes of all N, then their
        second ones, and so on. One that is done sooner than others plays on without being counted.

    Raises:
        ValueError: the environment does not fit, or `episodes` is not positive; nothing was sent. Later, if a reward
            or a flag is not one number.
    """
    if isinstance(episodes, bool) or not isinstance(episodes, int) or episodes < 1:
        raise ValueError(f"`episodes` must be a positive integer. Received: {episodes!r}")
    from nmn_keras import spaces  # and with it Gymnasium, which the rest of the client does without

    envs = getattr(env, "num_envs", None)
    if client.batch != (envs or 1):
        raise ValueError(f"A session of batch {client.batch} steps as many environments. Received: {envs or 1}")
    if envs is not None:
        _check_autoreset(env)
    found = spaces.describe(env)
    if client.steps:
        client.begin_episode()
    play_them = _play_one if envs is None else _play_many
    return play_them(env, found, client, episodes, seed, options)


def _play_one(
    env: Any, found: Any, client: AgentClient, episodes: int, seed: int | None, options: dict[str, Any] | None
) -> list[float]:
    returns: list[float] = []
    reward = None
    while len(returns) < episodes:
        if returns:
            client.begin_episode()
        observation, _ = env.reset(seed=None if returns else seed, options=options)
        total, ended = 0.0, False
        while not ended:
            action = client.step(found.row(observation), reward)
            observation, reward, terminated, truncated, _ = env.step(found.action(action))
            reward = scalars.number(reward)
            total += reward
            ended = scalars.flag(terminated) or scalars.flag(truncated, "truncated")
        returns.append(total)
    return returns


def _play_many(
    env: Any, found: Any, client: AgentClient, episodes: int, seed: int | None, options: dict[str, Any] | None
) -> list[float]:
    observation, _ = env.reset(seed=seed, options=options)
    returns = np.zeros((episodes, env.num_envs))
    played = np.zeros(env.num_envs, int)
    reward = None
    while played.min() < episodes:
        rows = found.rows(observation, env.observation_space)
        sent = None if reward is None else _one_or_many(reward, client)
        action = client.step(_one_or_many(rows, client), sent)
        actions = found.actions(np.reshape(action, (client.batch, -1)))
        observation, reward, terminated, truncated, _ = env.step(actions)
        reward = scalars.numbers(reward, env.num_envs)
        counted = np.flatnonzero(played < episodes)
        returns[played[counted], counted] += reward[counted]
        ended = scalars.flags(terminated, env.num_envs) | scalars.flags(truncated, env.num_envs, "truncated")
        played += ended
        if ended.any() and env.metadata["autoreset_mode"].name == "DISABLED":
            observation, _ = env.reset(options={**(options or {}), "reset_mask": ended})
        # The server counts episodes of all N alone. The agent misses nothing: it is sent the reward at every step.
        if ended.all() and played.min() < episodes:
            client.begin_episode()
    return returns.ravel().tolist()


def _check_autoreset(env: Any) -> None:
    # NEXT_STEP resets in a step of its own, which ignores the action that the agent believes it has played.
    mode = env.metadata.get("autoreset_mode")
    if getattr(mode, "name", None) not in ("SAME_STEP", "DISABLED"):
        raise ValueError(f"Unsupported autoreset_mode. Accepted: SAME_STEP, DISABLED. Received: {mode}")


def _one_or_many(rows: np.ndarray, client: AgentClient) -> Any:
    return rows[0] if client.batch == 1 else rows
