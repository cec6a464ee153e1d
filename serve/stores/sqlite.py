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
from serve.stores.base import Change, Claim, Gone, Result, too_many, unavailable

SCHEMA = """
CREATE TABLE IF NOT EXISTS sessions (
    key TEXT PRIMARY KEY,
    turn INTEGER NOT NULL,
    ends REAL NOT NULL,  -- seconds since 1970
    value BLOB           -- NULL once it has expired
);
CREATE INDEX IF NOT EXISTS sessions_end ON sessions (value IS NULL, ends);
CREATE TABLE IF NOT EXISTS claims (key TEXT PRIMARY KEY, ends REAL NOT NULL, request BLOB NOT NULL, made TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS claims_end ON claims (ends);
"""
SCHEMA_VERSION = 1
TOMBSTONE_SECONDS = 86_400.0
"""How long it is remembered that a session has expired."""
BUSY_SECONDS = 5.0
"""How long another process's write is waited for."""
ENCODER = msgspec.msgpack.Encoder()
DECODER = msgspec.msgpack.Decoder(Session)

Found = TypeVar("Found")


DURABILITY = {"process": "NORMAL", "power": "FULL"}
"""What a commit survives, and how SQLite is told. In write-ahead mode NORMAL writes to the log without waiting for the
disk, FULL waits for it at every commit; EXTRA, which concerns other modes' journals, would be the same as FULL."""


class SQLiteStore:
    """Sessions in one table of a file in write-ahead mode.

    With durability "process" a commit is a write to the log without waiting for the disk: it survives the process being
    killed at any moment, but the last ones may be lost with a power failure; the file stays whole. With "power" the
    disk is waited for before anything is answered: as far as the disk keeps what it says it has, nothing is lost.

    Args:
        path: of the file, made if it is not there.
        durability: what an answer survives, "process" or "power".
        max_sessions: how many may be open at once.
        max_age_seconds: how long one is kept at most, however often it is used.

    Raises:
        ValueError: the file cannot be opened as a database.
    """

    def __init__(
        self,
        path: str | Path,
        max_sessions: int = 10_000,
        max_age_seconds: float = 86_400.0,
        durability: str = "process",
    ):
        self.max_sessions = max_sessions
        self.max_age_seconds = max_age_seconds
        self._next_sweep = 0.0
        try:
            # Ids of sessions are secrets: nobody else reads a file that is made here, nor those that SQLite adds to it.
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self._database = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute(f"PRAGMA synchronous = {DURABILITY[durability]}")
            self._database.executescript(SCHEMA)
            self._check_writable()
            if durability == "power":
                _sync(Path(path).absolute().parent)
        except (OSError, sqlite3.Error) as error:
            raise ValueError(f"Cannot keep sessions in {path}: {_reason(error)}.") from error

    def _check_writable(self) -> None:
        """Write something: what cannot be written, or is damaged where it begins, is known before clients come."""
        self._database.execute("BEGIN IMMEDIATE")
        self._sweep()
        self._database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        self._database.execute("COMMIT")

    def clock(self) -> float:
        """Return seconds since 1970, which mean the same to every process."""
        return time.time()

    async def load(self, keys: list[str]) -> list[Session | Gone]:
        """See `Store`."""
        return _reach(lambda: [self._load(key) for key in keys])

    async def claimed(self, key: str) -> Claim | None:
        """See `Store`."""
        return _reach(lambda: self._claimed(key))

    async def save(self, changes: list[Change]) -> list[Result]:
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

    def _claimed(self, key: str) -> Claim | None:
        query = "SELECT key, request, ends, made FROM claims WHERE key = ? AND ends > ?"
        row = self._database.execute(query, (key, self.clock())).fetchone()
        return None if row is None else Claim(*row)

    def _save_all(self, changes: list[Change]) -> list[Result]:
        """Keep all changes in one transaction."""
        self._database.execute("BEGIN IMMEDIATE")
        try:
            self._sweep()
            results = [self._save(change) for change in changes]
            self._database.execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:  # SQLite itself has ended it where the disk is full, say
                self._database.execute("ROLLBACK")
            raise
        return results

    def _save(self, change: Change) -> Result:
        claim = change.claim
        if claim is not None and (first := self._claimed(claim.key)):
            return first
        result = self._take_over(change)
        if claim is not None and result is True:
            values = (claim.key, claim.ends, claim.request, claim.made)
            self._database.execute("INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?)", values)
        return result

    def _take_over(self, change: Change) -> bool | Problem:
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
        if time.monotonic() < self._next_sweep:  # which no clock that is set back can keep waiting
            return
        self._next_sweep = time.monotonic() + 1.0
        now = self.clock()
        self._database.execute("DELETE FROM claims WHERE ends <= ?", (now,))
        self._database.execute("UPDATE sessions SET value = NULL WHERE (value IS NULL) = 0 AND ends <= ?", (now,))
        query = "DELETE FROM sessions WHERE (value IS NULL) = 1 AND ends <= ?"
        self._database.execute(query, (now - TOMBSTONE_SECONDS,))


def _reach(act: Callable[[], Found]) -> Found:
    try:
        return act()
    except sqlite3.Error as error:
        raise unavailable(f"SQLite: {_reason(error)}") from error


REASONS = {
    sqlite3.SQLITE_FULL: "the disk is full; nothing was changed, and it goes on as soon as there is room",
    sqlite3.SQLITE_IOERR: "the disk cannot be written or read",
    sqlite3.SQLITE_READONLY: "the file or its folder cannot be written",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened; its folder must be there and be writable",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; move it away to begin with an empty one, or put a copy in its place",
    sqlite3.SQLITE_NOTADB: "the file is no database of SQLite; choose another name",
}
"""What SQLite's own words leave open."""


def _reason(error: Exception) -> str:
    """What was wrong, in SQLite's words and in ours."""
    code = getattr(error, "sqlite_errorcode", None)
    more = None if code is None else REASONS.get(code & 0xFF)
    return f"{error} ({more})" if more else str(error)


def _sync(directory: Path) -> None:
    """Wait until the disk has the names of the files of a folder, new ones too."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
