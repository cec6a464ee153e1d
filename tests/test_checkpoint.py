import json
import os

import numpy as np
import pytest

from nmn_keras import checkpoint

CONFIG = {"architecture": {"kind": "nmn"}, "seed": 3}


def arrays(update):
    return {"actor/0": np.arange(4.0) + update, "buffer/0/keep": np.ones((2, 3, 1), "float32")}


def write(directory, update, *, content=None, state=None, **changed):
    def save_weights(path):
        path.write_bytes(content or b"weights of update %d" % update)

    state = {"update": update, "coefficients": {"rate": 0.1}} if state is None else state
    checkpoint.write(directory, CONFIG, state, changed.get("save_weights", save_weights), {**arrays(update), **changed})


def assert_holds(directory, update):
    config, state, weights, found = checkpoint.read(directory)
    assert (config, state["update"]) == (CONFIG, update)
    assert weights.read_bytes() == b"weights of update %d" % update
    assert found.keys() == arrays(update).keys()
    for name, array in arrays(update).items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype


def test_what_is_written_is_read_and_only_the_last_two_stay(tmp_path):
    run = tmp_path / "deep" / "run"
    run.mkdir(parents=True)
    others = [run / "agent-best.weights.h5", run / "agent-03.weights.h5", run / "training-notes.npz"]
    for other in others:
        other.touch()
    assert not checkpoint.exists(run)
    for update, files in ((0, 4), (20, 6), (20, 6), (40, 6)):
        write(run, update)
        assert checkpoint.exists(run)
        assert_holds(run, update)
        assert len(list(run.iterdir())) == files + len(others)
    assert all(other.exists() for other in others)  # they are not ours


class Interrupted(Exception):
    pass


def raise_interrupted(path):
    path.write_bytes(b"half")
    raise Interrupted


class Breaking:
    def __array__(self, dtype=None, copy=None):
        raise Interrupted


@pytest.mark.parametrize("update", [20, 21])
@pytest.mark.parametrize(
    "crash",
    [
        {"save_weights": raise_interrupted},
        {"actor/1": Breaking()},
        {"state": {"update": None, "coefficients": Breaking()}},
    ],
    ids=["weights", "arrays", "index"],
)
def test_a_crash_while_writing_leaves_the_checkpoint_before(tmp_path, update, crash):
    write(tmp_path, 20)
    if "state" in crash:
        crash = {"state": crash["state"] | {"update": update}}
    with pytest.raises((Interrupted, TypeError)):
        write(tmp_path, update, content=b"other", **crash)
    assert_holds(tmp_path, 20)
    write(tmp_path, 22)
    assert_holds(tmp_path, 22)
    assert len(list(tmp_path.iterdir())) == 6  # nothing half-written stays


def test_a_reader_never_sees_half_a_checkpoint(tmp_path, monkeypatch):
    """At every moment at which a file is put in place, the directory holds one whole checkpoint."""
    write(tmp_path, 20)
    seen, replace = [], os.replace

    def watched(source, target):
        seen.append(checkpoint.read(tmp_path)[1]["update"])
        replace(source, target)
        seen.append(checkpoint.read(tmp_path)[1]["update"])

    monkeypatch.setattr(os, "replace", watched)
    *_, weights, _ = checkpoint.read(tmp_path)
    write(tmp_path, 21)
    assert seen == sorted(seen) and {*seen} == {20, 21}
    assert weights.read_bytes() == b"weights of update 20"  # still there for who has just read the index


FILES = ("weights", "arrays", "config")


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("damage", ["truncated", "altered", "missing"])
def test_damage_is_found_and_named(tmp_path, file, damage):
    write(tmp_path, 5)
    path = next(tmp_path.glob({"weights": "agent-*", "arrays": "training-*", "config": "config.json"}[file]))
    content = path.read_bytes()
    middle = len(content) // 2
    if damage == "missing":
        path.unlink()
    else:
        altered = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        path.write_bytes(content[:middle] if damage == "truncated" else altered)
    with pytest.raises(ValueError, match=path.name):
        checkpoint.read(tmp_path)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"7", b"\xff\xfe", b'{"sha256": {"..": "x"}}'])
def test_a_spoilt_index_is_refused(tmp_path, content):
    write(tmp_path, 5)
    (tmp_path / checkpoint.INDEX).write_bytes(content)
    with pytest.raises(ValueError, match="No whole checkpoint found"):
        checkpoint.read(tmp_path)
    (tmp_path / checkpoint.INDEX).write_text(json.dumps({"sha256": {}}))
    with pytest.raises(ValueError, match="No whole checkpoint found"):
        checkpoint.read(tmp_path)
    (tmp_path / checkpoint.INDEX).write_bytes(content)
    write(tmp_path, 6)
    assert_holds(tmp_path, 6)


def test_no_run_says_what_is_needed(tmp_path):
    for directory in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ValueError, match=rf"written by `save` or `fit\(run_dir=...\)` is needed.*{directory.name}"):
            checkpoint.read(directory)


def test_existing_things_are_refused(tmp_path):
    checkpoint.refuse_existing(tmp_path)
    checkpoint.refuse_existing(tmp_path / "new")
    file = tmp_path / "file"
    file.write_text("kept")
    for path in (file, tmp_path):
        with pytest.raises(FileExistsError, match="exists and is not empty; nothing was written"):
            checkpoint.refuse_existing(path)
    assert file.read_text() == "kept"
