"""Sessions in an SQLite file. They outlive the process, killed or not, and several processes may share them."""

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from serve.problems import Problem
from serve.sessions import Session
from serve.stores.base import Change, Gone, too_many, unavailable

SCHEMA = """
CREATE TABLE IF NOT EXISTS sessions (
    key TEXT PRIMARY KEY,
    turn INTEGER NOT NULL,
    ends REAL NOT NULL,  -- seconds since 1970
    value BLOB           -- NULL once it has expired
);
CREATE INDEX IF NOT EXISTS sessions_end ON sessions (value IS NULL, ends);
"""
TOMBSTONE_SECONDS = 86_400.0
"""How long it is remembered that a session has expired."""
BUSY_SECONDS = 5.0
"""How long another process's write is waited for."""
ENCODER = msgspec.msgpack.Encoder()
DECODER = msgspec.msgpack.Decoder(Session)

Result = TypeVar("Result")


class SQLiteStore:
    """Sessions in one table of a file in write-ahead mode.

    A commit is a write to the log without waiting for the disk: it survives the process being killed at any moment, but
    the last ones may be lost with a power failure.

    Args:
        path: of the file, made if it is not there.
        max_sessions: how many may be open at once.
        max_age_seconds: how long one is kept at most, however often it is used.

    Raises:
        ValueError: the file cannot be opened as a database.
    """

    def __init__(self, path: str | Path, max_sessions: int = 10_000, max_age_seconds: float = 86_400.0):
        self.max_sessions = max_sessions
        self.max_age_seconds = max_age_seconds
        try:
            # Ids of sessions are secrets: nobody else reads a file that is made here, nor those that SQLite adds to it.
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self._database = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = NORMAL")
            self._database.executescript(SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise ValueError(f"Cannot keep sessions in {path}: {error}.") from error
        self._next_sweep = 0.0

    def clock(self) -> float:
        """Return seconds since 1970, which mean the same to every process."""
        return time.time()

    async def load(self, keys: list[str]) -> list[Session | Gone]:
        """See `Store`."""
        return _reach(lambda: [self._load(key) for key in keys])

    async def save(self, changes: list[Change]) -> list[bool | Problem]:
        """See `Store`."""
        return _reach(lambda: self._save_all(changes))

    async def count(self) -> int:
        """See `Store`."""
        return _reach(self._count)

    async def close(self) -> None:
        """See `Store`."""
        self._database.close()

    def _load(self, key: str) -> Session | Gone:
        row = self._database.execute("SELECT ends, value FROM sessions WHERE key = ?", (key,)).fetchone()
        if row is None:
            return Gone.UNKNOWN
        ends, value = row
        return Gone.EXPIRED if value is None or ends <= self.clock() else DECODER.decode(value)

    def _save_all(self, changes: list[Change]) -> list[bool | Problem]:
        """Keep all changes in one transaction."""
        self._database.execute("BEGIN IMMEDIATE")
        try:
            self._sweep()
            results = [self._save(change) for change in changes]
            self._database.execute("COMMIT")
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        return results

    def _save(self, change: Change) -> bool | Problem:
        after = change.after
        if change.before is None:
            return self._put(change.key, after)
        if after is None:
            query = "DELETE FROM sessions WHERE key = ? AND turn = ? AND value IS NOT NULL"
            return self._database.execute(query, (change.key, change.before.turn)).rowcount == 1
        query = "UPDATE sessions SET turn = ?, ends = ?, value = ? WHERE key = ? AND turn = ? AND value IS NOT NULL"
        values = (after.turn, after.ends(self.max_age_seconds), ENCODER.encode(after), change.key, change.before.turn)
        return self._database.execute(query, values).rowcount == 1

    def _put(self, key: str, session: Session | None) -> bool | Problem:
        """Take a key, whatever is there."""
        self._database.execute("DELETE FROM sessions WHERE key = ?", (key,))
        if session is None:
            return True
        if self._count() >= self.max_sessions:
            soonest = self._database.execute("SELECT min(ends) FROM sessions WHERE value IS NOT NULL").fetchone()[0]
            return too_many(self.max_sessions, soonest - self.clock())
        values = (key, session.turn, session.ends(self.max_age_seconds), ENCODER.encode(session))
        self._database.execute("INSERT INTO sessions VALUES (?, ?, ?, ?)", values)
        return True

    def _count(self) -> int:
        query = "SELECT count(*) FROM sessions WHERE (value IS NULL) = 0 AND ends > ?"
        return self._database.execute(query, (self.clock(),)).fetchone()[0]

    def _sweep(self) -> None:
        """Now and then, empty what has expired and drop what expired long ago."""
        now = self.clock()
        if now < self._next_sweep:
            return
        self._next_sweep = now + 1.0
        self._database.execute("UPDATE sessions SET value = NULL WHERE (value IS NULL) = 0 AND ends <= ?", (now,))
        query = "DELETE FROM sessions WHERE (value IS NULL) = 1 AND ends <= ?"
        self._database.execute(query, (now - TOMBSTONE_SECONDS,))


def _reach(act: Callable[[], Result]) -> Result:
    try:
        return act()
    except sqlite3.Error as error:
        raise unavailable(f"SQLite: {error}") from error
