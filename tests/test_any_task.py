"""From any Gymnasium id to a served agent, on the command line and in Python."""

import argparse
import dataclasses
import json
import subprocess
import sys

import httpx
import keras
import numpy as np
import pytest
from PIL import Image
from server_process import serving
from tiny_agents import assert_identical, snapshot

from nmn_keras import ActorCritic, Architecture, cli, field_options, recipes, video
from nmn_keras.planning import plan, validation
from nmn_keras.train_command import add_field_options, add_train

TINY = {"episodes": 12, "episodes_per_update": 4, "rollout_steps": 20, "segment_steps": 10, "epochs": 1}
OPTIONS = [word for name, value in TINY.items() for word in (f"--{name.replace('_', '-')}", str(value))]
LEVER = """
import gymnasium
import numpy as np

class Lever(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-2.0, 2.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action):
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), -abs(float(action[0])), False, False, {}

gymnasium.register("Lever-v0", Lever, max_episode_steps=10)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A current folder with a module that registers an environment."""
    (tmp_path / "lever.py").write_text(LEVER)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def arguments_of(*words):
    """What `nmn train` reads."""
    parser = add_train(argparse.ArgumentParser().add_subparsers())
    add_field_options(parser)
    return parser.parse_args([*words])


def nmn(*words, folder, status=0):
    """Output and errors of a real process."""
    command = [sys.executable, "-m", "nmn_keras.cli", *map(str, words)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    return done.stdout, done.stderr


def frames_of(path):
    """Shapes of a video's frames, as a player decodes them."""
    av = pytest.importorskip("av")
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24").shape for frame in container.decode(video=0)]


# Options


def other(field, default):
    """Another value of a field's type, and the words that a user types for it."""
    if field.type is bool:
        return not default, [f"--{'no-' if default else ''}{field.name.replace('_', '-')}"]
    for text in ("3", "3,-4", "relu"):
        try:
            value = field_options.reader(field.type)(text)
        except ValueError:
            continue
        return value, [f"--{field.name.replace('_', '-')}={text}"]
    raise AssertionError(field)


@pytest.mark.parametrize("kind", [Architecture, *recipes.RECIPES.values()])
def test_every_field_has_an_option_that_arrives(kind):
    fields = [field for field in dataclasses.fields(kind) if field.name != "kind"]
    for field in fields:
        default = None if field.default is dataclasses.MISSING else field.default
        value, words = other(field, default)
        found = field_options.given(arguments_of("CartPole-v1", *words), kind)
        assert {name: x for name, x in found.items() if name != "kind"} == {field.name: value}
        typed = " ".join(field_options.words({field.name: value}))
        again = arguments_of("CartPole-v1", *typed.split())
        assert getattr(again, field.name) == value, typed
        if type(None) in field_options._kinds(field.type):
            assert getattr(arguments_of(f"--{field.name.replace('_', '-')}", "none"), field.name) is None


def test_a_name_of_a_field_means_one_thing():
    shape = {field.name for field in dataclasses.fields(Architecture)}
    numbers = {field.name for recipe in recipes.RECIPES.values() for field in dataclasses.fields(recipe)}
    taken = {action.dest for action in add_train(argparse.ArgumentParser().add_subparsers())._actions}
    assert not shape & numbers and not numbers & taken and shape & taken == {"kind"}


def test_options_arrive_in_agent_and_command():
    asked = plan(arguments_of("CartPole-v1", "--kind", "rnn", "--gru-units", "8,4", "--log-var-min=-2.5", *OPTIONS))
    assert (asked.architecture.kind, asked.architecture.gru_units) == ("rnn", (8, 4))
    assert asked.architecture.log_var_min == -2.5 and asked.recipe.epochs == 1
    words = " ".join(asked.words(3)).split()
    again = plan(arguments_of(*words))
    assert words[:3] == ["CartPole-v1", "--kind", "rnn"] and "--seed 3" in " ".join(words)
    assert (again.architecture, again.recipe, again.env_kwargs) == (asked.architecture, asked.recipe, asked.env_kwargs)


@pytest.mark.parametrize(
    ("name", "stem"),
    [("Pendulum-v1", "Pendulum-v1-nmn"), ("lever:Lever-v0", "lever-Lever-v0-nmn"), ("b1-nmn", "b1-nmn-fast")],
)
def test_a_run_directory_is_safe_to_name(folder, monkeypatch, name, stem):
    monkeypatch.syspath_prepend(str(folder))
    assert plan(arguments_of(name)).stem == stem


def test_validation_takes_a_tenth_of_the_steps():
    recipe = recipes.FastRecipe(rollout_steps=200)
    assert validation("Pendulum-v1", {}, recipe)[0] == {"validation_episodes": 64, "validation_freq": 10}
    assert validation("b2", {}, recipe)[0] == {"validation_episodes": 100, "validation_freq": 20}
    chosen, (why,) = validation("Blackjack-v1", {}, recipe)
    assert chosen["validation_episodes"] == 0 and "no time limit" in why


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("train CartPol-v1", "Did you mean: `CartPole`?) Presets: b1-film, "),
        ("train CartPole-v7", "It provides versioned environments: [ `v0`, `v1` ].) Presets: "),
        ("train nowhere:Some-v0", "Received: 'nowhere:Some-v0' (No module named 'nowhere')"),
        ("train --resume", "NAME is missing: a preset such as b1-nmn, or a Gymnasium id such as Pendulum-v1."),
        (
            "train b1-nmn --kind rnn",
            "A preset has its kind of network; --kind is accepted with an environment, such as",
        ),
        ("train CartPole-v1 --env-kwargs 3", "must be a JSON object, such as '{\"g\": 9.81}'. Received: '3'"),
        ('train CartPole-v1 --env-kwargs {"g":1}', "Accepted as --env-kwargs are its own arguments and those of"),
        ("train CartPole-v1 --gru-units a,b", "invalid ints with commas between them value: 'a,b'"),
        ("play b1-nmn --video film.avi", "nmn play: A video is a file that ends in .mp4 or .gif. Received: film.avi"),
        ("play b1-nmn --video lever.py", "nmn play: A video is a file that ends in .mp4 or .gif"),
        ("play b1-nmn --video nowhere/film.gif", "nmn play: There is no folder for the video."),
        ("play b1-nmn --seed -1", "must be an integer >= 0. Received: '-1'"),
        ("play nobody --video film.gif", "nmn play: Unknown agent. Known: b1-film, "),
    ],
)
def test_bad_input_is_one_clear_message_and_writes_nothing(capsys, folder, words, message):
    try:
        status = cli.main(words.split())
    except SystemExit as error:
        status = error.code
    assert status == 2 and message in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["lever.py"]


