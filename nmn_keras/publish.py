"""Publishing: from the run directories of all seeds to a zoo entry. The zoo is written here and never by hand.

The published weights are those of the best-validated seed and update; all seeds are then scored on test episodes, which
chose nothing.
"""

import csv
import dataclasses
import json
import shutil
import tempfile
from pathlib import Path

import keras

from nmn_keras import checkpoint, zoo
from nmn_keras.actor_critic import ActorCritic
from nmn_keras.card import model_card
from nmn_keras.evaluation import TEST_SEED, VALIDATION_SEED, benchmark_of, evaluate
from nmn_keras.export import FILES as EXPORTED_FILES
from nmn_keras.export import export_agent

PAPER_RETURNS = {"b1-nmn": 4534.0}
"""Discounted returns that the paper states in its text."""


@dataclasses.dataclass
class _Seed:
    """What an entry holds of one run: its curve and its record in `scores.json`."""

    curve: list[dict]
    """Rows by column."""
    record: dict
    """Where it comes from, and its scores."""
    agent: ActorCritic | None
    """With the best-validated weights; None for one of an earlier publication that was not the published one."""

    @property
    def key(self):
        return self.record["recipe"], self.record["seed"]


def publish(name: str, run_dirs, directory, episodes: int = 1000, add: bool = False) -> dict:
    """Write the zoo entry of an agent and give its scores.

    Args:
        name: the agent's name, "b1-nmn".
        run_dirs: run directories of `nmn train` or `ActorCritic.fit`, one per seed and recipe. Of one that was
            validated the best weights are published, else the last; several must all be validated.
        directory: the zoo directory; one that is missing or empty becomes a zoo.
        episodes: test episodes per seed and kind of action.
        add: keep the seeds of the entry that is there, which must have been scored in the same way; the best of old
            and new ones is published. If that is the one published already, its files stay. Else the entry is replaced.

    Raises:
        FileNotFoundError: if the directory holds something else than a zoo.
        ValueError: if a run is unfinished, one of several was not validated, its environment cannot be made again, it
            is of another environment or kind of network than the others, or has the recipe and seed of another, or
            `episodes` is below 2. Nothing is written before all is checked.
    """
    if not zoo.PLAIN_NAME.fullmatch(name):
        raise ValueError(f"`name` must consist of letters, digits, '.', '_' and '-'. Received: {name!r}")
    if episodes < 2:
        raise ValueError(f"`episodes` must be from 2: published scores have intervals. Received: episodes={episodes}")
    directory = Path(directory)
    begun = directory.is_dir() and any(directory.iterdir())
    if begun:
        zoo.list_agents(directory)  # a missing or damaged index is found before the work, not after
    runs = [_read_run(run_dir) for run_dir in run_dirs]
    earlier = _published_seeds(name, directory, episodes) if add else []
    _check_alike([*earlier, *runs])
    for run in runs:
        run.record |= _score(run.agent, episodes)
    seeds = sorted([*earlier, *runs], key=lambda seed: seed.key)
    best = max(seeds, key=lambda seed: seed.record["validation_discounted_return"]) if len(seeds) > 1 else seeds[0]
    if not begun:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "index.json").write_text(json.dumps({"version": zoo.INDEX_VERSION, "agents": {}}) + "\n")
    kept = directory / name if any(best is seed for seed in earlier) else None
    return _replace_entry(name, directory, seeds, best, episodes, kept)


def withdraw(name: str, recipe: str, directory) -> dict:
    """Take all runs of one recipe out of a zoo entry and give the scores that are left; the agent's files stay.

    Args:
        name: the agent's name.
        recipe: "fast" or "paper".
        directory: the zoo directory.

    Raises:
        ValueError: if there is no such run, or the published weights are of one. Nothing is written.
    """
    entry = zoo.path(name, "scores.json", directory)
    episodes = json.loads(entry.read_text())["protocol"]["episodes"]
    seeds = _published_seeds(name, Path(directory), episodes)
    left = [seed for seed in seeds if seed.record["recipe"] != recipe]
    best = next((seed for seed in left if seed.agent is not None), None)
    if len(left) == len(seeds) or best is None:
        raise ValueError(
            f"Only runs that are there and whose weights are not published can be withdrawn from {name!r}. Its runs as "
            f"(recipe, seed): {[seed.key for seed in seeds]}, published: "
            f"{[seed.key for seed in seeds if seed.agent is not None]}. Received: recipe={recipe!r}"
        )
    return _replace_entry(name, Path(directory), left, best, episodes, entry.parent)


