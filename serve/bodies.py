"""Request bodies: bounded, JSON, decoded into messages and nothing else."""

from typing import TypeVar

import msgspec
from starlette.requests import Request

from serve.compression import unpack
from serve.problems import Problem

Message = TypeVar("Message")


async def read_message(request: Request, decoder: msgspec.json.Decoder[Message], max_bytes: int) -> Message:
    """Read a request's body as a message; no body at all counts as `{}`.

    Raises:
        Problem: 413 for a body over `max_bytes`, 415 for one that is not declared as JSON, 400 for
            one that is not JSON, 422 for JSON that is another message.
    """
    body = await read_body(request, max_bytes)
    return decode(decoder, body)


async def read_body(request: Request, max_bytes: int) -> bytes:
    """Read a request's JSON undecoded; no body at all counts as `{}`.

    Raises:
        Problem: 413 for a body over `max_bytes`, 415 for one that is not declared as JSON.
    """
    body = await read_bytes(request, max_bytes)
    if not body:
        return b"{}"
    media_type = _header(request, b"content-type")
    # A page in a browser may post anything but JSON to any address without asking: insisting on
    # the header keeps foreign pages away, were one not to say its origin.
    if media_type != b"application/json" and media_type.partition(b";")[0].strip().lower() != b"application/json":
        raise Problem(
            415,
            "unsupported-media-type",
            "A body must come with the header Content-Type: application/json (curl --json sends "
            f"it). Received: {media_type.decode('latin-1')!r}",
        )
    return body


def decode(decoder: msgspec.json.Decoder[Message], body: bytes) -> Message:
    """Return the message of a body.

    Raises:
        Problem: 400 for what is not JSON, 422 for JSON that is another message.
    """
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise invalid_message(error) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, "invalid-json", f"The body is not JSON: {error}") from error


def invalid_message(error: msgspec.ValidationError) -> Problem:
    """422, with the JSON path of the member at fault."""
    detail, _, path = str(error).partition(" - at `")
    return Problem(422, "invalid-message", detail, path.rstrip("`") or "$")


async def read_bytes(request: Request, max_bytes: int) -> bytes:
    """Read a request's body whatever it is, unpacked.

    Raises:
        Problem: 413 for a body over `max_bytes`, packed or unpacked, 400 for one that breaks off or is damaged, 415 for
            one that is packed in a way that is not taken.
    """
    if int(_header(request, b"content-length") or 0) > max_bytes:
        raise too_large(max_bytes)
    body, more = b"", True
    chunks = bytearray()
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise Problem(400, "incomplete-body", "The connection ended within the body.")
        body, more = message.get("body", b""), message.get("more_body", False)
        if more or chunks:
            chunks += body
        if len(chunks) > max_bytes:  # a chunked body announces no length
            raise too_large(max_bytes)
    whole = bytes(chunks) if chunks else body
    encoding = _header(request, b"content-encoding")
    return unpack(whole, encoding.decode("latin-1"), max_bytes) if encoding else whole


def too_large(max_bytes: int) -> Problem:
    """413: a body, or a message of a stream, has more bytes than may be."""
    return Problem(413, "body-too-large", f"A body may have at most {max_bytes} bytes.")


def _header(request: Request, name: bytes) -> bytes:
    """A header as it was sent: on the way of every step, looking it up in a `Headers` would cost more than the rest."""
    for key, value in request.scope["headers"]:
        if key == name:
            return value
    return b""
