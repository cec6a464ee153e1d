"""The store that `--store` names."""

from serve.stores.base import Store
from serve.stores.memory import MemoryStore
from serve.stores.sqlite import SQLiteStore

ACCEPTED = "memory, sqlite:///PATH (sqlite:////PATH from the root), redis://HOST:PORT/DATABASE, rediss://..."


def open_store(name: str, max_sessions: int = 10_000, max_age_seconds: float = 86_400.0) -> Store:
    """Open a store.

    Args:
        name: `memory`, `sqlite:///PATH`, `redis://HOST:PORT/DATABASE`, `rediss://...`.
        max_sessions: how many may be open at once.
        max_age_seconds: how long one is kept at most, however often it is used.

    Raises:
        ValueError: there is no such store, or it cannot be opened.
    """
    if name == "memory":
        return MemoryStore(max_sessions, max_age_seconds)
    if name == "sqlite:///:memory:":
        raise ValueError("SQLite keeps sessions in a file here: sqlite:///FILE. In memory: --store memory.")
    if name.startswith("sqlite:///") and len(name) > len("sqlite:///"):
        return SQLiteStore(name.removeprefix("sqlite:///"), max_sessions, max_age_seconds)
    if name.startswith(("redis://", "rediss://")):
        try:
            from serve.stores.redis import RedisStore
        except ImportError as error:
            raise ValueError('Sessions on Redis need its client: pip install "nmn_keras[redis]".') from error
        return RedisStore(name, max_sessions, max_age_seconds)
    raise ValueError(f"There is no store {name!r}. Accepted: {ACCEPTED}.")


def is_shared_by_machines(name: str) -> bool:
    """Return whether processes on any number of machines see the same sessions in that store."""
    return name.startswith(("redis://", "rediss://"))
