"""Pictures of one episode of a published agent, side by side, in one PNG.

python examples/draw_episode.py b1-nmn --steps 1 2 3 20 --output b1.png
"""

import argparse

import numpy as np
from matplotlib.image import imsave

import nmn_keras


def main() -> None:
    """Play up to the last step asked for and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("agent", help="name in the zoo")
    parser.add_argument("--steps", type=int, nargs="+", default=[1, 2, 3, 20], help="steps to show (default: 1 2 3 20)")
    parser.add_argument("--columns", type=int, default=2, help="pictures in a row (default: 2)")
    parser.add_argument("--seed", type=int, default=0, help="of the task and the world (default: 0)")
    parser.add_argument("--output", required=True, help="PNG file to write")
    arguments = parser.parse_args()
    frames = play(arguments.agent, sorted(set(arguments.steps)), arguments.seed)
    imsave(arguments.output, tile(frames, arguments.columns))


def play(name: str, steps: list[int], seed: int) -> list[np.ndarray]:
    """The frames (H, W, 3) of some steps of an episode."""
    agent = nmn_keras.zoo.load(name, runtime="onnx")
    env = nmn_keras.envs.make(agent.env_id, render_mode="rgb_array", **agent.env_kwargs)
    spaces = nmn_keras.spaces.describe(env)
    observation, _ = env.reset(seed=seed)
    action, reward, state = np.zeros(agent.action_size), 0.0, agent.initial_state(1)
    frames = []
    for step in range(1, steps[-1] + 1):
        (action,), state = agent.act([spaces.row(observation)], [action], [[reward]], state)
        observation, reward, _, _, _ = env.step(spaces.action(action))
        if step in steps:
            frames.append(env.render())
    env.close()
    return frames


def tile(frames: list[np.ndarray], columns: int) -> np.ndarray:
    """Frames in rows, the last one filled up with white."""
    frames = frames + [np.full_like(frames[0], 255)] * (-len(frames) % columns)
    rows = [np.concatenate(frames[i : i + columns], axis=1) for i in range(0, len(frames), columns)]
    return np.concatenate(rows, axis=0)


if __name__ == "__main__":
    main()
