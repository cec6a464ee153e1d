"""Publishing: from the run directories of all seeds to a zoo entry. The zoo is written here and never by hand.

The published weights are those of the best-validated seed and update; all seeds are then scored on test episodes, which
chose nothing.
"""

import csv
import json
import shutil
import tempfile
from pathlib import Path

import keras

from nmn_keras import checkpoint, zoo
from nmn_keras.actor_critic import ActorCritic
from nmn_keras.card import model_card
from nmn_keras.evaluation import TEST_SEED, VALIDATION_SEED, evaluate
from nmn_keras.export import export_agent

PAPER_RETURNS = {"b1-nmn": 4534.0}
"""Discounted returns that the paper states in its text."""


def publish(name: str, run_dirs, directory, episodes: int = 1000) -> dict:
    """Write the zoo entry of an agent and give its scores.

    Args:
        name: the agent's name, "b1-nmn".
        run_dirs: run directories of `nmn train`, one per seed and recipe, with validated weights.
        directory: the zoo directory.
        episodes: test episodes per seed and kind of action.

    Raises:
        FileNotFoundError: if there is no zoo.
        ValueError: if a run is unfinished, was not validated, or is of another environment or kind of network than the
            others, or has the recipe and seed of another. Nothing is written before all is checked.
    """
    if not zoo.PLAIN_NAME.fullmatch(name):
        raise ValueError(f"`name` must consist of letters, digits, '.', '_' and '-'. Received: {name!r}")
    zoo.list_agents(directory)  # a missing or damaged index is found before the work, not after
    runs = [_read_run(run_dir) for run_dir in run_dirs]
    _check_alike(runs)
    for run in runs:
        run["scores"] = _score(run["agent"], episodes)
    best = max(runs, key=lambda run: run["validation"])
    scores = _scores(name, runs, best, episodes)
    target = Path(directory) / name
    with tempfile.TemporaryDirectory(dir=directory) as temporary:
        written = Path(temporary) / name
        _write_entry(written, name, runs, best, scores)
        if target.exists():
            shutil.rmtree(target)
        written.rename(target)
    _update_index(Path(directory), name, best, scores)
    return scores


def _read_run(run_dir):
    """A finished run with its best-validated weights and where it came from."""
    run_dir = Path(run_dir)
    agent = ActorCritic.load(run_dir)
    best, origin = run_dir / "best.json", run_dir / "origin.json"
    missing = [str(path) for path in (best, origin) if not path.exists()]
    if missing or agent.run.update < agent.run.updates:
        raise ValueError(
            "Only finished and validated runs of `nmn train` can be published. Received: "
            f"{run_dir}, update {agent.run.update} of {agent.run.updates}, missing {missing}"
        )
    record = json.loads(best.read_text())
    agent.load_weights(run_dir / "best.weights.h5")
    with (run_dir / "curves.csv").open(newline="") as file:
        curve = list(csv.DictReader(file))
    return {
        "agent": agent,
        "curve": curve,
        "update": record["update"],
        "validation": record["val_discounted_return"],
        **json.loads(origin.read_text()),
    }


def _check_alike(runs):
    found = {(run["agent"].run.env_id, run["agent"].architecture.kind) for run in runs}
    if len(found) != 1:
        raise ValueError(
            f"The runs of one zoo entry need one environment and one kind of network. Received: {sorted(found)}"
        )
    keys = [(run["agent"].recipe.name, run["agent"].run.seed) for run in runs]
    if len({*keys}) != len(keys):
        raise ValueError(
            f"Each run of a zoo entry needs its own recipe and seed, which tell runs apart there. Received: {keys}"
        )


def _score(agent, episodes):
    return {
        mode: evaluate(
            agent,
            agent.run.env_id,
            episodes,
            deterministic=mode == "deterministic",
            env_kwargs=agent.run.env_kwargs,
        )
        for mode in ("deterministic", "sampled")
    }


