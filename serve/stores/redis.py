"""Sessions on a Redis server. They outlive every server process, and servers on several machines may share them."""

import time

import msgspec
from redis import RedisError
from redis.asyncio import Redis

from serve.sessions import Session
from serve.stores.base import Change, Claim, Gone, Result, too_many, unavailable

# One hash tag: all keys are on one node of a cluster, as a script needs.
PREFIX = "{nmn}:"
OPEN = PREFIX + "open"
"""A sorted set of the open sessions' keys by when they end."""
TOMBSTONE_SECONDS = 86_400
"""How long it is remembered that a session has expired."""
SECONDS = 5.0
"""How long the server is waited for."""
ENCODER = msgspec.msgpack.Encoder()
DECODER = msgspec.msgpack.Decoder(Session)
CLAIM = msgspec.msgpack.Decoder(Claim)

# KEYS: session, tombstone, open, claim. ARGV: turn it must have ("" for any), new turn ("" to forget it), value, when
# it ends (ms), now (ms), most sessions, how long the tombstone stays (ms), most age (ms),
# claim ("" for none), when it ends (ms).
# Answers 1 kept, 0 changed or gone, -ms until the next one ends where too many are open, or the claim
# that was there before.
SAVE = """
if ARGV[9] ~= '' then
  local first = redis.call('GET', KEYS[4])
  if first then return first end
end
local turn = redis.call('HGET', KEYS[1], 't')
if ARGV[1] ~= '' and turn ~= ARGV[1] then return 0 end
if ARGV[2] == '' then
  redis.call('DEL', KEYS[1], KEYS[2])
  redis.call('ZREM', KEYS[3], KEYS[1])
  return 1
end
if not turn then
  redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', ARGV[5])
  if redis.call('ZCARD', KEYS[3]) >= tonumber(ARGV[6]) then
    local first = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')
    return -math.max(1, tonumber(first[2]) - tonumber(ARGV[5]))
  end
  redis.call('SET', KEYS[2], '', 'PXAT', tonumber(ARGV[5]) + tonumber(ARGV[8]) + tonumber(ARGV[7]))
end
redis.call('HSET', KEYS[1], 't', ARGV[2], 'v', ARGV[3])
redis.call('PEXPIREAT', KEYS[1], ARGV[4])
redis.call('ZADD', KEYS[3], ARGV[4], KEYS[1])
if ARGV[9] ~= '' then redis.call('SET', KEYS[4], ARGV[9], 'PXAT', ARGV[10]) end
return 1
"""


class RedisStore:
    """Sessions as hashes that Redis itself forgets; a change is one script, which nothing can come between.

    Args:
        url: `redis://[user:password@]host[:port][/database]`, or `rediss://` with TLS.
        max_sessions: how many may be open at once, over all servers.
        max_age_seconds: how long one is kept at most, however often it is used.
    """

    def __init__(self, url: str, max_sessions: int = 10_000, max_age_seconds: float = 86_400.0):
        self.max_sessions = max_sessions
        self.max_age_seconds = max_age_seconds
        self._redis = Redis.from_url(url, socket_timeout=SECONDS, socket_connect_timeout=SECONDS)
        self._save = self._redis.register_script(SAVE)

    def clock(self) -> float:
        """Return seconds since 1970, which mean the same to every server whose clock is right."""
        return time.time()

    async def load(self, keys: list[str]) -> list[Session | Gone]:
        """See `Store`."""
        async with self._redis.pipeline(transaction=False) as pipeline:
            for key in keys:
                pipeline.hget(PREFIX + key, "v")
            values = await _reach(pipeline.execute())
        return [
            await self._missing(key) if v is None else DECODER.decode(v) for key, v in zip(keys, values, strict=True)
        ]

    async def claimed(self, key: str) -> Claim | None:
        """See `Store`."""
        value = await _reach(self._redis.get(_claim(key)))
        return None if value is None else CLAIM.decode(value)

    async def save(self, changes: list[Change]) -> list[Result]:
        """See `Store`."""
        async with self._redis.pipeline(transaction=False) as pipeline:
            for change in changes:
                await self._save(*self._arguments(change), client=pipeline)
            kept = await _reach(pipeline.execute())
        return [self._result(answer) for answer in kept]

    def _result(self, answer: int | bytes) -> Result:
        if isinstance(answer, bytes):
            return CLAIM.decode(answer)
        return too_many(self.max_sessions, -answer / 1000) if answer < 0 else answer == 1

    async def count(self) -> int:
        """See `Store`."""
        return await _reach(self._redis.zcount(OPEN, self.clock() * 1000, "+inf"))

    async def close(self) -> None:
        """See `Store`."""
        await self._redis.aclose()

    async def _missing(self, key: str) -> Gone:
        return Gone.EXPIRED if await _reach(self._redis.exists(_tombstone(key))) else Gone.UNKNOWN

    def _arguments(self, change: Change) -> tuple[list[str], list]:
        after, claim = change.after, change.claim
        ends = 0.0 if after is None else after.ends(self.max_age_seconds)
        return [PREFIX + change.key, _tombstone(change.key), OPEN, _claim("" if claim is None else claim.key)], [
            "" if change.before is None else change.before.turn,
            "" if after is None else after.turn,
            b"" if after is None else ENCODER.encode(after),
            int(ends * 1000),
            int(self.clock() * 1000),
            self.max_sessions,
            TOMBSTONE_SECONDS * 1000,
            int(self.max_age_seconds * 1000),
            b"" if claim is None else ENCODER.encode(claim),
            0 if claim is None else int(claim.ends * 1000),
        ]


def _tombstone(key: str) -> str:
    return f"{PREFIX}had:{key}"


def _claim(key: str) -> str:
    return f"{PREFIX}claim:{key}"


async def _reach(answer):
    try:
        return await answer
    except (RedisError, OSError) as error:
        raise unavailable(f"Redis: {type(error).__name__}") from error
