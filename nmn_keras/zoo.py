"""The zoo's reading side: which agents are published, their cards, their files.

A zoo is a directory with an `index.json` and one directory of files per agent. The index holds the
sha256 of every file, and a file that does not match it is refused.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

if TYPE_CHECKING:
    from nmn_keras.actor_critic import ActorCritic
    from nmn_keras.runtime import OnnxAgent

INDEX_VERSION = 1
ENVIRONMENT_VARIABLE = "NMN_ZOO"
PACKAGED = Path(__file__).parent / "_zoo"
CHECKOUT = Path(__file__).parent.parent / "zoo"
Location = str | os.PathLike[str] | None
PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def directory(zoo: Location = None) -> Path:
    """Return the zoo's directory.

    Args:
        zoo: a directory; None for the environment variable `NMN_ZOO`, or else the zoo that came
            with the package.

    Raises:
        FileNotFoundError: no zoo lies there.
    """
    chosen = zoo or os.environ.get(ENVIRONMENT_VARIABLE)
    found = Path(chosen) if chosen else PACKAGED if PACKAGED.is_dir() else CHECKOUT
    if not (found / "index.json").is_file():
        raise FileNotFoundError(
            "There is no zoo here. Accepted is a directory with an index.json, as `nmn publish` "
            f"writes it. Received: {found}"
        )
    return found


def list_agents(zoo: Location = None) -> list[str]:
    """Return the names of the published agents, sorted.

    Args:
        zoo: as for `directory`.

    Raises:
        FileNotFoundError: no zoo lies there.
        ValueError: its index is damaged.
    """
    return sorted(_read_agents(directory(zoo)))


def card(name: str, zoo: Location = None) -> dict[str, Any]:
    """Return what the index says about an agent: environment, scores, command, commit, files.

    Args:
        name: a published agent, e.g. `b1-nmn`.
        zoo: as for `directory`.

    Raises:
        FileNotFoundError: no zoo lies there.
        ValueError: no agent of that name is published (the known ones are listed), or the index is
            damaged.
    """
    agents = _read_agents(directory(zoo))
    if name not in agents:
        known = ", ".join(sorted(agents)) or "none, the zoo is empty"
        raise ValueError(f"Unknown agent. Known: {known}. Received: {name!r}")
    return agents[name]


def path(name: str, file: str, zoo: Location = None) -> Path:
    """Return the path of one of an agent's files after checking its sha256.

    Args:
        name: a published agent.
        file: one of its files, e.g. `policy.onnx`.
        zoo: as for `directory`.

    Raises:
        FileNotFoundError: the file, or the zoo, is missing.
        ValueError: the agent or the file is unknown (the known ones are listed), or the file is not
            the published one.
    """
    return _verify(name, file, zoo)[0]


@overload
def load(name: str, runtime: Literal["keras"] = ..., zoo: Location = ...) -> "ActorCritic": ...
@overload
def load(name: str, runtime: Literal["onnx"], zoo: Location = ...) -> "OnnxAgent": ...
def load(name: str, runtime: str = "keras", zoo: Location = None) -> "ActorCritic | OnnxAgent":
    """Load a published agent.

    Args:
        name: a published agent, e.g. `b1-nmn`.
        runtime: `keras` for an `ActorCritic`, which can be trained further; `onnx` for an
            `OnnxAgent`, which needs neither Keras nor TensorFlow.
        zoo: as for `directory`.

    Raises:
        FileNotFoundError: a file, or the zoo, is missing.
        ValueError: the agent or the runtime is unknown (the known ones are listed), or a file is
            not the published one.
    """
    if runtime not in _LOADERS:
        raise ValueError(f"Unknown runtime. Known: {', '.join(_LOADERS)}. Received: {runtime!r}")
    return _LOADERS[runtime](name, zoo)


def _load_keras(name: str, zoo: Location) -> "ActorCritic":
    for file in card(name, zoo)["files"]:
        path(name, file, zoo)

    from nmn_keras.actor_critic import ActorCritic

    return ActorCritic.load_published(directory(zoo) / name)


def _load_onnx(name: str, zoo: Location) -> "OnnxAgent":
    content = _verify(name, "policy.onnx", zoo)[1]

    from nmn_keras.runtime import OnnxAgent

    # The bytes that were checked are the bytes that are loaded.
    return OnnxAgent(content)


_LOADERS: "dict[str, Callable[[str, Location], ActorCritic | OnnxAgent]]" = {
    "keras": _load_keras,
    "onnx": _load_onnx,
}


def _read_agents(zoo: Path) -> dict[str, dict[str, Any]]:
    """Return the index's entries by name."""
    source = zoo / "index.json"
    try:
        index = json.loads(source.read_bytes())
        version, agents = index["version"], index["agents"]
        names = [*agents, *(file for agent in agents.values() for file in agent["files"])]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(
            f"The zoo's index is damaged. Accepted is what `nmn publish` writes. Received: {source} ({error!r})"
        ) from error
    if version != INDEX_VERSION:
        raise ValueError(
            f"The zoo's index has another version. Accepted is {INDEX_VERSION}. Received: {version!r} in {source}"
        )
    strange = [name for name in names if not PLAIN_NAME.fullmatch(name)]
    if strange:
        raise ValueError(
            "The zoo's index names agents or files that could lie outside of the zoo. Accepted "
            f"are letters, digits, '.', '_' and '-'. Received: {strange} in {source}"
        )
    return agents


def _verify(name: str, file: str, zoo: Location) -> tuple[Path, bytes]:
    """Return a file's path and its content, which is the published one."""
    files = card(name, zoo)["files"]
    if file not in files:
        raise ValueError(f"Unknown file of {name}. Known: {', '.join(files)}. Received: {file!r}")
    found = directory(zoo) / name / file
    if not found.is_file():
        raise FileNotFoundError(f"A published file is missing: {found}. Publish {name} again.")
    content = found.read_bytes()
    received = hashlib.sha256(content).hexdigest()
    if received != files[file]["sha256"]:
        raise ValueError(
            f"{found} is not the file that was published. Accepted is sha256 "
            f"{files[file]['sha256']}. Received: {received}"
        )
    return found, content
