"""Compressed bodies: requests unpacked within the limit of their size, answers packed for those who ask."""

import gzip
import re
import zlib

from serve.problems import Problem

TAKEN = "gzip, deflate"
WINDOW = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""What zlib is told: gzip's frame, or zlib's own, which is what HTTP calls deflate."""
SMALLEST = 1024
"""Bytes of an answer from which packing is worth it."""


def unpack(body: bytes, encoding: str, max_bytes: int) -> bytes:
    """Return a request's body as it was before it was packed.

    Args:
        body: as it was sent.
        encoding: its Content-Encoding.
        max_bytes: that it may have; no more than these are ever unpacked.

    Raises:
        Problem: 415, it is packed in a way that is not taken; 413, it is larger; 400, it is damaged.
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return body
    if encoding not in WINDOW:
        raise Problem(
            415,
            "unsupported-encoding",
            f"A body may be packed with Content-Encoding: {TAKEN.replace(', ', ' or ')}, once, or sent as it is. "
            f"Received: {encoding[:100]!r}",
            headers={"Accept-Encoding": TAKEN},
        )
    try:
        return _unpack(body, WINDOW[encoding], max_bytes)
    except zlib.error as error:
        raise _damaged(encoding, str(error)) from error
    except EOFError as error:
        raise _damaged(encoding, "it breaks off") from error


def _unpack(body: bytes, window: int, max_bytes: int) -> bytes:
    """Unpack one part after the other: a gzip file may have several."""
    whole = b""
    while body or not whole:
        part = zlib.decompressobj(window)
        whole += part.decompress(body, max_bytes + 1 - len(whole))
        if len(whole) > max_bytes:
            raise Problem(413, "body-too-large", f"A body may have at most {max_bytes} bytes, unpacked.")
        if not part.eof:
            raise EOFError
        body = part.unused_data
    return whole


def _damaged(encoding: str, reason: str) -> Problem:
    return Problem(400, "invalid-encoding", f"The body is not what its Content-Encoding {encoding} says: {reason}.")


def pack(body: bytes, accepted: str) -> tuple[bytes, dict[str, str]]:
    """Return an answer's body, packed if its client accepts that and it gets smaller, and the headers that say so.

    Args:
        body: as it is.
        accepted: the request's Accept-Encoding.
    """
    chosen = _choose(accepted) if len(body) >= SMALLEST else ""
    if chosen:
        packed = gzip.compress(body, 1, mtime=0) if chosen == "gzip" else zlib.compress(body, 1)
        if len(packed) < len(body):
            return packed, {"Content-Encoding": chosen, "Vary": "Accept-Encoding"}
    return body, {"Vary": "Accept-Encoding"}


def _choose(accepted: str) -> str:
    """The first of ours that is accepted at all; "" for none."""
    named = [part.partition(";") for part in accepted.lower().split(",")]
    weights = {name.strip(): not re.fullmatch(r"\s*q\s*=\s*0(\.0*)?\s*", weight) for name, _, weight in named}
    return next((name for name in ("gzip", "deflate") if weights.get(name)), "")
