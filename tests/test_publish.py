import csv
import hashlib
import json
import shutil

import h5py
import numpy as np
import pytest
import yaml
from tiny_runs import UPDATES, copy, tree

from nmn_keras import ActorCritic, cli, zoo
from nmn_keras.evaluation import TEST_SEED, VALIDATION_SEED, evaluate
from nmn_keras.publish import publish, withdraw
from nmn_keras.run import Run

EPISODES = 3
FILES = {"README.md", "agent.weights.h5", "config.json", "curves.csv", "golden.npz", "policy.onnx", "scores.json"}


def empty_zoo(directory):
    directory.mkdir()
    (directory / "index.json").write_text('{"version": 1, "agents": {}}\n')
    return directory


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


OTHER = {"env_id": "other", "files": {}}


@pytest.fixture(scope="module")
def published(runs, tmp_path_factory):
    """A zoo in which something was published before under the same name, and another agent."""
    directory = empty_zoo(tmp_path_factory.mktemp("publish") / "zoo")
    (directory / "b1-nmn").mkdir()
    (directory / "b1-nmn" / "stale.txt").write_text("of the entry before")
    agents = {"b1-nmn": {"env_id": "stale", "files": {"stale.txt": {}}}, "zz-other": OTHER}
    (directory / "index.json").write_text(json.dumps({"version": 1, "agents": agents}))
    command = ["publish", "b1-nmn", *map(str, runs.values()), "--zoo", str(directory), "--episodes", str(EPISODES)]
    assert cli.main(command) == 0
    return directory


@pytest.fixture(scope="module")
def scores(published):
    return json.loads((published / "b1-nmn" / "scores.json").read_text())


@pytest.fixture(scope="module")
def best(runs):
    """The run with the best validation."""

    def validation(run):
        return json.loads((run / "best.json").read_text())["val_discounted_return"]

    return max(runs.values(), key=validation)


