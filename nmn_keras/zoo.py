"""The zoo's reading side: which agents are published, their cards, their files.

A zoo is a directory with an `index.json` and one directory of files per agent. The index holds the
sha256 of every file, and a file that does not match it is refused. Agents on the Hugging Face Hub are
named by their address, `hf://user/name` or `hf://user/name@revision`.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from nmn_keras import hub

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
        zoo: a directory; `hf://user/name[@revision]`, of which every file is then downloaded; None for
            the environment variable `NMN_ZOO`, or else the zoo that came with the package.

    Raises:
        FileNotFoundError: no zoo lies there.
        ImportError, OSError, ValueError: one on the Hub cannot be had, see `nmn_keras.hub.Snapshot`.
    """
    chosen = zoo or os.environ.get(ENVIRONMENT_VARIABLE)
    if hub.is_address(chosen):
        return _download_all(str(chosen))
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
        name: a published agent, e.g. `b1-nmn`, or an address on the Hub.
        zoo: as for `directory`.

    Raises:
        FileNotFoundError: no zoo lies there.
        ValueError: no agent of that name is published (the known ones are listed), or the index is
            damaged.
        ImportError, OSError, ValueError: one on the Hub cannot be had, see `nmn_keras.hub.Snapshot`.
    """
    name, where = _locate(name, zoo)
    agents = _read_agents(where)
    if name not in agents:
        known = ", ".join(sorted(agents)) or "none, the zoo is empty"
        raise ValueError(f"Unknown agent. Known: {known}. Received: {name!r}")
    return agents[name]


def path(name: str, file: str, zoo: Location = None) -> Path:
    """Return the path of one of an agent's files after checking its sha256.

    Args:
        name: a published agent, or an address on the Hub.
        file: one of its files, e.g. `policy.onnx`.
        zoo: as for `directory`.

    Raises:
        FileNotFoundError: the file, or the zoo, is missing.
        ValueError: the agent or the file is unknown (the known ones are listed), or the file is not
            the published one.
        ImportError, OSError, ValueError: one on the Hub cannot be had, see `nmn_keras.hub.Snapshot`.
    """
    return _verify(*_locate(name, zoo, [file]), file)[0]


@overload
def load(name: str, runtime: Literal["keras"] = ..., zoo: Location = ...) -> "ActorCritic": ...
@overload
def load(name: str, runtime: Literal["onnx"], zoo: Location = ...) -> "OnnxAgent": ...
def load(name: str, runtime: str = "keras", zoo: Location = None) -> "ActorCritic | OnnxAgent":
    """Load a published agent.

    Args:
        name: a published agent, e.g. `b1-nmn`; or an address on the Hub, of which only the files that
            the runtime needs are downloaded.
        runtime: `keras` for an `ActorCritic`, which can be trained further; `onnx` for an
            `OnnxAgent`, which needs neither Keras nor TensorFlow.
        zoo: as for `directory`.

    Raises:
        FileNotFoundError: a file, or the zoo, is missing.
        ValueError: the agent or the runtime is unknown (the known ones are listed), or a file is
            not the published one.
        ImportError, OSError, ValueError: one on the Hub cannot be had, see `nmn_keras.hub.Snapshot`.
    """
    if runtime not in _LOADERS:
        raise ValueError(f"Unknown runtime. Known: {', '.join(_LOADERS)}. Received: {runtime!r}")
    needed, load_files = _LOADERS[runtime]
    found, where = _locate(name, zoo, needed)
    checked = needed if hub.is_address(name) else tuple(card(found, where)["files"])
    return load_files(found, where, checked)


def push(
    address: str,
    name: str,
    zoo: Location = None,
    *,
    private: bool = False,
    revision: str | None = None,
    message: str | None = None,
) -> str:
    """Send a published agent to the Hugging Face Hub and return the commit's URL.

    Args:
        address: where to, `hf://user/name` or `hf://user/name@branch`.
        name: a published agent.
        zoo: as for `directory`.
        private: make the repository private.
        revision: the branch, if the address does not name it; made if missing. `main` if absent.
        message: of the commit.

    Raises:
        FileNotFoundError: a file, or the zoo, is missing.
        ValueError: the agent is unknown, or a file is not the published one.
        ImportError, OSError, ValueError: the Hub does not take it, see `nmn_keras.hub.push`.
    """
    where = directory(zoo)
    entry = card(name, where)
    files = {file: _verify(name, where, file)[1] for file in entry["files"]}
    index = {"version": INDEX_VERSION, "agents": {name: entry}}
    return hub.push(address, name, index, files, private=private, revision=revision, message=message)


def _load_keras(name: str, where: Path, checked: Sequence[str]) -> "ActorCritic":
    for file in checked:
        _verify(name, where, file)

    from nmn_keras.actor_critic import ActorCritic

    return ActorCritic.load_published(where / name)


def _load_onnx(name: str, where: Path, checked: Sequence[str]) -> "OnnxAgent":
    content = _verify(name, where, "policy.onnx")[1]

    from nmn_keras.runtime import OnnxAgent

    # The bytes that were checked are the bytes that are loaded.
    return OnnxAgent(content)


_Loader = Callable[[str, Path, Sequence[str]], "ActorCritic | OnnxAgent"]
_LOADERS: dict[str, tuple[tuple[str, ...], _Loader]] = {
    "keras": (("config.json", "agent.weights.h5"), _load_keras),
    "onnx": (("policy.onnx",), _load_onnx),
}
"""By runtime: the files that it needs, and what loads them."""


def _locate(name: str, zoo: Location, files: Sequence[str] = ()) -> tuple[str, Path]:
    """Return an agent's name and its zoo's directory, in which those files are, if the Hub has them."""
    if not hub.is_address(name):
        return name, directory(zoo)
    if zoo is not None:
        raise ValueError(f"An address on the Hub needs no zoo. Accepted is zoo=None. Received: {name}, zoo={zoo!r}")
    snapshot = hub.Snapshot(name)
    agents = _read_agents(snapshot.directory)
    if len(agents) != 1:
        raise ValueError(
            "The repository is no single agent's. Accepted is one agent, as `nmn push` sends it. "
            f"Received: {name} with {', '.join(agents) or 'none'}"
        )
    ((found, entry),) = agents.items()
    snapshot.fetch(f"{found}/{file}" for file in files if file in entry["files"])
    return found, snapshot.directory


def _download_all(address: str) -> Path:
    """Return the directory of a zoo on the Hub, with every file that its index names."""
    snapshot = hub.Snapshot(address)
    agents = _read_agents(snapshot.directory)
    snapshot.fetch(f"{name}/{file}" for name, agent in agents.items() for file in agent["files"])
    return snapshot.directory


def _read_agents(zoo: Path) -> dict[str, dict[str, Any]]:
    """Return the index's entries by name."""
    source = zoo / "index.json"
    try:
        index = json.loads(source.read_bytes())
        version, agents = index["version"], index["agents"]
        names = [*agents, *(file for agent in agents.values() for file in {**agent["files"]})]
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


def _verify(name: str, where: Path, file: str) -> tuple[Path, bytes]:
    """Return a file's path and its content, which is the published one."""
    files = card(name, where)["files"]
    if file not in files:
        raise ValueError(f"Unknown file of {name}. Known: {', '.join(files)}. Received: {file!r}")
    found = where / name / file
    if not found.is_file():
        raise FileNotFoundError(f"A published file is missing: {found}. Publish {name} again.")
    content = found.read_bytes()
    received, accepted = hashlib.sha256(content).hexdigest(), files[file].get("sha256")
    if received != accepted:
        raise ValueError(
            f"{found} is not the file that was published. Accepted is sha256 {accepted}. Received: {received}"
        )
    return found, content
