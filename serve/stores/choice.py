"""The store that `--store` names."""

from serve.stores.base import Store
from serve.stores.memory import MemoryStore
from serve.stores.sqlite import DURABILITY, SQLiteStore

ACCEPTED = (
    "memory, sqlite:///PATH (sqlite:////PATH from the root), sqlite:///PATH?durability=power, "
    "redis://HOST:PORT/DATABASE, rediss://..."
)


def open_store(name: str, max_sessions: int = 10_000, max_age_seconds: float = 86_400.0) -> Store:
    """Open a store.

    Args:
        name: `memory`, `sqlite:///PATH`, `sqlite:///PATH?durability=power`, `redis://HOST:PORT/DATABASE`, `rediss://...`.
        max_sessions: how many may be open at once.
        max_age_seconds: how long one is kept at most, however often it is used.

    Raises:
        ValueError: there is no such store, or it cannot be opened.
    """
    if name == "memory":
        return MemoryStore(max_sessions, max_age_seconds)
    if name.partition("?")[0] == "sqlite:///:memory:":
        raise ValueError("SQLite keeps sessions in a file here: sqlite:///FILE. In memory: --store memory.")
    if name.startswith("sqlite:///") and len(name) > len("sqlite:///"):
        path, durability = _read_sqlite(name.removeprefix("sqlite:///"))
        return SQLiteStore(path, max_sessions, max_age_seconds, durability)
    if name.startswith(("redis://", "rediss://")):
        try:
            from serve.stores.redis import RedisStore
        except ImportError as error:
            raise ValueError('Sessions on Redis need its client: pip install "nmn_keras[redis]".') from error
        return RedisStore(name, max_sessions, max_age_seconds)
    raise ValueError(f"There is no store {name!r}. Accepted: {ACCEPTED}.")


def _read_sqlite(rest: str) -> tuple[str, str]:
    """The path, and what an answer is to survive."""
    path, question, query = rest.partition("?")
    told = dict.fromkeys(["durability"], "process")
    for parameter in query.split("&") if question else []:
        name, _, value = parameter.partition("=")
        if name not in told or value not in DURABILITY:
            raise ValueError(
                f"SQLite's store takes ?durability={' or ?durability='.join(DURABILITY)} behind its path. "
                f"Received: {parameter!r}"
            )
        told[name] = value
    if not path:
        raise ValueError(f"SQLite keeps sessions in a file: {ACCEPTED}.")
    return path, told["durability"]


def is_shared_by_machines(name: str) -> bool:
    """Return whether processes on any number of machines see the same sessions in that store."""
    return name.startswith(("redis://", "rediss://"))
