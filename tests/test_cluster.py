"""`--ray`: a real cluster of several nodes in this machine, one of them killed; Ctrl-C; bad input."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from ray_cluster import ENVIRONMENT, cluster

from nmn_keras import attempt, checkpoint, cli

UPDATES = 40
SHORT = (
    "--episodes 160 --episodes-per-update 4 --segment-steps 10 --validation-episodes 2 --validation-freq 10"
    " --rollout-steps 20 --epochs 1 --minibatches-per-epoch 2 --test-episodes 2 --checkpoint-freq 2"
)
TRAIN = f"train b1-nmn {SHORT} --seeds 0:2"


@contextlib.contextmanager
def nmn(arguments, directory):
    """A real process of the command, in a session of its own as if typed in another terminal."""
    with subprocess.Popen(
        [sys.executable, "-m", "nmn_keras.cli", *arguments.split()],
        cwd=directory,
        env={**ENVIRONMENT, "KERAS_BACKEND": "jax"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        yield process


def ended(arguments, directory, status=0):
    """Output and errors of the command when it had ended with that status."""
    with nmn(arguments, directory) as process:
        out, err = process.communicate(timeout=900)
    assert process.returncode == status, out + err
    return out, err


def update(run_dir):
    """That of the run's checkpoint; -1 before the first."""
    return checkpoint.read(run_dir)[1]["update"] if checkpoint.exists(run_dir) else -1


def below(raylet):
    """The process of a run that a node's worker has started, and its run directory."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            words = (entry / "cmdline").read_bytes().decode().split("\0")
            if words[1:3] == ["-m", "nmn_keras.cli"] and raylet in ancestors(int(entry.name)):
                return int(entry.name), Path(words[words.index("--run-dir") + 1])
    return None


def ancestors(pid):
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        yield pid


def wait_for(condition, process):
    while not (found := condition()):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    return found


def assert_same_runs(first, second):
    """Curves, scores, origins and all that is trained, to the last bit."""
    assert update(first) == update(second) == UPDATES
    for name in ("curves.csv", "scores.json", "best.json", "origin.json", "config.json"):
        assert (first / name).read_bytes() == (second / name).read_bytes(), name
    (_, state, _, arrays), (_, other_state, _, other) = (checkpoint.read(run) for run in (first, second))
    assert state == other_state and {*arrays} == {*other} and len(arrays) > 20
    assert all(np.array_equal(arrays[name], other[name]) for name in arrays)


@pytest.mark.slow
def test_a_sweep_on_a_cluster_with_a_node_killed_ends_as_a_local_one(tmp_path):
    pytest.importorskip("ray")
    local, shared = tmp_path / "local", tmp_path / "shared"
    for directory in (local, shared):
        directory.mkdir()
    ended(TRAIN, local)
    with cluster(nodes=2) as ray, nmn(f"{TRAIN} --ray {ray['address']}", shared) as process:
        raylet = ray["raylets"][1]
        pid, lost = wait_for(lambda: below(raylet), process)
        wait_for(lambda: update(lost) >= 2, process)
        os.kill(raylet, signal.SIGKILL)
        reached = update(lost)
        out, err = process.communicate(timeout=900)
        assert process.returncode == 0, out + err
    assert 2 <= reached < UPDATES and not Path(f"/proc/{pid}").exists()
    logs = {seed: (shared / "runs" / f"b1-nmn-fast-s{seed}.log").read_text() for seed in range(2)}
    starts = {seed: [line for line in log.splitlines() if line.startswith(attempt.BEGUN)] for seed, log in logs.items()}
    again = starts.pop(int(lost.name[-1]))
    assert len(again) == 2 and int(again[1].split()[-1]) >= reached and [len(one) for one in starts.values()] == [1]
    for words in ("Ray: 3 nodes, 2 cores", f"{lost.relative_to(shared)}: started again on ", "from the checkpoint of"):
        assert words in out
    assert out.count(": started on ") == out.count(": done, ") == 2 and "Traceback" not in err
    for seed in range(2):
        assert_same_runs(*(directory / "runs" / f"b1-nmn-fast-s{seed}" for directory in (local, shared)))
    assert not [*shared.rglob(".nmn-ray-*")]


@pytest.mark.slow
def test_reproduce_on_a_cluster_of_its_own_is_interrupted_and_gone_on_with_without_one(tmp_path):
    """Ctrl-C as a terminal sends it, to every process of the group, Ray's too."""
    pytest.importorskip("ray")
    command = "reproduce learning --bench b1 --seeds 1 --episodes 512 --test-episodes 2 --output here"
    run_dir = tmp_path / "here" / "runs" / "b1-nmn-fast-s0"
    with nmn(f"{command} --ray local", tmp_path) as process:
        wait_for(lambda: checkpoint.exists(run_dir), process)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=300)
    assert process.returncode == 130 and "--resume goes on" in err and "Traceback" not in err, out + err
    log = run_dir.with_name(run_dir.name + ".log").read_text()
    assert log.startswith(attempt.BEGUN) and f"Stopped after update {update(run_dir)}; --resume goes on." in log
    assert 0 < update(run_dir) < 8
    out, _ = ended(f"{command} --resume", tmp_path)
    assert "| `b1-rnn` | fast | 512 | 1 |" in out and update(run_dir) == 8
    assert out.splitlines()[-1] == "here/learning.md"


def test_an_address_without_a_cluster_is_one_clear_message(tmp_path):
    pytest.importorskip("ray")
    _, err = ended("train b1-nmn --seeds 0:2 --ray 127.0.0.1:1", tmp_path, status=2)
    assert "nmn train: No Ray cluster could be joined. `--ray` accepts HOST:PORT as `ray start --head` prints" in err
    assert "Received: '127.0.0.1:1'" in err and "Traceback" not in err and not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("train --ray b1-nmn", "argument --ray: must be HOST:PORT, ray://HOST:PORT, auto or local. Received: 'b1-nmn'"),
        (
            "train b1-nmn --seeds 0:2 --ray --jobs 2",
            "nmn train: On a cluster as many runs go on at a time as it has fr",
        ),
        (
            "train b1-nmn --seeds 0:2 --ray --together",
            "nmn train: `--together` is one process, `--ray` has one for eac",
        ),
        (
            "train b1-nmn --seeds 0:2 --ray auto --run-dir x",
            "nmn train: `--seeds` gives each run its seed and director",
        ),
        ("reproduce learning --ray auto --jobs 3", "`--ray` is accepted without --jobs. Received: --jobs 3"),
        ("reproduce all --from-curves --ray", "--output and --zoo are accepted with it. Received: --ray"),
        ("reproduce adaptation --ray auto", "accepted with it. Received: --ray"),
    ],
)
def test_bad_input_is_one_clear_message_and_writes_nothing(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    try:
        status = cli.main(arguments.split())
    except SystemExit as error:
        status = error.code
    err = capsys.readouterr().err
    assert status == 2 and message in err and "Traceback" not in err
    assert not [*tmp_path.iterdir()]


def test_without_ray_the_message_says_what_to_install(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "ray", None)
    assert cli.main("train b1-nmn --seeds 0:2 --ray auto".split()) == 2
    assert "is not installed: `pip install 'nmn_keras[ray]'`, on every node of the clus" in capsys.readouterr().err
