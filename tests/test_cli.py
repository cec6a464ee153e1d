import csv
import dataclasses
import importlib.metadata
import json
import os
import shlex
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from tiny_agents import assert_identical, snapshot
from tiny_runs import OPTIONS, TEST_EPISODES, UPDATES, tree

from nmn_keras import ActorCritic, OnnxAgent, checkpoint, cli, field_options, presets, recipes

COMMANDS = ("train", "evaluate", "play", "export", "publish", "push", "reproduce", "zoo")


def run(capsys, *arguments):
    """Exit status, output and errors of a command in this process."""
    try:
        status = cli.main([str(argument) for argument in arguments])
    except SystemExit as error:
        status = error.code
    return status, *capsys.readouterr()


# Help


def test_the_help_names_every_command(capsys):
    status, out, _ = run(capsys, "--help")
    assert status == 0 and all(f"    {command}" in out for command in COMMANDS)
    for command in COMMANDS:
        status, out, _ = run(capsys, command, "--help")
        assert status == 0 and f"usage: nmn {command} " in out


def test_the_help_of_train_has_every_field_of_every_recipe(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    _, out, _ = run(capsys, "train", "--help")
    for name, recipe in recipes.RECIPES.items():
        assert f"with --recipe {name}:" in out
        for field in dataclasses.fields(recipe):
            option = f"--{field.name.replace('_', '-')}"
            assert f"{option} X" in out and f"efault: {field_options.written(field.default)}" in out
    for sentence in (
        "Bound on the probability ratio's distance from 1.",
        "The whole actor update is undone above this divergence (the authors' code: 4 d_targ).",
        "Share of segments played with the mean action: the sampled ones that follow learn",
    ):
        assert sentence in out
    assert f"Presets: {', '.join(sorted(presets.ARCHITECTURES))}." in " ".join(out.split())


def test_the_command_is_installed_and_is_a_module():
    (entry,) = importlib.metadata.entry_points(group="console_scripts", name="nmn")
    assert entry.load() is cli.main
    done = subprocess.run([sys.executable, "-m", "nmn_keras.cli", "zoo"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# Bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "required: COMMAND"),
        ("watch", "invalid choice: 'watch'"),
        ("train", "nmn train: NAME is missing: a preset such as b1-nmn, or a Gymnasium id such as Pendulum-v1."),
        ("train b1-nmn --speed 3", "unrecognized arguments: --speed 3"),
        ("train b1-nmn --recipe slow", "invalid choice: 'slow'"),
        ("train b1-nmn --epochs 4.5", "argument --epochs: invalid int value: '4.5'"),
        ("train b1-nmn --clip none", "argument --clip: invalid float value: 'none'"),
        ("train b1-nmn --test-episodes 0", "argument --test-episodes: must be a positive integer. Received: '0'"),
        ("train b9-nmn", "(Environment `b9-nmn` doesn't exist.) Presets: b1-film, b1-hyper, "),
        ("train b1-nmn-depth2", "b1-nmn-depth0, b1-nmn-depth4, b1-nmn-sigmoid, b1-rnn, b1-rnn-depth0, "),
        ("train b1-nmn --seeds 3", "argument --seeds: must be A:B with A < B, such as 0:5. Received: '3'"),
        ("train b1-nmn --seeds 3:3", "argument --seeds: must be A:B with A < B, such as 0:5. Received: '3:3'"),
        ("train b1-nmn --seeds 0:3 --seed 1", "nmn train: `--seeds` gives each run its seed and directory: leave"),
        ("train b1-nmn --seeds 0:3 --clip 0", "nmn train: `clip` of the 'fast' recipe must be positive. Rec"),
        ("train b1-nmn --seed -1", "nmn train: `seed` must be an integer >= 0. Received: seed=-1"),
        ("train b1-nmn --kl-penalty 1", "nmn train: The 'fast' recipe has no ['kl_penalty']. It has ['actor_"),
        ("train b1-nmn --clip 0", "nmn train: `clip` of the 'fast' recipe must be positive. Received: 0.0"),
        ("train b1-nmn --segment-steps 500", "nmn train: An update must play at least one segment."),
        ("train b1-nmn --validation-freq 0", "nmn train: `validation_freq` must be an integer >= 1. Received: "),
        ("train b1-nmn --resume", "nmn train: No whole checkpoint found"),
        ("evaluate nobody", "nmn evaluate: Unknown agent. Known: "),
        ("evaluate nobody --episodes 1.5", "argument --episodes: must be a positive integer. Received: '1.5'"),
        (
            "evaluate b1-nmn --json nowhere/x.json",
            "nmn evaluate: There is no folder for --json. Received: nowhere/x.js",
        ),
        ("export nobody out", "nmn export: Unknown agent. Known: "),
        ("publish b1-nmn nowhere", "nmn publish: No whole checkpoint found"),
        ("push hf://ann/b1", "required: agent"),
        ("push hf://ann/b1 nobody", "nmn push: Unknown agent. Known: "),
        ("push ann/b1 b1-nmn", "nmn push: That is no address of an agent on the Hub. Accepted is hf://user/name or"),
        ("zoo nobody", "nmn zoo: Unknown agent. Known: "),
        ("zoo --zoo nowhere", "nmn zoo: There is no zoo here."),
    ],
)
def test_bad_input_is_one_clear_message_and_writes_nothing(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, *arguments.split())
    assert (status, out) == (2, "")
    assert message in err and "Traceback" not in err
    assert not [*tmp_path.iterdir()]


def test_nothing_that_exists_is_overwritten(capsys, runs, tmp_path):
    before = tree(runs["fast"])
    status, _, err = run(capsys, "train", *OPTIONS["fast"].split(), "--run-dir", runs["fast"])
    assert status == 2 and "exists and is not empty; nothing was written" in err
    other = OPTIONS["fast"].replace("--epochs 1", "--epochs 2").split()
    status, _, err = run(capsys, "train", *other, "--run-dir", runs["fast"], "--resume")
    assert status == 2 and "holds another recipe; nothing was changed" in err and "'epochs': (1, 2)" in err
    assert before == tree(runs["fast"])
    (tmp_path / "golden.npz").write_text("mine")
    status, _, err = run(capsys, "export", runs["fast"], tmp_path)
    assert status == 2 and "golden.npz" in err
    assert tree(tmp_path) == {"golden.npz": b"mine"}


# A run and what can be done with it


@pytest.mark.parametrize("kind", OPTIONS)
def test_a_run_directory_tells_the_whole_story(runs, kind):
    directory = runs[kind]
    agent = ActorCritic.load(directory)
    assert (agent.run.update, agent.run.updates) == (UPDATES[kind], UPDATES[kind])
    with (directory / "curves.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["update"]) for row in rows] == [*range(1, UPDATES[kind] + 1)]
    validated = {int(r["update"]): float(r["val_discounted_return"]) for r in rows if r["val_discounted_return"]}
    assert [*validated] == {"fast": [4, 8], "paper": [1]}[kind]
    best = json.loads((directory / "best.json").read_text())
    assert best["val_discounted_return"] == max(validated.values()) == validated[best["update"]]
    origin = json.loads((directory / "origin.json").read_text())
    assert origin["command"].startswith("KERAS_BACKEND=") and origin["commit"]


def test_evaluate_scores_the_best_weights(capsys, runs, tmp_path):
    arguments = ("--episodes", TEST_EPISODES, "--json", tmp_path / "scores.json")
    status, out, _ = run(capsys, "evaluate", runs["fast"], *arguments)
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert status == 0 and scores == json.loads((runs["fast"] / "scores.json").read_text())
    deterministic, sampled = out.splitlines()
    for line, mode in ((deterministic, "deterministic"), (sampled, "sampled")):
        assert line.strip().startswith(f"{mode}: discounted return {scores[mode]['discounted_return']:.1f} [")
        assert f"{scores[mode]['share']:.1%} of the optimum" in line and line.endswith(f"{TEST_EPISODES} episodes")
    assert scores["deterministic"]["return"] != scores["sampled"]["return"]


def test_the_folder_itself_can_be_exported(capsys, runs, tmp_path, monkeypatch):
    monkeypatch.chdir(runs["fast"])
    status, _, err = run(capsys, "export", ".", tmp_path / "out")
    assert status == 0, err
    assert OnnxAgent(tmp_path / "out" / "policy.onnx").name == runs["fast"].name


def test_nothing_is_published_into_the_cache_of_the_hub(capsys, runs, monkeypatch):
    monkeypatch.setenv("NMN_ZOO", "hf://ann/b1")
    status, out, err = run(capsys, "publish", "mine", runs["fast"])
    assert (status, out) == (2, "") and "give one as --zoo" in err and err.endswith("Received: NMN_ZOO=hf://ann/b1\n")


def test_export_writes_the_best_weights(capsys, runs, tmp_path):
    status, out, _ = run(capsys, "export", runs["fast"], tmp_path / "out", "--name", "mine")
    assert status == 0 and [line.split()[0] for line in out.splitlines()] == [
        str(tmp_path / "out" / file) for file in ("policy.onnx", "golden.npz")
    ]
    exported, agent = OnnxAgent(tmp_path / "out" / "policy.onnx"), ActorCritic.load(runs["fast"])
    assert (exported.name, exported.env_id) == ("mine", "nmn_keras/MovingTarget-v0")
    agent.load_weights(runs["fast"] / "best.weights.h5")
    inputs = [np.full((1, 1), 0.5, "float32")] * 3
    expected, _ = agent.act(*inputs, agent.initial_state(1))
    np.testing.assert_allclose(exported.act(*inputs, exported.initial_state(1))[0], expected, rtol=1e-5)


# Signals


def start(command, run_dir, *more):
    """A real process of the recorded command."""
    backend, _, *arguments = shlex.split(command)
    options = ["--test-episodes", TEST_EPISODES, "--quiet", "--checkpoint-freq", 1, "--run-dir", run_dir, *more]
    name, value = backend.split("=")
    return subprocess.Popen(
        [sys.executable, "-m", "nmn_keras.cli", *arguments, *map(str, options)],
        env=os.environ | {name: value},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(process, run_dir, update):
    """Wait until a checkpoint of at least that update is there."""
    while process.poll() is None:
        if checkpoint.exists(run_dir) and checkpoint.read(run_dir)[1]["update"] >= update:
            return
        time.sleep(0.02)
    pytest.fail(f"the process ended with {process.returncode}: {process.communicate()[1]}")


def test_an_interrupted_and_a_killed_run_end_as_the_undisturbed_one(runs, tmp_path, capsys):
    command = json.loads((runs["fast"] / "origin.json").read_text())["command"]
    run_dir = tmp_path / "run"
    with start(command, run_dir) as process:
        wait_for(process, run_dir, 2)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    interrupted = checkpoint.read(run_dir)[1]
    assert process.returncode == 130 and 2 <= interrupted["update"] < UPDATES["fast"]
    assert f"Stopped after update {interrupted['update']}; --resume goes on." in err and "Traceback" not in err

    with start(command, run_dir, "--resume") as process:
        wait_for(process, run_dir, interrupted["update"] + 1)
        process.kill()
    killed = checkpoint.read(run_dir)[1]
    assert interrupted["update"] < killed["update"] < UPDATES["fast"]

    options = [*OPTIONS["fast"].split(), "--test-episodes", str(TEST_EPISODES), "--quiet"]
    assert cli.main(["train", *options, "--run-dir", str(run_dir), "--resume"]) == 0
    assert_identical(snapshot(ActorCritic.load(runs["fast"])), snapshot(ActorCritic.load(run_dir)))
    for file in ("curves.csv", "best.json", "scores.json", "origin.json"):
        assert (run_dir / file).read_text() == (runs["fast"] / file).read_text(), file
    assert not [*run_dir.glob("*.tmp")]


def test_seeds_are_trained_side_by_side(runs, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    options = [*OPTIONS["fast"].replace("--seed 0 ", "").split(), "--test-episodes", str(TEST_EPISODES)]
    status, out, _ = run(capsys, "train", *options, "--seeds=0:2", "--jobs", "2")
    assert status == 0, out
    directories = [tmp_path / "runs" / f"b1-nmn-fast-s{seed}" for seed in range(2)]
    first, second = (ActorCritic.load(directory) for directory in directories)
    assert_identical(snapshot(ActorCritic.load(runs["fast"])), snapshot(first))
    assert (first.run.seed, second.run.seed, second.run.update) == (0, 1, UPDATES["fast"])
    assert (directories[0] / "scores.json").read_text() == (runs["fast"] / "scores.json").read_text()
    assert out.count("started") == out.count("done") == 2
    before = tree(tmp_path)
    status, out, _ = run(capsys, "train", *options, "--seeds", "0:2", "--resume")
    assert (status, out.count("has ended")) == (0, 2)
    status, _, err = run(capsys, "train", *options, "--seeds", "1:3")
    assert status == 2 and "exists and is not empty; nothing was written" in err
    assert tree(tmp_path) == before


def test_a_diverging_run_gives_one(capsys, tmp_path):
    spoilt = "--rollout-steps 20 --critic-epochs 2 --critic-learning-rate 1e38"
    options = f"{OPTIONS['paper']} {spoilt}".split()
    status, _, err = run(capsys, "train", *options, "--run-dir", tmp_path / "run", "--quiet")
    assert status == 1 and "nmn train: Training diverged in update " in err
    assert ActorCritic.load(tmp_path / "run").run.update == 0


def test_a_run_directory_is_evaluated_with_keras(tmp_path, capsys):
    (tmp_path / "checkpoint.json").write_text("{}")
    status, _, errors = run(capsys, "evaluate", tmp_path, "--runtime", "onnx")
    assert status == 2 and "evaluated with Keras" in errors
