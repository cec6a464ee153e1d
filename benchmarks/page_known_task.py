"""What the page's player that knows the task earns, beside the optimal control whose returns are in `nmn_keras.optima`.

    python benchmarks/page_known_task.py

Node plays the first of the published test tasks with the page's own modules, with a plan and flying straight, as the
player does until its plan is there. The optima of the same tasks come from Python, with other random numbers; intervals
are twice the standard error of the mean of the differences over tasks.
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

from nmn_keras import optima
from nmn_keras.envs import BENCHMARKS

SCRIPT = Path(__file__).parents[1] / "tests" / "page" / "play_worlds.mjs"


def main() -> None:
    arguments = parse_arguments()
    print(f"    python {' '.join(sys.argv)}\n")
    print("| | known-task control | page, with its plan | page, flying straight | sweeps of a plan |")
    print("|---|---|---|---|---|")
    for name in ("b2", "b3"):
        known = optima.load(name)
        optimal = known.undiscounted[: arguments.tasks] / BENCHMARKS[name].episode_steps
        played = play(name, known.tasks[: arguments.tasks], arguments.steps)
        earned = np.array([plan["earned"] for plan in played]).T
        cells = " | ".join(beside(one, optimal) for one in earned)
        print(f"| {name} | {optimal.mean():.2f} | {cells} | {np.mean([plan['sweeps'] for plan in played]):.0f} |")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=24, help="(%(default)s)")
    parser.add_argument("--steps", type=int, default=20_000, help="of each task (%(default)s)")
    return parser.parse_args()


def play(name: str, tasks: np.ndarray, steps: int) -> list[dict]:
    """Plans of the tasks and what they earn per step, from the page's modules."""
    common = {"envId": BENCHMARKS[name].env_id, "positions": [], "steps": steps}
    asked = {"known": [{"task": task.tolist(), **common} for task in tasks]}
    command = [shutil.which("node") or "node", SCRIPT]
    done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["known"]


def beside(earned: np.ndarray, optimal: np.ndarray) -> str:
    """Rewards per step (N,) as their mean and the difference from the optimal ones in per cent of these."""
    apart = 100.0 * (earned - optimal) / optimal.mean()
    return f"{earned.mean():.2f} ({apart.mean():+.1f} ± {2.0 * apart.std(ddof=1) / np.sqrt(len(apart)):.1f} %)"


if __name__ == "__main__":
    main()
