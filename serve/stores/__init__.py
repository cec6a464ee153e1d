"""Where sessions are kept: in memory, in an SQLite file, or on a Redis server."""

from serve.stores.base import Change, Claim, Claimed, Gone, Store
from serve.stores.choice import open_store

__all__ = ["Change", "Claim", "Claimed", "Gone", "Store", "open_store"]
