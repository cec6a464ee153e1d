"""Trained agents as plain data: curves and scores of every seed, from the zoo or from run directories."""

import csv
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmn_keras import envs, zoo
from nmn_keras.analysis.statistics import running_mean

Floats = NDArray[np.float64]

WINDOW = 1000
"""Episodes of the running mean, as in the paper."""
MODES = ("deterministic", "sampled")


@dataclass
class Seed:
    """One training run."""

    seed: int
    curve: list[float]
    """Mean discounted return of the episodes of each update."""
    validated: list[tuple[int, float]]
    """Episodes so far, and discounted return of full episodes with the deterministic action."""
    scores: dict[str, dict[str, float]]
    """By kind of action: "discounted_return", "share" and "episodes" on test episodes."""
    command: str
    """What to type to have it again."""
    commit: str


@dataclass
class Group:
    """The seeds of one agent that were trained in the same way, and as long."""

    agent: str
    """Its name, "b1-nmn"."""
    recipe: str
    episodes: int
    """Episodes trained."""
    episodes_per_update: int
    steps: int
    """Steps of a training episode."""
    parameters: int | None
    """Of the actor; None where it was not recorded."""
    operations: int | None
    """Multiplications of a step in matrix products; None where there is no ONNX file of this recipe."""
    seeds: list[Seed] = field(default_factory=list)

    @property
    def bench(self) -> str:
        """Short name of the benchmark."""
        return self.agent.partition("-")[0]

    @property
    def benchmark(self) -> envs.Benchmark:
        """The benchmark."""
        return envs.BENCHMARKS[self.bench]

    @property
    def whole(self) -> bool:
        """Whether training plays whole episodes."""
        return self.steps == self.benchmark.episode_steps

    @property
    def optimum(self) -> float:
        """Best discounted return of an episode as long as those of training."""
        best = self.benchmark.optimal_return(self.steps, self.benchmark.discount)
        return math.nan if best is None else best

    @property
    def window(self) -> int:
        """Updates of the running mean."""
        return max(1, round(WINDOW / self.episodes_per_update))

    def curves(self) -> Floats:
        """Give the running mean of each seed's curve `(seeds, updates)`."""
        return running_mean([seed.curve for seed in self.seeds], self.window)

    def played(self) -> Floats:
        """Give the episodes played after each update `(updates,)`."""
        return self.episodes_per_update * np.arange(1.0, len(self.seeds[0].curve) + 1)

    def validated(self) -> tuple[Floats, Floats]:
        """Give episodes `(V,)` and discounted returns `(seeds, V)` where all seeds were validated."""
        found = [dict(seed.validated) for seed in self.seeds]
        common = sorted(set.intersection(*map(set, found)))
        return np.asarray(common, float), np.array([[one[episodes] for episodes in common] for one in found])

    @property
    def final(self) -> str:
        """The measure nearest to the paper's: whole episodes, actions sampled, while training where that plays them."""
        return "training" if self.whole else "sampled"

    def measured(self, measure: str) -> Floats:
        """Give a number per seed.

        Args:
            measure: "deterministic" or "sampled" for discounted returns on test episodes, "training" for the mean of
                the last 1000 episodes of training, "area" for the mean over all of training, which is the higher the
                sooner something is learnt.
        """
        if measure in MODES:
            return np.array([seed.scores[measure]["discounted_return"] for seed in self.seeds])
        return self.curves()[:, -1] if measure == "training" else np.mean([seed.curve for seed in self.seeds], axis=1)

    def best(self, measure: str) -> float:
        """Give the optimum that a measure is a share of."""
        if measure in MODES:
            best = self.benchmark.optimal_return(self.benchmark.episode_steps, self.benchmark.discount)
            return math.nan if best is None else best
        return self.optimum


def matched(groups: Sequence[Group], names: Sequence[str]) -> list[list[Group]]:
    """Give the groups of several agents that were trained in the same way and as long, a list for each way.

    Args:
        groups: of any agents.
        names: of agents of one benchmark; ways in which one of them was not trained are left out.
    """
    ways: dict[tuple, dict[str, Group]] = {}
    for group in groups:
        ways.setdefault((group.recipe, group.episodes, group.steps), {})[group.agent] = group
    return [[found[name] for name in names] for found in ways.values() if {*names} <= {*found}]


def trained_alike(groups: Sequence[Group], studied: Callable[[Group], bool]) -> list[Group]:
    """Give the groups of the recipes under which what is studied was trained; all of them where it was not.

    Args:
        groups: of any agents.
        studied: whether a group is of what is studied.
    """
    recipes = {group.recipe for group in groups if studied(group)}
    return [group for group in groups if group.recipe in recipes] or [*groups]


