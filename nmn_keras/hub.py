"""Agents on the Hugging Face Hub; needs `pip install "nmn_keras[hub]"`, and neither Keras nor TensorFlow.

A repository is a zoo of one agent: `index.json` with the sha256 of its files, the agent's folder as it was published,
and at the root its card for the Hub, which people may edit there and which is therefore not in the index. `Snapshot`
reads one, `push` sends one; `nmn_keras.zoo` does the rest.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PREFIX = "hf://"
CARD = "README.md"
INDEX = "index.json"
PUBLISHED = ("README.md", "agent.weights.h5", "config.json", "golden.npz", "policy.onnx", "scores.json")
"""What an agent must have to be pushed."""
_FRESH = {".gitattributes", CARD, "LICENSE"}
"""Files that the Hub itself gives a new repository."""


def is_address(name: object) -> bool:
    """Return whether that is an address on the Hub, `hf://user/name`, rather than a name or a directory."""
    return isinstance(name, str) and name.startswith(PREFIX)


class Snapshot:
    """One commit of a repository, in huggingface_hub's cache: it works offline once it was there.

    Attributes:
        commit: its hash, 40 hexadecimal digits. `hf://user/name@COMMIT` is the same snapshot for ever.
        directory: where its files are, once fetched; a zoo's directory.

    Args:
        address: `hf://user/name`, or `hf://user/name@REVISION` for a branch, tag or commit; else the branch `main`.

    Raises:
        ImportError: huggingface_hub is not installed.
        ValueError: that is no address of a repository of models.
        FileNotFoundError: there is no such repository or revision, or no agent in it.
        PermissionError: the token (`HF_TOKEN`, or of `hf auth login`) does not open it.
        ConnectionError: the Hub cannot be reached, and the cache does not have it.
    """

    def __init__(self, address: str):
        self._address = address
        self._repository, revision = _parse(address)
        index = self._download(INDEX, revision)
        self.directory = index.parent
        self.commit = self.directory.name

    def fetch(self, files: Iterable[str]) -> None:
        """Have files of the repository in the directory; each is downloaded once.

        Raises:
            FileNotFoundError: the repository does not hold one.
            PermissionError, ConnectionError: as when opening the snapshot.
        """
        for file in files:
            self._download(file, self.commit)

    def _download(self, file: str, revision: str | None) -> Path:
        hub = _library()
        with _explained(self._address, file):
            return Path(hub.hf_hub_download(self._repository, file, revision=revision, **_caller()))


def read_card(address: str) -> str:
    """Return the card of an agent on the Hub, as it stands there; what would move a terminal's cursor is left out.

    Raises:
        ImportError, OSError, ValueError: as when opening a `Snapshot`.
    """
    snapshot = Snapshot(address)
    snapshot.fetch([CARD])
    text = (snapshot.directory / CARD).read_text(encoding="utf-8", errors="replace")
    return "".join(letter for letter in text if letter.isprintable() or letter in "\n\t")


def push(
    address: str,
    name: str,
    index: Mapping[str, Any],
    files: Mapping[str, bytes],
    *,
    private: bool = False,
    revision: str | None = None,
    message: str | None = None,
) -> str:
    """Send an agent to the Hub in one commit; `nmn_keras.zoo.push` checks its files and calls this.

    The token is huggingface_hub's: `HF_TOKEN`, or that of `hf auth login`; it must be allowed to write. A repository or
    branch that is missing is made. The agent that is there already is replaced, with its card; the Hub keeps both in
    the repository's history. Whatever is refused is refused before anything is sent.

    Args:
        address: `hf://user/name`, or `hf://user/name@BRANCH`.
        name: the agent's name in its zoo.
        index: a zoo's index with this agent alone.
        files: the content of its files by name.
        private: make the repository private.
        revision: the branch to commit to, instead of in the address; else `main`.
        message: the commit's first line.

    Returns:
        The commit's URL.

    Raises:
        ImportError: huggingface_hub is not installed.
        ValueError: the address names no repository of models, or a branch twice.
        FileNotFoundError: the agent lacks files, so it was not published by `nmn publish`.
        FileExistsError: the repository holds something else, or is public although `private` was asked for.
        PermissionError: there is no token, or it may not write there.
        ConnectionError: the Hub cannot be reached.
        OSError: the branch moved while this was sent.
    """
    repository, branch = _parse(address)
    if branch and revision:
        raise ValueError(
            "The branch is named twice. Accepted is one, in the address or beside it. "
            f"Received: {address}, {revision!r}"
        )
    branch = branch or revision
    if missing := [file for file in PUBLISHED if file not in files]:
        raise FileNotFoundError(
            f"{name} is not complete. Accepted is an agent as `nmn publish` writes it. Received: one without {missing}"
        )
    content = _layout(f"{PREFIX}{repository}", name, index, files)
    with _explained(address, INDEX):
        return _commit(repository, branch, name, content, private, message or f"Agent {name}")


def _layout(address: str, name: str, index: Mapping[str, Any], files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The repository's files: a zoo of one agent, and the card with the address to load it from."""
    from nmn_keras.card import model_card

    config, scores = json.loads(files["config.json"]), json.loads(files["scores.json"])
    return {
        CARD: model_card(name, config, scores, address).encode(),
        INDEX: (json.dumps(index, indent=1) + "\n").encode(),
        **{f"{name}/{file}": content for file, content in files.items()},
    }


