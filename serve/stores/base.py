"""What every store does."""

import math
from enum import Enum
from typing import Protocol

import msgspec

from serve.problems import Problem
from serve.sessions import Session

LONGEST_WAIT = 60
"""Seconds after which asking for a session again is worth it: others may delete theirs at any time."""


class Gone(Enum):
    """Why a session is not there."""

    EXPIRED = "expired"
    UNKNOWN = "unknown"


class Claim(msgspec.Struct, frozen=True):
    """What a request that may be repeated has made.

    `key`: of the request and of who sent it. `request`: digest of the request. `ends`: when it is forgotten, in seconds
    of the store's clock. `made`: the id of what was made.
    """

    key: str
    request: bytes
    ends: float
    made: str = ""


class Claimed(Exception):
    """A change was not kept, as its claim is another's.

    Attributes:
        claim: which is there.
    """

    def __init__(self, claim: Claim):
        super().__init__(claim)
        self.claim = claim


class Change(msgspec.Struct, gc=False):
    """What one session has become.

    `before`: what it was when it was loaded; None where the key is taken whatever is there. `after`: None to forget it.
    `claim`: kept with it; the change is made only if there is no claim of that key yet.
    """

    key: str
    before: Session | None
    after: Session | None
    claim: Claim | None = None


Result = bool | Problem | Claim
"""What became of a change, see `Store.save`."""


class Store(Protocol):
    """Sessions by key.

    A change is kept only if the session still is what it was when it was loaded (its `turn` is compared), so that two
    processes that share a store never take a step twice, nor lose one. Many sessions are loaded and saved at once.

    Attributes:
        max_sessions: how many may be open at once.
        max_age_seconds: how long one is kept at most, however often it is used.
    """

    max_sessions: int
    max_age_seconds: float

    def clock(self) -> float:
        """Return the time in seconds, from any fixed moment on."""

    async def load(self, keys: list[str]) -> list[Session | Gone]:
        """Return the sessions of different keys, in their order.

        Raises:
            Problem: 503, the store cannot be reached.
        """

    async def claimed(self, key: str) -> Claim | None:
        """Return the claim of that key, if there is any.

        Raises:
            Problem: 503, the store cannot be reached.
        """

    async def save(self, changes: list[Change]) -> list[Result]:
        """Keep changes of different keys.

        Returns:
            In their order: True, kept; False, the session has changed or gone since it was loaded; a problem (503), too
            many are open; a claim, which was there before.

        Raises:
            Problem: 503, the store cannot be reached.
        """

    async def count(self) -> int:
        """Return how many sessions are open."""

    async def close(self) -> None:
        """Let go of files and connections; sessions that outlive the process stay."""


def too_many(max_sessions: int, seconds: float) -> Problem:
    """503: as many sessions are open as may be; the next one is forgotten in so many seconds, if it is not used."""
    wait = min(max(1, math.ceil(seconds)), LONGEST_WAIT)
    return Problem(
        503,
        "too-many-sessions",
        f"{max_sessions} sessions are open, and no more are allowed. Delete one that is done with; the next one is "
        f"forgotten in {math.ceil(seconds)} seconds if it is not used.",
        retry_after=wait,
    )


def unavailable(what: str) -> Problem:
    """503: the store does not answer."""
    return Problem(
        503,
        "store-unavailable",
        f"The store of sessions cannot be reached ({what}). Send the request again; a step with its number is not "
        "taken twice.",
        retry_after=1,
    )
