"""Where sessions are kept: in this process's memory."""

import heapq
import itertools
import math
import secrets
import time
from collections.abc import Callable, Hashable
from typing import Any

from serve.problems import Problem, expired_session, unknown_session
from serve.sessions import Session


class SessionStore:
    """Sessions in this process's memory, forgotten when idle for too long or too old.

    The server steps in the event loop of one thread and never waits between `get` and `put`: a step costs less than
    handing it to another thread would, and no session can be stepped twice at once.

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
        self._max_sessions = max_sessions
        self._max_age_seconds = max_age_seconds
        self._clock = clock
        self._kept: dict[Hashable, tuple[float, float, Session]] = {}  # born, last used, session
        self._ends: list[tuple[float, int, Hashable]] = []  # a heap: none ends before the time noted for it
        self._count = itertools.count()
        self._expired: dict[Hashable, None] = {}  # the last ones, oldest first

    def __len__(self) -> int:
        self._forget()
        return len(self._kept)

    def add(self, session: Session, key: Hashable = None) -> Any:
        """Keep a new session and return its key.

        Args:
            session: what to keep.
            key: under what; None = an id of 192 random bits that nobody can guess.

        Raises:
            Problem: 503, too many are open; it says when to try again.
        """
        self._forget()
        if len(self._kept) >= self._max_sessions:
            raise self._too_many()
        session_id = secrets.token_urlsafe(24) if key is None else key
        now = self._clock()
        self._kept[session_id] = (now, now, session)
        self._note(session_id)
        return session_id

    def get(self, session_id: Hashable) -> Session:
        """Return a session.

        Raises:
            Problem: 410, it was forgotten; 404, there is none of that id.
        """
        self._forget()
        if session_id in self._kept:
            return self._kept[session_id][2]
        raise expired_session() if session_id in self._expired else unknown_session()

    def put(self, session_id: Hashable, session: Session) -> None:
        """Keep what a session has become."""
        self._kept[session_id] = (self._kept[session_id][0], self._clock(), session)

    def delete(self, session_id: Hashable) -> None:
        """Forget a session.

        Raises:
            Problem: 410, it was forgotten; 404, there is none of that id.
        """
        self.get(session_id)
        del self._kept[session_id]

    def discard(self, session_id: Hashable) -> None:
        """Forget a session if it is there."""
        self._kept.pop(session_id, None)

    def seconds_left(self, session_id: Hashable) -> float:
        """Return how long a session is kept if it is not used."""
        return self._end(session_id) - self._clock()

    def _end(self, session_id: Hashable) -> float:
        born, used, session = self._kept[session_id]
        return min(born + self._max_age_seconds, used + session.ttl_seconds)

    def _forget(self) -> None:
        """Forget the sessions whose time is over: looks at those alone that may have ended."""
        now = self._clock()
        while self._ends and self._ends[0][0] <= now:
            *_, session_id = heapq.heappop(self._ends)
            if session_id not in self._kept:
                continue  # deleted
            if self._end(session_id) > now:  # used meanwhile
                self._note(session_id)
                continue
            del self._kept[session_id]
            self._expired[session_id] = None
            if len(self._expired) > self._max_sessions:
                del self._expired[next(iter(self._expired))]

    def _note(self, session_id: Hashable) -> None:
        # The count keeps the heap from comparing keys of different types.
        heapq.heappush(self._ends, (self._end(session_id), next(self._count), session_id))

    def _too_many(self) -> Problem:
        soonest = min((self._end(session_id) for session_id in self._kept), default=self._clock())
        seconds = max(1, math.ceil(soonest - self._clock()))
        return Problem(
            503,
            "too-many-sessions",
            f"{self._max_sessions} sessions are open, and no more are allowed. Delete one that is done with, or wait "
            f"{seconds} seconds until the next one is forgotten.",
            headers={"Retry-After": str(seconds)},
        )