def _replace_entry(name, directory, seeds, best, episodes, kept):
    """Write an entry whole in place of the one that is there, and the index; its scores."""
    scores, target = _scores(name, seeds, best, episodes), directory / name
    with tempfile.TemporaryDirectory(dir=directory) as temporary:
        written = Path(temporary) / name
        _write_entry(written, name, seeds, best, scores, kept)
        if target.exists():
            shutil.rmtree(target)
        written.rename(target)
    _update_index(directory, name, best, scores)
    return scores


def _read_run(run_dir) -> _Seed:
    """A finished run with its best-validated weights, or its last, and where it came from."""
    run_dir = Path(run_dir)
    agent = ActorCritic.load(run_dir)
    missing = [str(path) for path in (run_dir / "origin.json", run_dir / "curves.csv") if not path.exists()]
    if missing or agent.run.update < agent.run.updates:
        raise ValueError(
            "Only finished runs of `nmn train` or `ActorCritic.fit(run_dir=...)` can be published. Received: "
            f"{run_dir}, update {agent.run.update} of {agent.run.updates}, missing {missing}"
        )
    if agent.run.env_id is None:
        raise ValueError(
            "What is published is scored, so its environment must be one that can be made again. Accepted are runs of "
            f"an environment registered with Gymnasium, trained by its id. Received: {run_dir}, trained by a factory"
        )
    validated = {"update": agent.run.update, "val_discounted_return": None}
    if (run_dir / "best.json").exists():
        validated = json.loads((run_dir / "best.json").read_text())
        agent.load_weights(run_dir / "best.weights.h5")
    curve = _read_curve(run_dir / "curves.csv")
    record = {
        "recipe": agent.recipe.name,
        "seed": agent.run.seed,
        "episodes_trained": agent.run.updates * agent.recipe.episodes_per_update,
        "best_update": validated["update"],
        "validation_discounted_return": validated["val_discounted_return"],
        "training_discounted_return": _while_training(agent.recipe, curve),
        "parameters": agent.actor.count_params(),
        **json.loads((run_dir / "origin.json").read_text()),
    }
    return _Seed(curve, record, agent)


def _published_seeds(name, directory, episodes) -> list[_Seed]:
    """The seeds of the entry that is there; the published one has its agent."""
    entry = zoo.path(name, "scores.json", directory).parent
    scores = json.loads((entry / "scores.json").read_text())
    expected = {"episodes": episodes, "test_seed": TEST_SEED, "validation_seed": VALIDATION_SEED}
    found = {key: scores["protocol"][key] for key in expected}
    if found != expected:
        raise ValueError(
            f"The seeds of {name!r} were scored in another way, so others cannot be added. "
            f"Accepted is {expected}. Received: {found}"
        )
    agent = ActorCritic.load_published(entry)
    curves = _read_curve(entry / "curves.csv")
    seeds = []
    for record in scores["seeds"]:
        key = {"recipe": record["recipe"], "seed": str(record["seed"])}
        rows = [row for row in curves if key.items() <= row.items()]
        own = [name for name in (rows[0] if rows else ()) if name not in key and any(row[name] for row in rows)]
        curve = [{name: row[name] for name in own} for row in rows]  # other recipes have columns of their own
        is_published = all(record[k] == scores["published"][k] for k in key)
        seeds.append(_Seed(curve, record, agent if is_published else None))
    return seeds