def to_plain(groups: Iterable[Group]) -> list[dict[str, Any]]:
    """Give groups as JSON holds them."""
    return [asdict(group) for group in groups]


def from_plain(groups: Iterable[dict[str, Any]]) -> list[Group]:
    """Do the inverse of `to_plain`."""
    return [Group(**{**group, "seeds": [_seed(seed) for seed in group["seeds"]]}) for group in groups]


def _seed(plain):
    return Seed(**{**plain, "validated": [tuple(pair) for pair in plain["validated"]]})


def from_zoo(names: Sequence[str], directory: Path | None = None) -> tuple[list[Group], list[str]]:
    """Read agents of a zoo.

    Args:
        names: of agents.
        directory: of the zoo, see `zoo.directory`.

    Returns:
        Their groups, in the order of the names, and the names that are not published.

    Raises:
        FileNotFoundError: if there is no zoo.
        ValueError: if a file is not the published one.
    """
    published = zoo.list_agents(directory)
    groups = [group for name in names if name in published for group in _read_entry(name, directory)]
    return groups, [name for name in names if name not in published]


def _read_entry(name, directory):
    scores = json.loads(zoo.path(name, "scores.json", directory).read_text())
    rows = _read_rows(zoo.path(name, "curves.csv", directory))
    # One name stands for other networks under another recipe: the file tells of the published one's alone.
    operations = {scores["published"]["recipe"]: step_operations(zoo.path(name, "policy.onnx", directory))}
    sizes = {r["recipe"]: (r.get("parameters"), operations.get(r["recipe"])) for r in scores["seeds"]}
    runs = []
    for record in scores["seeds"]:
        key = (record["recipe"], str(record["seed"]))
        mine = [row for row in rows if (row["recipe"], row["seed"]) == key]
        runs.append((record["recipe"], record["seed"], mine, {mode: record[mode] for mode in MODES}, record))
    return _grouped(name, runs, sizes)


def from_runs(name: str, recipe: str, directories: dict[int, Path]) -> list[Group]:
    """Read finished run directories of `nmn train`.

    Args:
        name: of the agent.
        recipe: its name.
        directories: by seed.
    """
    runs = []
    for seed, directory in directories.items():
        scores = json.loads((directory / "scores.json").read_text())
        origin = json.loads((directory / "origin.json").read_text())
        runs.append((recipe, seed, _read_rows(directory / "curves.csv"), scores, origin))
    parameters = actor_parameters(next(iter(directories.values())) / "best.weights.h5")
    return _grouped(name, runs, {recipe: (parameters, None)})


def _grouped(name, runs, sizes):
    """Groups of runs `(recipe, seed, rows of the curve, scores, origin)`.

    Sizes are `(parameters, operations)` by recipe.
    """
    groups: dict[tuple, Group] = {}
    for recipe, seed, rows, scores, origin in runs:
        episodes, per_update = int(rows[-1]["episodes"]), int(rows[0]["episodes"]) // int(rows[0]["update"])
        key = (recipe, episodes, per_update, _steps(rows))
        group = groups.setdefault(key, Group(name, *key, *sizes[recipe]))
        kept = ("discounted_return", "share", "episodes")
        group.seeds.append(
            Seed(
                seed,
                [float(row["discounted_return"]) for row in rows],
                [(int(r["episodes"]), float(r[_VALIDATED])) for r in rows if r.get(_VALIDATED)],
                {mode: {key: scores[mode][key] for key in kept if key in scores[mode]} for mode in MODES},
                origin["command"],
                origin["commit"],
            )
        )
    return list(groups.values())


_VALIDATED = "val_discounted_return"


def _steps(rows):
    """Steps of a training episode: its return over its reward per step."""
    return round(float(np.median([float(r["return"]) / float(r["reward"]) for r in rows if float(r["reward"])])))


def _read_rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def actor_parameters(path: Path) -> int:
    """Count the actor's numbers in a Keras weights file."""
    import h5py

    sizes = []
    with h5py.File(path) as file:
        file["actor"].visititems(lambda _, part: sizes.append(part.size) if isinstance(part, h5py.Dataset) else None)
    return int(sum(sizes))


def step_operations(path: Path) -> int:
    """Count the multiplications in matrix products of one step of an ONNX policy at batch 1."""
    import onnx

    model = onnx.load(path)
    for value in model.graph.input:
        value.type.tensor_type.shape.dim[0].dim_value = 1
    graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    shapes = {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        shapes[value.name] = [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
    return sum(
        math.prod(shapes[node.output[0]]) * shapes[node.input[0]][-1]
        for node in graph.node
        if node.op_type in ("MatMul", "Gemm")
    )