# A task from its id to a server


def test_from_an_id_to_a_server(tmp_path):
    run = tmp_path / "runs" / "CartPole-v1-nmn-s0"
    validate = ["--validation-episodes", 2, "--test-episodes", 2]
    out, _ = nmn("train", "CartPole-v1", *OPTIONS, "--gru-units", "8", *validate, folder=tmp_path)
    assert "deterministic: return " in out
    command = json.loads((run / "origin.json").read_text())["command"]
    assert " nmn train CartPole-v1 --kind nmn --recipe fast --seed 0 --gru-units 8 --episodes 12 " in command
    nmn("train", "--resume", "--run-dir", run, "--episodes", 16, *validate, "--quiet", folder=tmp_path)
    assert ActorCritic.load(run).run.update == 4
    _, err = nmn("train", "--resume", "--run-dir", run, "--kind", "rnn", folder=tmp_path, status=2)
    assert "holds another run; nothing was changed. Accepted is --kind nmn" in err

    out, _ = nmn("evaluate", run, "--episodes", 3, folder=tmp_path)
    assert out.count("; 3 episodes") == 2
    out, _ = nmn("play", run, "--video", "film.mp4", "--episodes", 2, "--sampled", folder=tmp_path)
    steps = [int(line.split()[-2]) for line in out.splitlines()[:2]]
    assert frames_of(tmp_path / "film.mp4") == [(400, 600, 3)] * (sum(steps) + 2)

    nmn("publish", "pole", run, "--zoo", "mine", "--episodes", 2, folder=tmp_path)
    with serving(tmp_path / "mine") as server:
        session = httpx.post(f"{server.url}/v1/agents/pole/sessions").json()["session"]
        answer = httpx.post(f"{server.url}/v1/sessions/{session}/step", json={"observation": [0.0] * 4}).json()
    assert answer["step"] == 1 and answer["action"][0] in (0.0, 1.0)