def _read_curve(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _check_alike(seeds):
    agents = [seed.agent for seed in seeds if seed.agent is not None]
    found = {
        (agent.run.env_id, json.dumps(agent.run.env_kwargs, sort_keys=True), agent.architecture.kind)
        for agent in agents
    }
    if len(found) != 1:
        raise ValueError(
            f"The runs of one zoo entry need one environment and one kind of network. Received: {sorted(found)}"
        )
    unvalidated = [seed.key for seed in seeds if seed.record["validation_discounted_return"] is None]
    if unvalidated and len(seeds) > 1:
        raise ValueError(
            "Of several runs the best-validated one is published, so each needs `validation_episodes` while it trains; "
            f"a single run does not. Received runs without: {unvalidated}"
        )
    keys = [seed.key for seed in seeds]
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


def _scores(name, seeds, best, episodes):
    run = best.agent.run
    modes = {mode: best.record[mode] for mode in ("deterministic", "sampled")}
    return {
        "protocol": {
            "env_id": run.env_id,
            "env_kwargs": run.env_kwargs,
            "episodes": episodes,
            "test_seed": TEST_SEED,
            "validation_seed": VALIDATION_SEED,
            "discount": best.record["deterministic"]["discount"],
            "selection": _selection(best),
        },
        "references": _references(name, best),
        "published": {**dict(zip(("recipe", "seed"), best.key, strict=True)), "update": best.record["best_update"]}
        | modes,
        "seeds": [seed.record for seed in seeds],
    }


def _selection(best):
    """By what the published weights were chosen."""
    if best.record["validation_discounted_return"] is None:
        return "last update"
    return "best validated discounted return, deterministic action, over seeds and updates"


def _while_training(recipe, curve, episodes=1000):
    """Mean discounted return of the last episodes of training, sampled actions, which is what the paper plots.

    None where an update does not play whole episodes.
    """
    if recipe.rollout_steps is not None:
        return None
    rows = curve[-max(1, episodes // recipe.episodes_per_update) :]
    return sum(float(row["discounted_return"]) for row in rows) / len(rows)


def _references(name, best):
    """What the scores are given against."""
    scores, run = best.record["deterministic"], best.agent.run
    benchmark = benchmark_of(run.env_id, run.env_kwargs)
    optimum = "known_task" if benchmark and benchmark.known_task else "optimal"
    known = {f"{optimum}_discounted_return": scores.get("optimal_discounted_return")}
    known["paper_discounted_return"] = PAPER_RETURNS.get(name)
    return {key: value for key, value in known.items() if value is not None}


def _write_entry(directory, name, seeds, best, scores, kept):
    """The files of an entry; those of the agent itself are copied from `kept`, where it is published already."""
    directory.mkdir()
    if kept is None:
        _write_agent(directory, name, best, scores)
    else:
        for file in ("config.json", "agent.weights.h5", *EXPORTED_FILES):
            shutil.copy(kept / file, directory)
    config = json.loads((directory / "config.json").read_text())
    (directory / "scores.json").write_text(json.dumps(scores, indent=1) + "\n")
    _write_curves(directory / "curves.csv", seeds)
    (directory / "README.md").write_text(model_card(name, config, scores))


def _write_agent(directory, name, best, scores):
    agent = _without_optimizers(best.agent)
    config = {**agent.get_config(), "env_id": agent.run.env_id, "env_kwargs": agent.run.env_kwargs}
    (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    agent.save_weights(directory / "agent.weights.h5")
    published = {mode: scores["published"][mode]["discounted_return"] for mode in ("deterministic", "sampled")}
    extra = {"training_commit": best.record["commit"], "scores": published}
    export_agent(agent, directory, name, extra)


def _without_optimizers(agent):
    """The same agent with weights alone, so that its file holds nothing else."""
    fresh = ActorCritic.from_config({**agent.get_config(), "optimizers": None})
    fresh.set_weights(agent.get_weights())
    fresh.run = agent.run
    return fresh


def _write_curves(path, seeds):
    names = list(dict.fromkeys(name for seed in seeds for row in seed.curve for name in row))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["recipe", "seed", *names], lineterminator="\n")
        writer.writeheader()
        for seed in seeds:
            key = dict(zip(("recipe", "seed"), seed.key, strict=True))
            writer.writerows({**key, **{k: _short(v) for k, v in row.items()}} for row in seed.curve)


def _short(text):
    """Five significant digits: a curve is looked at, not computed with. Counts stay whole."""
    try:
        return text if text.isdigit() else f"{float(text):.5g}" if text else ""
    except ValueError:
        return text


def _update_index(directory, name, best, scores):
    index = json.loads((directory / "index.json").read_text())
    agent, files = best.agent, sorted(path for path in (directory / name).iterdir())
    index["agents"][name] = {
        "env_id": agent.run.env_id,
        "env_kwargs": agent.run.env_kwargs,
        "kind": agent.architecture.kind,
        "served_action": "deterministic",
        "scores": {
            mode: {key: value for key, value in scores["published"][mode].items() if key in _INDEXED}
            for mode in ("deterministic", "sampled")
        },
        "command": best.record["command"],
        "commit": best.record["commit"],
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
    "worst_tenth_share",
    "episodes",
)
