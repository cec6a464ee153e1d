"""Request bodies: bounded, JSON, decoded into messages and nothing else."""

from collections.abc import Callable
from typing import TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from serve.problems import Problem

Message = TypeVar("Message")


async def read_message(request: Request, decoder: msgspec.json.Decoder[Message], max_bytes: int) -> Message:
    """Read a request's body as a message; no body at all counts as `{}`.

    Raises:
        Problem: 413 for a body over `max_bytes`, 415 for one that is not declared as JSON, 400 for
            one that is not JSON, 422 for JSON that is another message.
    """
    body = await read_body(request, max_bytes)
    return decode(lambda: decoder.decode(body))


async def read_body(request: Request, max_bytes: int) -> bytes:
    """Read a request's JSON undecoded; no body at all counts as `{}`.

    Raises:
        Problem: 413 for a body over `max_bytes`, 415 for one that is not declared as JSON.
    """
    body = await read_bytes(request, max_bytes)
    if body:
        _check_media_type(request)
    return body or b"{}"


def decode(read: Callable[[], Message]) -> Message:
    """Return what `read` decodes.

    Raises:
        Problem: 400 for what is not JSON, 422 for JSON that is another message.
    """
    try:
        return read()
    except msgspec.ValidationError as error:
        detail, _, path = str(error).partition(" - at `")
        raise Problem(422, "invalid-message", detail, path.rstrip("`") or "$") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Problem(400, "invalid-json", f"The body is not JSON: {error}") from error


async def read_bytes(request: Request, max_bytes: int) -> bytes:
    """Read a request's body whatever it is.

    Raises:
        Problem: 413 for a body over `max_bytes`, 400 for one that breaks off.
    """
    too_large = Problem(413, "body-too-large", f"A body may have at most {max_bytes} bytes.")
    if int(request.headers.get("content-length", 0)) > max_bytes:
        raise too_large
    body = bytearray()
    try:
        async for chunk in request.stream():  # a chunked body announces no length: count it
            body += chunk
            if len(body) > max_bytes:
                raise too_large
    except ClientDisconnect as error:
        raise Problem(400, "incomplete-body", "The connection ended within the body.") from error
    return bytes(body)


def _check_media_type(request: Request) -> None:
    # A page in a browser may post anything but JSON to any address without asking: insisting on
    # the header keeps foreign pages away from a server on localhost.
    received = request.headers.get("content-type", "")
    if received.partition(";")[0].strip().lower() != "application/json":
        raise Problem(
            415,
            "unsupported-media-type",
            "A body must come with the header Content-Type: application/json (curl --json sends "
            f"it). Received: {received!r}",
        )
