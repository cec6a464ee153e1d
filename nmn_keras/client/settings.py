"""What a client is told when it is made, checked before anything is sent."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from nmn_keras.client.step import INCLUDABLE

TRANSPORTS = ("http", "websocket")
DEFAULT_AGENT = "b3-nmn"
DEFAULT_OPENING: dict[str, Any] = {"batch": 1, "deterministic": True, "seed": None, "ttl_seconds": None}


@dataclass(frozen=True)
class Reach:
    """How to reach the server, for a client and its forks alike."""

    url: str
    transport: str
    api_key: str | None
    include: tuple[str, ...]
    timeout: float
    retries: int

    def __post_init__(self) -> None:
        if not _is_address(self.url):
            raise ValueError(f"`url` must look like http://127.0.0.1:8000. Received: {self.url!r}")
        if self.api_key is not None and not re.fullmatch(r"[!-~]+", self.api_key):  # it is not shown: a secret
            raise ValueError("`api_key` must be visible ASCII characters, without spaces or an end of line.")
        if self.transport not in TRANSPORTS:
            raise ValueError(f"Unknown transport. Accepted: {', '.join(TRANSPORTS)}. Received: {self.transport!r}")
        if unknown := [name for name in self.include if name not in INCLUDABLE]:
            raise ValueError(f"Unknown output. `include` takes {', '.join(INCLUDABLE)}. Received: {', '.join(unknown)}")
        if not self.timeout > 0:
            raise ValueError(f"`timeout` must be a positive number of seconds. Received: {self.timeout!r}")
        if not isinstance(self.retries, int) or self.retries < 0:
            raise ValueError(f"`retries` must be a whole number from 0. Received: {self.retries!r}")

    @property
    def headers(self) -> dict[str, str]:
        """Of every request and handshake."""
        return {} if self.api_key is None else {"Authorization": f"Bearer {self.api_key}"}


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none, brackets that do not close
        return False


def names(include: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of further outputs, of which one may be given alone."""
    return (include,) if isinstance(include, str) else tuple(include)


def check_resumed(opening: dict[str, Any]) -> None:
    """Refuse settings of a new session for one that is already open."""
    if changed := [name for name, value in opening.items() if value != DEFAULT_OPENING[name]]:
        raise ValueError(
            f"A session that is resumed keeps its own settings; {', '.join(DEFAULT_OPENING)} are those of a new one. "
            f"Received with `session`: {', '.join(f'{name}={opening[name]!r}' for name in changed)}"
        )
