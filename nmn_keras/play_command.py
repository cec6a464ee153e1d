"""The `nmn play` command: an agent's episodes in a window or as a video."""

import argparse
import contextlib
import os
import sys
from pathlib import Path

import numpy as np

from nmn_keras import options

_LONGEST = 100_000
"""Steps after which an episode that nothing has to end is taken for endless."""


def add_play(commands):
    """Add the command."""
    parser = commands.add_parser(
        "play",
        allow_abbrev=False,
        help="watch an agent in a window, or write a video",
        description="Play episodes of a trained agent, each from empty memory, and show them in a window or write "
        "them to one video. The return of each episode is printed.",
        epilog="Examples: nmn play runs/Pendulum-v1-nmn-s0; nmn play b1-nmn --video b1.mp4 --episodes 3.",
    )
    parser.add_argument("agent", help="a run directory (its best-validated weights), a zoo name or hf://user/name")
    parser.add_argument("--video", type=Path, metavar="FILE", help="write FILE.mp4 or FILE.gif, open no window")
    parser.add_argument("--episodes", type=options.positive, default=1, help="default: 1")
    parser.add_argument("--seed", type=_seed, default=0, help="of the first episode, later ones count on; default: 0")
    parser.add_argument(
        "--deterministic",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="play the likeliest action; --sampled is --no-deterministic; default: deterministic",
    )
    parser.add_argument("--sampled", dest="deterministic", action="store_false", help="sample the actions")
    options.add_env_kwargs(parser, "more arguments of the environment")
    options.add_zoo(parser)
    parser.set_defaults(run=_play)


def _seed(text):
    """A seed from 0, for argparse."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be an integer >= 0. Received: {text!r}")
    return int(text)


def _play(arguments):
    from nmn_keras import checkpoint, scoring, video

    if arguments.video is not None:
        video.check_path(arguments.video)
    elif sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"} & {*os.environ}:
        raise OSError("A window needs a screen (DISPLAY or WAYLAND_DISPLAY). Accepted without one: --video FILE.")
    runtime = "keras" if checkpoint.exists(arguments.agent) else "onnx"
    agent = scoring.open_agent(arguments.agent, runtime, arguments.zoo)
    env_id, env_kwargs = scoring.environment(agent)
    mode = "human" if arguments.video is None else "rgb_array"
    env = open_env(env_id, {**env_kwargs, **(arguments.env_kwargs or {})}, mode)
    frames = play(agent, env, arguments.episodes, arguments.seed, arguments.deterministic, report=print)
    if arguments.video is None:
        _show(frames)
    else:
        count = video.write(arguments.video, frames, env.metadata.get("render_fps") or 30)
        print(f"{arguments.video}: {count} frames")


def _show(frames):
    """Have an environment show itself."""
    try:
        for _ in frames:
            pass
    except RuntimeError as error:  # pygame.error is one
        raise OSError(f"No window could be shown ({error}). A screen is needed, or --video FILE.") from error


def open_env(env_id, env_kwargs, mode):
    """An environment that is rendered.

    Raises:
        ValueError: if it has no such rendering, or does not take the arguments.
    """
    import gymnasium

    from nmn_keras import envs

    what = {"human": "a window", "rgb_array": "a video"}[mode]
    try:
        with envs.open_any(env_id, **env_kwargs) as made:
            known = [*(made.metadata.get("render_modes") or ())]
        if mode in known:
            return envs.make(env_id, **env_kwargs, render_mode=mode)
        if mode == "human" and "rgb_array" in known:
            return gymnasium.wrappers.HumanRendering(envs.make(env_id, **env_kwargs, render_mode="rgb_array"))
    except TypeError as error:
        raise ValueError(f"The environment {env_id} cannot be made so. Received: {env_kwargs} ({error})") from error
    raise ValueError(
        f"The environment cannot be rendered: {what} needs the render mode {mode!r}. "
        f"Received: {env_id}, whose render modes are {known}"
    )


def play(agent, env, episodes, seed, deterministic, report):
    """Play episodes, a generator of the pictures: one before the first step of each, one after each step.

    Args:
        agent: what has `initial_state` and `act`.
        env: an environment with a render mode, which is closed in the end; under "human" what is yielded is None.
        episodes: how many.
        seed: of the first one's environment and sampled actions; the next ones have the next seeds.
        deterministic: whether the likeliest action is played; else actions are sampled.
        report: called with a line for each episode.
    """
    from gymnasium.vector import AutoresetMode, SyncVectorEnv

    from nmn_keras.stepper import Stepper

    # Under NEXT_STEP the environment still shows the end of an episode after its last step.
    vector = SyncVectorEnv([lambda: env], autoreset_mode=AutoresetMode.NEXT_STEP)
    with contextlib.closing(vector):
        agent.check_env(vector)
        for i in range(episodes):
            rng = None if deterministic else np.random.default_rng(seed + i)
            total, steps = yield from _play_episode(agent, env, Stepper(vector), seed + i, rng)
            report(f"episode {i + 1}: return {total:.1f}, {steps} steps")


def _play_episode(agent, env, stepper, seed, rng):
    observation, state = stepper.reset(seed), agent.initial_state(1)
    action, reward = np.zeros((1, len(stepper.spaces.action_low)), "float32"), np.zeros((1, 1), "float32")
    total, steps, ended = 0.0, 0, False
    yield env.render()
    while not ended:
        if steps >= _LONGEST:
            raise ValueError(
                "An episode does not end: the environment has no time limit. Accepted is --env-kwargs "
                f"'{{\"max_episode_steps\": N}}'. Received: an episode of {steps:,} steps"
            )
        action, state = agent.act(observation, action, reward, state, rng=rng)
        outcome = stepper.step(action)
        observation, reward, ended = outcome.observation, outcome.reward[:, None].astype("float32"), outcome.ended[0]
        total, steps = total + float(outcome.reward[0]), steps + 1
        yield env.render()
    return total, steps
