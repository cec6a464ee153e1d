"""A run directory: configuration, weights and training state, written so that a crash loses nothing.

`checkpoint.json` names the files of one checkpoint with their sha256 and is replaced last and atomically: whatever
happens before leaves the previous checkpoint whole. Its files stay until the next one is written, so that a run can be
read while it goes on.
"""

import hashlib
import itertools
import json
import os
import re
from pathlib import Path

import numpy as np

INDEX = "checkpoint.json"
CONFIG = "config.json"
ORIGIN = "origin.json"
_OURS = re.compile(r"agent-\d{6,}(-\d+)?\.weights\.h5|training-\d{6,}(-\d+)?\.npz")
_BEFORE_INDEX = ("agent-*.weights.h5", "training-*.npz", CONFIG, ORIGIN, "*.json.tmp")
"""What may be there before the first `checkpoint.json`."""


def write(directory, config: dict, state: dict, save_weights, arrays: dict) -> None:
    """Write one checkpoint.

    Args:
        directory: created if missing.
        config: what the agent is; constant over a run.
        state: JSON-ready training state, holding `update`.
        save_weights: function of a path that ends in ".weights.h5".
        arrays: flat dict of numpy arrays.
    """
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    previous = _files(directory)
    names = _unused_names(directory, state["update"])
    save_weights(directory / names["weights"])
    with open(directory / names["arrays"], "wb") as file:
        np.savez(file, **arrays)
    replace_json(directory / CONFIG, config)
    files = {name: sha256(directory / name) for name in (*names.values(), CONFIG)}
    replace_json(directory / INDEX, {"state": state, **names, "sha256": files})
    for file in directory.iterdir():  # ours alone: a user's callback may write files of like names here
        if _OURS.fullmatch(file.name) and file.name not in {*previous, *names.values()}:
            file.unlink()


def _files(directory):
    """Names of the files of the checkpoint that is there, if a whole one is."""
    try:
        return set(json.loads((directory / INDEX).read_text())["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        return set()


def _unused_names(directory, update):
    """File names that no checkpoint has: even the one of the same update stays whole until it is replaced."""
    for attempt in itertools.count():
        stem = f"{update:06d}" + (f"-{attempt}" if attempt else "")
        names = {"weights": f"agent-{stem}.weights.h5", "arrays": f"training-{stem}.npz"}
        if not any((directory / name).exists() for name in names.values()):
            return names


def read(directory) -> tuple[dict, dict, Path, dict]:
    """Read a checkpoint: config, state, path of the weights, arrays.

    Raises:
        ValueError: if there is none, or a file is missing, truncated or altered.
    """
    directory = Path(directory)
    try:
        index = json.loads((directory / INDEX).read_text())
        for name, expected in index["sha256"].items():
            if sha256(directory / name) != expected:
                raise ValueError(
                    f"{directory / name} is truncated or was altered: its sha256 is not the one in {INDEX}. "
                    "Restore it from a copy, or train anew in another directory."
                )
        config = json.loads((directory / CONFIG).read_text())
        with np.load(directory / index["arrays"]) as file:
            arrays = dict(file)
        return config, index["state"], directory / index["weights"], arrays
    except (OSError, KeyError, TypeError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"No whole checkpoint found; a directory written by `save` or `fit(run_dir=...)` is needed. "
            f"Received: {str(directory)!r} ({type(error).__name__}: {error})"
        ) from error


def exists(directory) -> bool:
    """Whether a directory holds a checkpoint."""
    return (Path(directory) / INDEX).is_file()


def refuse_existing(directory) -> None:
    """Raise `FileExistsError` if the directory has anything in it."""
    directory = Path(directory)
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise FileExistsError(
            f"{str(directory)!r} exists and is not empty; nothing was written. Give another directory, or resume "
            "the run in it (`resume=True`, `nmn train --resume`)."
        )


def clear_unfinished(directory) -> None:
    """Remove what a run left that was killed before its first checkpoint was whole.

    If there is a checkpoint, or anything that such a run does not write, nothing is removed.
    """
    files = [*Path(directory).glob("*")]
    if all(any(file.match(pattern) for pattern in _BEFORE_INDEX) for file in files):
        for file in files:
            file.unlink()


def sha256(path) -> str:
    """Hexadecimal sha256 of a file."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def replace_json(path: Path, content: dict) -> None:
    """Write a JSON file whole or not at all."""
    replace_text(path, json.dumps(content, indent=1))


def replace_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text)
    os.replace(temporary, path)