def _commit(
    repository: str, branch: str | None, name: str, content: Mapping[str, bytes], private: bool, message: str
) -> str:
    """Make the repository and branch if they are missing, see what they hold, and send everything as one commit."""
    hub = _library()
    api = hub.HfApi(**_caller())
    if hub.get_token() is None:
        raise PermissionError(
            "There is no token to write to the Hub with. Accepted is one in HF_TOKEN, or that of `hf auth login`. "
            "Received: none"
        )
    api.create_repo(repository, private=private or None, exist_ok=True)
    found = api.model_info(repository)
    if private and not found.private:
        raise FileExistsError(
            f"The repository is public, and pushing does not change that. Accepted is another one, or a public agent; "
            f"make this one private on the Hub first. Received: {PREFIX}{repository}"
        )
    missing = branch is not None and branch not in {ref.name for ref in api.list_repo_refs(repository).branches}
    if branch and not missing:
        found = api.model_info(repository, revision=branch)
    held = {sibling.rfilename for sibling in found.siblings or ()}
    _check_held(f"{PREFIX}{repository}@{found.sha}", held, name)
    if branch and missing:
        api.create_branch(repository, branch=branch)
    stale = [path for path in held if path.startswith(f"{name}/") and path not in content]
    operations = [
        *(hub.CommitOperationAdd(path, data) for path, data in content.items()),
        *(hub.CommitOperationDelete(path) for path in stale),
    ]
    done = api.create_commit(repository, operations, commit_message=message, revision=branch, parent_commit=found.sha)
    return str(done.commit_url)


def _check_held(address: str, held: set[str], name: str) -> None:
    """Refuse to write over anything but that agent."""
    others: list[str] = sorted(held - _FRESH)
    if INDEX in held:
        try:
            others = sorted(json.loads((Snapshot(address).directory / INDEX).read_bytes())["agents"])
        except (ValueError, LookupError, TypeError):
            pass  # an index.json of something else
    if others and others != [name]:
        raise FileExistsError(
            f"The repository holds something else. Accepted is a new one, or one with the agent {name} alone. "
            f"Received: {address} with {', '.join(others[:5])}{', ...' if others[5:] else ''}"
        )


def _library() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise ImportError(
            'Agents on the Hub need huggingface_hub, which is not installed: pip install "nmn_keras[hub]"',
            name="huggingface_hub",
        ) from error
    return huggingface_hub


def _caller() -> dict[str, str]:
    """Who is asking, for the Hub's own counts."""
    from nmn_keras import __version__

    return {"library_name": "nmn_keras", "library_version": __version__}


def _parse(address: str) -> tuple[str, str | None]:
    """Return the repository, `user/name`, and the revision, if any."""
    _library()
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import parse_hf_uri

    reason = ""
    try:
        uri = parse_hf_uri(address)
        if uri.type == "model" and "/" in uri.id and not uri.path_in_repo:
            return uri.id, uri.revision
    except (ValueError, HFValidationError) as error:
        reason = f" ({str(error).splitlines()[0]})"
    raise ValueError(
        "That is no address of an agent on the Hub. Accepted is hf://user/name or hf://user/name@revision. "
        f"Received: {address!r}{reason}"
    )


@contextmanager
def _explained(address: str, file: str) -> Iterator[None]:
    """Say in a sentence what huggingface_hub says in a page."""
    from huggingface_hub import errors

    try:
        yield
    except errors.LocalEntryNotFoundError as error:
        raise ConnectionError(
            f"The Hub does not answer, and {file} is not in the cache. Accepted is a connection, or what was loaded "
            f"before. Received: {address} ({_reason(error.__cause__ or error)})"
        ) from error
    except errors.GatedRepoError as error:
        raise PermissionError(
            "The repository's owner must grant access first. Accepted is the token (HF_TOKEN) of someone who has it. "
            f"Received: {address}"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise FileNotFoundError(
            "There is no such repository on the Hub, or it is private. Accepted is a public one, or one that the token "
            f"(HF_TOKEN, or that of `hf auth login`) opens. Received: {address}"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise FileNotFoundError(
            "The repository has no such revision. Accepted is a branch, a tag or a commit's whole hash. "
            f"Received: {address}"
        ) from error
    except errors.EntryNotFoundError as error:
        raise FileNotFoundError(
            f"The repository holds no agent, or not all of it. Accepted is what `nmn push` sends. "
            f"Received: {address} without {file}"
        ) from error
    except errors.HfHubHTTPError as error:
        raise _refusal(address, error) from error
    except errors.HTTPError as error:  # type: ignore[attr-defined]  # of the library that carries its requests
        raise ConnectionError(
            f"The Hub does not answer. Accepted is a connection to it. Received: {address} ({_reason(error)})"
        ) from error


def _refusal(address: str, error: Any) -> OSError:
    """What an answer's status means."""
    status = error.response.status_code
    if status in (401, 403):
        return PermissionError(
            "The Hub does not allow that. Accepted is a token (HF_TOKEN, or that of `hf auth login`) that is valid and "
            f"may do it; to push it must be allowed to write. Received: {address}, status {status} ({_reason(error)})"
        )
    if status in (409, 412):
        return OSError(
            "The branch moved while this was sent, and nothing was changed. Accepted is another try. "
            f"Received: {address}, status {status} ({_reason(error)})"
        )
    return ConnectionError(
        f"The Hub refused. Accepted is an answer of success. Received: {address}, status {status} ({_reason(error)})"
    )


def _reason(error: BaseException) -> str:
    said = getattr(error, "server_message", None) or str(error).strip() or type(error).__name__
    return said.splitlines()[0]
