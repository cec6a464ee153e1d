"""Requests that are safe to repeat: the header `Idempotency-Key`, as draft-ietf-httpapi-idempotency-key-header has it.

What a request makes and the claim that its key lays to it are kept in one change of the store. So there is no moment at
which a server could be killed and leave one without the other, and of two servers that get the same request at the same
moment one finds the other's claim.
"""

import hashlib
import re
from collections.abc import Awaitable, Callable
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request

from serve.problems import Problem
from serve.stores import Claim, Claimed, Store

HEADER = "idempotency-key"
KEEP_SECONDS = 600.0
"""How long a key is remembered."""
LONGEST = 255
"""Characters of a key."""
# A string of RFC 9651 (structured fields), with parameters, which mean nothing here.
STRING = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)" *(?:;[^"]*)?')
DESCRIPTION = (
    f'A string in quotes, up to {LONGEST} characters, as "8e03978e-40d5-43dd-bc93-6894a57f9324". For '
    f"{KEEP_SECONDS:.0f} seconds the same request with the same key makes nothing new, and answers the same session."
)

Made = TypeVar("Made")


class Idempotency:
    """Carries requests out once for each key.

    Args:
        store: where claims are kept, beside what they lay claim to.
    """

    def __init__(self, store: Store):
        self._store = store
        self._in_progress: set[str] = set()

    async def once(
        self,
        request: Request,
        message: Any,
        make: Callable[[Claim | None], Awaitable[Made]],
        find: Callable[[str], Awaitable[Made]],
    ) -> Made:
        """Make something, or find what the same request made before.

        Args:
            request: with or without a key.
            message: its body.
            make: is given the claim to keep with what it makes; None without a key.
            find: is given the id that the claim was laid to.

        Raises:
            Problem: 400, the key is none; 409, the first request with it is in progress; 422, it was another request.
        """
        key = read_key(request)
        if key is None:
            return await make(None)
        claim = Claim(
            hashlib.sha256(msgspec.msgpack.encode((request.scope["owner"], key))).hexdigest(),
            hashlib.sha256(
                msgspec.msgpack.encode((request.method, sorted(request.path_params.items()), message))
            ).digest(),
            ends=self._store.clock() + KEEP_SECONDS,
        )
        with self._alone(claim.key):
            first = await self._store.claimed(claim.key)
            if first is None:
                try:
                    return await make(claim)
                except Claimed as other:  # another server was quicker, or this one is told so by a store asked twice
                    first = other.claim
            if first.request != claim.request:
                raise _another_request()
            return await find(first.made)

    @contextmanager
    def _alone(self, key: str):
        if key in self._in_progress:
            raise Problem(
                409,
                "request-in-progress",
                "A request with the same Idempotency-Key is being carried out. Send it again for its answer.",
                retry_after=1,
            )
        self._in_progress.add(key)
        try:
            yield
        finally:
            self._in_progress.discard(key)


def read_key(request: Request) -> str | None:
    """Return the key that a request bears, if it bears any.

    Raises:
        Problem: 400, it is not what the header takes.
    """
    lines = request.headers.getlist(HEADER)
    if not lines:
        return None
    found = STRING.fullmatch(lines[0].strip()) if len(lines) == 1 else None
    key = re.sub(r"\\(.)", r"\1", found[1]) if found else ""
    if not 1 <= len(key) <= LONGEST:
        raise Problem(
            400,
            "invalid-idempotency-key",
            f"Idempotency-Key takes one string of 1 to {LONGEST} characters in quotes, as "
            f'"8e03978e-40d5-43dd-bc93-6894a57f9324". Received: {", ".join(lines)[:300]!r}',
        )
    return key


def _another_request() -> Problem:
    return Problem(
        422,
        "idempotency-key-reused",
        "The Idempotency-Key came before with another request. A request that is repeated repeats its address and its "
        "body too; another request needs another key.",
    )