class StopAfter(keras.callbacks.Callback):
    def __init__(self, updates):
        super().__init__()
        self.updates = updates

    def on_epoch_end(self, epoch, logs=None):
        self.model.stop_training = epoch + 1 == self.updates


def test_a_run_begun_in_python_goes_on_on_the_command_line_and_the_other_way_round(folder, monkeypatch):
    monkeypatch.syspath_prepend(str(folder))
    name = "lever:Lever-v0"

    def begin(directory, *callbacks):
        agent = ActorCritic.for_env(name, "rnn", recipe=TINY)
        agent.fit(name, run_dir=directory, callbacks=[*callbacks], verbose=0)
        return agent

    quiet = ["--quiet", "--test-episodes", "2"]
    whole = begin("whole")
    begin("python", StopAfter(2))
    assert cli.main(["train", "--resume", "--run-dir", "python", *quiet]) == 0
    assert_identical(snapshot(whole), snapshot(ActorCritic.load("python")))

    assert cli.main(["train", name, "--kind", "rnn", *OPTIONS, "--run-dir", "typed", *quiet]) == 0
    typed = ActorCritic.load("typed")
    assert (typed.run.env_id, typed.run.update) == (name, 3)
    assert_identical(snapshot(whole), snapshot(typed))
    typed.fit(episodes=16, resume=True, run_dir="typed", verbose=0)
    assert ActorCritic.load("typed").run.update == 4


# Videos


def test_a_video_is_whole_or_not_there(tmp_path):
    def spoilt():
        yield np.zeros((5, 7, 3), np.uint8)
        raise ValueError("the environment is gone")

    for name in ("film.gif", "film.mp4"):
        with pytest.raises(ValueError, match="is gone"):
            video.write(tmp_path / name, spoilt(), 10)
    assert not [*tmp_path.iterdir()]
    frames = [np.full((5, 7, 3), 60 * i, np.uint8) for i in range(4)]
    assert video.write(tmp_path / "film.gif", iter(frames), 10) == 4
    with Image.open(tmp_path / "film.gif") as film:
        assert film.n_frames == 4
    assert video.write(tmp_path / "film.mp4", iter(frames), 10) == 4
    assert frames_of(tmp_path / "film.mp4") == [(6, 8, 3)] * 4


@pytest.mark.parametrize("name", ["b1-nmn", "b2-nmn", "b3-nmn"])
def test_a_published_agent_is_played(tmp_path, capsys, name):
    words = ["--env-kwargs", '{"max_episode_steps": 3}', "--video", str(tmp_path / "film.mp4")]
    assert cli.main(["play", name, *words]) == 0
    assert "3 steps\n" in capsys.readouterr().out
    assert len(frames_of(tmp_path / "film.mp4")) == 4


def test_what_has_no_pictures_says_so(folder, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(folder))
    ActorCritic.for_env("lever:Lever-v0", recipe=TINY).fit("lever:Lever-v0", 4, run_dir="run", verbose=0)
    assert cli.main(["play", "run", "--video", "film.gif"]) == 2
    assert "needs the render mode 'rgb_array'. Received: lever:Lever-v0, whose render modes are []" in (
        capsys.readouterr().err
    )
