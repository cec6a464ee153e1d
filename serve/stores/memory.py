"""Sessions in this process's memory. They end with the process."""

import heapq
import time
from collections.abc import Callable

from serve.problems import Problem
from serve.sessions import Session
from serve.stores.base import Change, Claim, Gone, Result, too_many


class MemoryStore:
    """Sessions in this process's memory, forgotten when idle for too long or too old.

    Args:
        max_sessions: how many may be open at once.
        max_age_seconds: how long one is kept at most, however often it is used.
        clock: seconds, never going back.
    """

    def __init__(
        self,
        max_sessions: int = 10_000,
        max_age_seconds: float = 86_400.0,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.max_sessions = max_sessions
        self.max_age_seconds = max_age_seconds
        self._clock = clock
        self._kept: dict[str, Session] = {}
        self._ends: list[tuple[float, str]] = []  # a heap: none ends before the time noted for it
        self._claims: dict[str, Claim] = {}  # oldest first
        self._expired: dict[str, None] = {}  # the last ones, oldest first

    def clock(self) -> float:
        """Return seconds that never go back."""
        return self._clock()

    async def load(self, keys: list[str]) -> list[Session | Gone]:
        """See `Store`."""
        self._forget()
        return [self._kept.get(key) or self._missing(key) for key in keys]

    async def claimed(self, key: str) -> Claim | None:
        """See `Store`."""
        now = self._clock()
        while self._claims and (oldest := next(iter(self._claims.values()))).ends <= now:
            del self._claims[oldest.key]
        return self._claims.get(key)

    async def save(self, changes: list[Change]) -> list[Result]:
        """See `Store`."""
        return [self._save(change) for change in changes]

    async def count(self) -> int:
        """See `Store`."""
        self._forget()
        return len(self._kept)

    async def close(self) -> None:
        """See `Store`."""
        self._kept.clear()

    def _missing(self, key: str) -> Gone:
        return Gone.EXPIRED if key in self._expired else Gone.UNKNOWN

    def _save(self, change: Change) -> Result:
        if change.claim is not None and (first := self._claims.get(change.claim.key)):
            return first
        result = self._take_over(change)
        if change.claim is not None and result is True:
            self._claims[change.claim.key] = change.claim
        return result

    def _take_over(self, change: Change) -> bool | Problem:
        kept = self._kept.get(change.key)
        if change.before is not None and (kept is None or kept.turn != change.before.turn):
            return False
        if change.after is None:
            self._kept.pop(change.key, None)
            return True
        if kept is None:
            self._forget()
            if len(self._kept) >= self.max_sessions:
                return too_many(self.max_sessions, self._until_one_ends())
            self._note(change.key, change.after)
        self._kept[change.key] = change.after
        return True

    def _forget(self) -> None:
        """Forget the sessions whose time is over: looks at those alone that may have ended."""
        now = self._clock()
        while self._ends and self._ends[0][0] <= now:
            _, key = heapq.heappop(self._ends)
            session = self._kept.get(key)
            if session is None:
                continue  # deleted
            if session.ends(self.max_age_seconds) > now:  # used meanwhile
                self._note(key, session)
                continue
            del self._kept[key]
            self._expired[key] = None
            if len(self._expired) > self.max_sessions:
                del self._expired[next(iter(self._expired))]

    def _note(self, key: str, session: Session) -> None:
        if len(self._ends) > 2 * len(self._kept) + 64:  # mostly of deleted sessions
            self._ends = [(kept.ends(self.max_age_seconds), name) for name, kept in self._kept.items()]
            heapq.heapify(self._ends)
        heapq.heappush(self._ends, (session.ends(self.max_age_seconds), key))

    def _until_one_ends(self) -> float:
        return min(session.ends(self.max_age_seconds) for session in self._kept.values()) - self._clock()