def test_the_index_holds_every_file_with_its_hash(published):
    assert {path.name for path in published.iterdir()} == {"index.json", "b1-nmn"}
    index = json.loads((published / "index.json").read_text())
    assert index["version"] == 1 and [*index["agents"]] == ["b1-nmn", "zz-other"]
    assert index["agents"]["zz-other"] == OTHER
    entry = index["agents"]["b1-nmn"]
    assert set(entry["files"]) == FILES == {path.name for path in (published / "b1-nmn").iterdir()}
    for name, told in entry["files"].items():
        content = (published / "b1-nmn" / name).read_bytes()
        assert told == {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    assert (entry["env_id"], entry["kind"], entry["served_action"]) == (
        "nmn_keras/MovingTarget-v0",
        "nmn",
        "deterministic",
    )


def test_both_runtimes_load_the_best_validated_weights(published, best):
    keras_agent = zoo.load("b1-nmn", zoo=published)
    onnx_agent = zoo.load("b1-nmn", runtime="onnx", zoo=published)
    expected = ActorCritic.load(best)
    expected.load_weights(best / "best.weights.h5")
    for ours, theirs in zip(keras_agent.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    inputs = [np.float32([[2.0], [-3.0]]), np.float32([[1.0], [0.5]]), np.float32([[-1.0], [10.0]])]
    action, state = expected.act(*inputs, expected.initial_state(2))
    for agent in (keras_agent, onnx_agent):
        found, state_out = agent.act(*inputs, agent.initial_state(2))
        np.testing.assert_allclose(found, action, rtol=1e-5)
        np.testing.assert_allclose(state_out, state, rtol=1e-4, atol=1e-6)
    with h5py.File(published / "b1-nmn" / "agent.weights.h5") as file:
        stored = []
        file.visititems(lambda _, item: stored.append(item.size) if isinstance(item, h5py.Dataset) else None)
    assert sum(stored) == keras_agent.count_params()  # weights and nothing else


def test_scores_are_of_all_seeds_on_test_episodes(published, scores, runs, best):
    assert TEST_SEED != VALIDATION_SEED
    assert [(run["recipe"], run["seed"]) for run in scores["seeds"]] == [("fast", 0), ("paper", 1)]
    for run, (kind, directory) in zip(scores["seeds"], runs.items(), strict=True):
        origin = json.loads((directory / "origin.json").read_text())
        assert (run["command"], run["commit"]) == (origin["command"], origin["commit"])
        assert run["episodes_trained"] == 4 * UPDATES[kind]
        assert run["best_update"] == json.loads((directory / "best.json").read_text())["update"]
        assert run["parameters"] == ActorCritic.load(directory).actor.count_params()
    agent = zoo.load("b1-nmn", zoo=published)
    again = evaluate(agent, "b1", EPISODES, seed=TEST_SEED)
    assert scores["published"]["deterministic"] == again != scores["published"]["sampled"]
    card = zoo.card("b1-nmn", published)["scores"]
    for mode, told in card.items():
        assert told.items() <= scores["published"][mode].items() and {"share", "return_interval"} <= told.keys()
    assert scores["published"]["recipe"] == best.name
    assert scores["references"]["paper_discounted_return"] == 4534.0
    assert scores["references"]["optimal_discounted_return"] == pytest.approx(4679.11, abs=0.01)


def test_the_card_shows_every_seed(published, scores, runs, best):
    card = (published / "b1-nmn" / "README.md").read_text()
    _, header, body = card.split("---\n", 2)
    (model,) = yaml.safe_load(header)["model-index"]
    metric = model["results"][0]["metrics"][0]["value"]
    assert metric == pytest.approx(scores["published"]["deterministic"]["discounted_return"], abs=0.06)
    header, *rows = [line.strip("| ").split(" | ") for line in body.splitlines() if line.startswith("| ")]
    for run, cells in zip(scores["seeds"], rows, strict=True):
        row, chosen = dict(zip(header, cells, strict=True)), run["recipe"] == best.name
        assert row["recipe"] == run["recipe"]
        assert row["seed"] == (f"**{run['seed']}** (published)" if chosen else str(run["seed"]))
        assert row["deterministic, discounted"].startswith(f"{run['deterministic']['discounted_return']:.1f} [")
        assert row["sampled, undiscounted"].startswith(f"{run['sampled']['return']:.1f} [")
        # Only the paper recipe plays whole episodes while it trains.
        played = [float(line["discounted_return"]) for line in read(runs[run["recipe"]] / "curves.csv")]
        told = f"{sum(played) / len(played):.1f}" if run["recipe"] == "paper" else "–"
        assert row["last 1,000 training episodes, discounted"] == told
        if chosen:
            assert f"```\n{run['command']}\n```" in body and run["commit"] in body
    assert "Bayes optimal: 4679.1 discounted." in body and "The paper reports 4534" in body


def test_curves_have_every_update_of_every_seed(published, runs):
    rows = read(published / "b1-nmn" / "curves.csv")
    updates = [(row["recipe"], row["seed"], int(row["update"])) for row in rows]
    assert updates == [(k, s, u + 1) for k, s in (("fast", "0"), ("paper", "1")) for u in range(UPDATES[k])]
    originals = [row for run in runs.values() for row in read(run / "curves.csv")]
    for row, original in zip(rows, originals, strict=True):
        for name, value in original.items():
            assert float(row[name] or "nan") == pytest.approx(float(value or "nan"), rel=1e-4, nan_ok=True)


def test_the_model_tells_where_it_comes_from(published, scores, best):
    metadata = zoo.load("b1-nmn", runtime="onnx", zoo=published).metadata
    told = {mode: scores["published"][mode]["discounted_return"] for mode in ("deterministic", "sampled")}
    commit = json.loads((best / "origin.json").read_text())["commit"]
    assert (metadata["agent"], metadata["scores"], metadata["training_commit"]) == ("b1-nmn", told, commit)
    assert (metadata["observation_low"], metadata["action_high"]) == ([-5.0], [20.0])


def test_zoo_lists_and_shows(published, capsys, tmp_path):
    alone = empty_zoo(tmp_path / "zoo")
    index = {"version": 1, "agents": {"b1-nmn": zoo.card("b1-nmn", published)}}
    (alone / "index.json").write_text(json.dumps(index))
    assert cli.main(["zoo", "--zoo", str(alone)]) == 0
    share = zoo.card("b1-nmn", published)["scores"]["deterministic"]["share"]
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("b1-nmn ") and line.endswith(f"{share:.1%} of the optimum")
    assert cli.main(["zoo", "b1-nmn", "--zoo", str(published)]) == 0
    assert capsys.readouterr().out.strip() == (published / "b1-nmn" / "README.md").read_text().strip()


@pytest.mark.parametrize("first", ["fast", "paper"])
def test_seeds_can_be_added_later(published, runs, best, tmp_path, first):
    directory = empty_zoo(tmp_path / "zoo")
    second = {"fast": "paper", "paper": "fast"}[first]
    publish("b1-nmn", [runs[first]], directory, EPISODES)
    weights = directory / "b1-nmn" / "agent.weights.h5"
    first_weights = weights.read_bytes()
    publish("b1-nmn", [runs[second]], directory, EPISODES, add=True)
    assert (weights.read_bytes() == first_weights) == (runs[first] == best)
    assert tree(directory / "b1-nmn").keys() == tree(published / "b1-nmn").keys()
    for name, content in tree(published / "b1-nmn").items():
        if name != "agent.weights.h5":  # HDF5 files hold the time
            assert (directory / "b1-nmn" / name).read_bytes() == content, name
    before = tree(directory)
    with pytest.raises(ValueError, match="own recipe and seed"):
        publish("b1-nmn", [runs[second]], directory, EPISODES, add=True)
    with pytest.raises(ValueError, match=r"scored in another way.*Accepted is {'episodes': 4,"):
        publish("b1-nmn", [runs[second]], directory, EPISODES + 1, add=True)
    assert tree(directory) == before


def test_runs_of_a_recipe_can_be_withdrawn(published, runs, best, tmp_path, capsys):
    directory = tmp_path / "zoo"
    shutil.copytree(published, directory)
    kept = next(recipe for recipe in runs if runs[recipe] == best)
    other = next(recipe for recipe in runs if runs[recipe] != best)
    before = tree(directory)
    assert cli.main(["withdraw", "b1-nmn", "--recipe", kept, "--zoo", str(directory)]) != 0
    assert "published" in capsys.readouterr().err and tree(directory) == before
    assert cli.main(["withdraw", "b1-nmn", "--recipe", other, "--zoo", str(directory)]) == 0
    alone = empty_zoo(tmp_path / "alone")
    publish("b1-nmn", [runs[kept]], alone, EPISODES)
    for name, content in tree(alone / "b1-nmn").items():
        if name not in ("agent.weights.h5", "curves.csv"):  # HDF5 files hold the time; columns are in another order
            assert (directory / "b1-nmn" / name).read_bytes() == content, name
    texts = [(place / "b1-nmn" / "curves.csv").read_text().splitlines() for place in (directory, alone)]
    rows, expected = (list(csv.DictReader(text)) for text in texts)
    assert rows == expected and len(rows) == UPDATES[kept]
    assert zoo.load("b1-nmn", zoo=directory).get_weights()  # hashes of the index are right
    with pytest.raises(ValueError, match="Only runs that are there"):
        withdraw("b1-nmn", other, directory)


def test_a_run_that_was_not_validated_is_published_alone_into_a_new_zoo(runs, tmp_path):
    run, directory = unvalidated(runs["fast"], tmp_path / "run"), tmp_path / "new" / "zoo"
    assert cli.main(["publish", "own", str(run), "--zoo", str(directory), "--episodes", "2"]) == 0
    expected = ActorCritic.load(run)
    for ours, theirs in zip(zoo.load("own", zoo=directory).get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    scores = json.loads((directory / "own" / "scores.json").read_text())
    assert scores["protocol"]["selection"] == "last update"
    assert scores["published"]["update"] == UPDATES["fast"]
    assert "The weights are those of the last update." in (directory / "own" / "README.md").read_text()


# What is refused, with the zoo as it was


def unfinished(run, target):
    agent = ActorCritic.load(copy(run, target))
    agent.run.update -= 1
    agent.save(target)
    return target


def unnoted(run, target):
    (copy(run, target) / "origin.json").unlink()
    return target


def unvalidated(run, target):
    agent = ActorCritic.load(copy(run, target))
    agent.run.seed = 1
    agent.save(target)
    (target / "best.json").unlink()
    return target


def of_a_factory(run, target):
    agent = ActorCritic.load(copy(run, target))
    agent.run.env_id = None
    agent.save(target)
    return target


def another_kind(run, target):
    agent = ActorCritic.from_preset("b1-rnn", seed=5)
    agent.run = Run(env_id="nmn_keras/MovingTarget-v0", seed=5, updates=1, update=1)
    agent.save(copy(run, target))
    agent.save_weights(target / "best.weights.h5")
    return target


def same_seed(run, target):
    return copy(run, target)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (unfinished, r"Only finished runs.*update 7 of 8, missing \[\]"),
        (unnoted, r"Only finished runs.*missing \['.*origin.json'\]"),
        (unvalidated, r"each needs `validation_episodes`.*Received runs without: \[\('fast', 1\)\]"),
        (of_a_factory, r"registered with Gymnasium.*trained by a factory"),
        (another_kind, r"one environment and one kind.*Received: .*'nmn'\).*'rnn'\)"),
        (same_seed, r"its own recipe and seed.*Received: \[\('fast', 0\), \('fast', 0\)\]"),
    ],
)
def test_runs_that_do_not_belong_are_refused(published, runs, tmp_path, spoil, message):
    before = tree(published)
    with pytest.raises(ValueError, match=message):
        publish("b1-nmn", [runs["fast"], spoil(runs["fast"], tmp_path / "run")], published, EPISODES)
    assert tree(published) == before


@pytest.mark.parametrize("name", ["", "../b1-nmn", "b1/nmn", ".b1", "b1 nmn"])
def test_names_that_could_lie_outside_are_refused(published, runs, name):
    before = tree(published)
    with pytest.raises(ValueError, match=r"`name` must consist of letters, digits"):
        publish(name, [runs["fast"]], published, EPISODES)
    assert tree(published) == before


def test_bad_zoos_and_episodes_are_refused_before_the_work(published, runs, tmp_path):
    before = tree(published)
    with pytest.raises(ValueError, match=r"must be from 2: published scores have intervals. Received: episodes=1"):
        publish("b1-nmn", [runs["fast"]], published, 1)
    assert tree(published) == before
    with pytest.raises(FileNotFoundError, match="There is no zoo here"):
        publish("b1-nmn", [runs["fast"]], runs["fast"], EPISODES)
    spoilt = empty_zoo(tmp_path / "zoo")
    (spoilt / "index.json").write_text("{}")
    with pytest.raises(ValueError, match="index is damaged"):
        publish("b1-nmn", [runs["fast"]], spoilt, EPISODES)
    assert [*tree(spoilt)] == ["index.json"]