def _scores(name, runs, best, episodes):
    agent = best["agent"]
    return {
        "protocol": {
            "env_id": agent.run.env_id,
            "env_kwargs": agent.run.env_kwargs,
            "episodes": episodes,
            "test_seed": TEST_SEED,
            "validation_seed": VALIDATION_SEED,
            "discount": best["scores"]["deterministic"]["discount"],
            "selection": "best validated discounted return, deterministic action, over seeds and updates",
        },
        "references": _references(name, best),
        "published": {"recipe": agent.recipe.name, "seed": agent.run.seed, "update": best["update"]} | best["scores"],
        "seeds": [
            {
                "recipe": run["agent"].recipe.name,
                "seed": run["agent"].run.seed,
                "episodes_trained": run["agent"].run.updates * run["agent"].recipe.episodes_per_update,
                "best_update": run["update"],
                "validation_discounted_return": run["validation"],
                "training_discounted_return": _while_training(run),
                "command": run["command"],
                "commit": run["commit"],
                **run["scores"],
            }
            for run in runs
        ],
    }


def _while_training(run, episodes=1000):
    """Mean discounted return of the last episodes of training, sampled actions, which is what the paper plots.

    None where an update does not play whole episodes.
    """
    recipe = run["agent"].recipe
    if recipe.rollout_steps is not None:
        return None
    rows = run["curve"][-max(1, episodes // recipe.episodes_per_update) :]
    return sum(float(row["discounted_return"]) for row in rows) / len(rows)


def _references(name, best):
    """What the scores are given against."""
    scores = best["scores"]["deterministic"]
    known = {"optimal_discounted_return": scores.get("optimal_discounted_return")}
    known["paper_discounted_return"] = PAPER_RETURNS.get(name)
    return {key: value for key, value in known.items() if value is not None}


def _write_entry(directory, name, runs, best, scores):
    directory.mkdir()
    agent = _without_optimizers(best["agent"])
    config = {**agent.get_config(), "env_id": agent.run.env_id, "env_kwargs": agent.run.env_kwargs}
    (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    agent.save_weights(directory / "agent.weights.h5")
    published = {mode: scores["published"][mode]["discounted_return"] for mode in ("deterministic", "sampled")}
    extra = {"training_commit": best["commit"], "scores": published}
    export_agent(agent, directory, name, extra)
    (directory / "scores.json").write_text(json.dumps(scores, indent=1) + "\n")
    _write_curves(directory / "curves.csv", runs)
    (directory / "README.md").write_text(model_card(name, config, scores))


def _without_optimizers(agent):
    """The same agent with weights alone, so that its file holds nothing else."""
    fresh = ActorCritic.from_config({**agent.get_config(), "optimizers": None})
    fresh.set_weights(agent.get_weights())
    fresh.run = agent.run
    return fresh


def _write_curves(path, runs):
    names = list(dict.fromkeys(name for run in runs for row in run["curve"] for name in row))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["recipe", "seed", *names], lineterminator="\n")
        writer.writeheader()
        for run in runs:
            key = {"recipe": run["agent"].recipe.name, "seed": run["agent"].run.seed}
            writer.writerows({**key, **{k: _short(v) for k, v in row.items()}} for row in run["curve"])


def _short(text):
    """Five significant digits: a curve is looked at, not computed with. Counts stay whole."""
    try:
        return text if text.isdigit() else f"{float(text):.5g}" if text else ""
    except ValueError:
        return text


def _update_index(directory, name, best, scores):
    index = json.loads((directory / "index.json").read_text())
    agent, files = best["agent"], sorted(path for path in (directory / name).iterdir())
    index["agents"][name] = {
        "env_id": agent.run.env_id,
        "env_kwargs": agent.run.env_kwargs,
        "kind": agent.architecture.kind,
        "served_action": "deterministic",
        "scores": {
            mode: {key: scores["published"][mode].get(key) for key in _INDEXED} for mode in ("deterministic", "sampled")
        },
        "command": best["command"],
        "commit": best["commit"],
        "keras_version": keras.__version__,
        "files": {path.name: {"sha256": checkpoint.sha256(path), "bytes": path.stat().st_size} for path in files},
    }
    index["agents"] = dict(sorted(index["agents"].items()))
    index["version"] = zoo.INDEX_VERSION
    temporary = directory / "index.json.tmp"
    temporary.write_text(json.dumps(index, indent=1) + "\n")
    temporary.replace(directory / "index.json")


_INDEXED = (
    "return",
    "return_interval",
    "discounted_return",
    "discounted_return_interval",
    "share",
    "episodes",
)
