"""Trains agents from scratch for an experiment: a process of `nmn train` for each agent and seed."""

import csv
import importlib.util
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from nmn_keras import checkpoint, cluster
from nmn_keras.analysis.experiment import Options
from nmn_keras.analysis.trained import Group, from_runs
from nmn_keras.sweep import Job

SEEDS = range(15)
"""Training seeds, as many as in the paper."""
RECIPE = "fast"
EVERY = 10.0
"""Seconds from one report to the next."""


class TrainingFailed(RuntimeError):
    """Runs ended with an error; the message names their logs."""


def train(names: Sequence[str], options: Options) -> list[Group]:
    """Train agents, or go on with them, and read their runs.

    Args:
        names: of presets.
        options: seeds (15 by default), recipe ("fast"), episodes (the recipe's), test episodes, jobs, ray, resume, and
            the directory, below which runs lie at `runs/NAME-RECIPE-sSEED`.

    Raises:
        FileExistsError: if there are runs and `resume` is not set; nothing is written.
        ValueError: if a name is unknown, or a run to go on with is of another length.
        OSError: as `nmn_keras.cluster.run_jobs`.
        TrainingFailed: if runs end with an error; what they left can be gone on with.
        KeyboardInterrupt: after a SIGINT, when all runs have saved.
    """
    run_jobs = cluster.runner(options.ray, options.jobs)
    recipe = options.recipe or RECIPE
    seeds = options.seeds or SEEDS
    runs = {(name, seed): options.directory / "runs" / f"{name}-{recipe}-s{seed}" for name in names for seed in seeds}
    jobs = [job for (name, seed), run in runs.items() if (job := _job(name, recipe, seed, run, options))]
    _check_names(names, recipe)
    options.report(f"{len(runs)} runs, {len(runs) - len(jobs)} of them have ended.")
    statuses = run_jobs(jobs, report=options.report, watch=Progress(options))
    if failed := [job for job in jobs if statuses[job.name]]:
        raise TrainingFailed(
            f"{len(failed)} of {len(jobs)} runs failed; --resume goes on with the others. "
            f"Received, at the end of the first one's log {failed[0].log}: {_last_line(failed[0].log)!r}"
        )
    by_name = {name: {seed: run for (other, seed), run in runs.items() if other == name} for name in names}
    return [group for name in names for group in from_runs(name, recipe, by_name[name])]


def _check_names(names, recipe):
    """Refuse an unknown name here, not in a log."""
    from nmn_keras import presets  # loads Keras, for which the rebuilding of figures must not wait

    for name in names:
        presets.get(name, recipe)


def _backend():
    """The variable that chooses the children's backend: JAX, the fast one, where it is installed and none is chosen."""
    chosen = "KERAS_BACKEND" in os.environ or not importlib.util.find_spec("jax")
    return {} if chosen else {"KERAS_BACKEND": "jax"}


def _job(name, recipe, seed, run, options):
    """The process that trains a run or goes on with it; None where it has ended."""
    begun = checkpoint.exists(run)
    if not options.resume:
        checkpoint.refuse_existing(run)
    if begun and options.episodes is not None:
        _check_length(run, options.episodes)
    if begun and (run / "scores.json").exists():
        return None
    command = [sys.executable, "-m", "nmn_keras.cli", "train", name, "--recipe", recipe, "--seed", str(seed)]
    command += ["--run-dir", str(run.absolute()), "--quiet"]
    for option, value in (("--episodes", options.episodes), ("--test-episodes", options.test_episodes)):
        if value is not None:
            command += [option, str(value)]
    return Job(str(run), command, run.with_name(run.name + ".log"), _backend(), run)


def _check_length(run, episodes):
    """Refuse to show a run as if it had been trained as long as asked for."""
    trained = json.loads((run / checkpoint.CONFIG).read_text())["recipe"]["episodes"]
    if trained != episodes:
        raise ValueError(
            f"The run in {run} has another length; it is accepted with --episodes {trained}. Received: {episodes}"
        )


class Progress:
    """Tells every few seconds how far the runs are, for `run_jobs`.

    Args:
        options: their `report`.
    """

    def __init__(self, options: Options):
        self.report, self.looked = options.report, time.monotonic()
        self.told: dict[str, str] = {}

    def __call__(self, running: list[str]) -> None:
        """Report each run's last update, if it is time to and there is news."""
        if time.monotonic() - self.looked < EVERY:
            return
        self.looked = time.monotonic()
        for name in running:
            standing = _standing(Path(name))
            if self.told.get(name) != standing:
                self.report(f"{name}: {standing}")
            self.told[name] = standing


def _standing(run):
    """Where a run stands, from its checkpoint and the last row of its curve."""
    try:
        updates = json.loads((run / checkpoint.INDEX).read_text())["state"]["updates"]
        with (run / "curves.csv").open(newline="") as file:
            last = [*csv.DictReader(file)][-1]
    except (OSError, LookupError, ValueError):
        return "starting"
    if int(last["update"]) == updates:
        return f"all {updates} updates done, playing test episodes"
    return (
        f"update {last['update']} of {updates}, {last['episodes']} episodes, reward {float(last['reward']):.2f} a step"
    )


def _last_line(log):
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
