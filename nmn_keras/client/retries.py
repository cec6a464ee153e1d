"""Requests that are made again until the server has answered for good."""

import json
import random
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from nmn_keras.client.errors import NoAnswer, ServerError, server_error
from nmn_keras.client.wire import Http, Reply

FIRST_DELAY, LARGEST_DELAY = 0.2, 5.0
"""Seconds before the first repetition, and before any."""
LONGEST_WAIT = 30.0
"""Seconds: a server that asks for more (until a session expires, say) is not waited for."""
PASSING = (502, 503, 504)
"""Statuses that may be others a moment later."""


def delays(retries: int) -> Iterator[float]:
    """Yield the seconds to wait before each repetition: doubling, each shortened by up to a half at random.

    At random, so that clients that lost their server together do not come back together.
    """
    for number in range(retries):
        yield min(LARGEST_DELAY, FIRST_DELAY * 2**number) * random.uniform(0.5, 1.0)


async def answered(attempt: Callable[[], Awaitable[Reply]], http: Http, retries: int) -> Any:
    """Return the JSON of the answer to `attempt`.

    Args:
        attempt: sends the request, which may be acted upon twice or bears a key or a number against that.
        http: its `sleep` is used.
        retries: how often it is sent again at most.

    Raises:
        NoAnswer: none came, however often it was tried.
        ServerError: the server refused.
    """
    waits = delays(retries)
    while True:
        failure: NoAnswer | ServerError
        try:
            reply = await attempt()
            if reply.status < 300:
                return _decode(reply)
            failure = server_error(reply)
            # A 500 that is no problem of our server is a proxy's: Ray Serve's says so where a replica was killed.
            again = reply.status in PASSING or (reply.status == 500 and not failure.type) or _in_progress(failure)
        except NoAnswer as error:
            failure, again = error, True
        wait = next(waits, None)
        asked = getattr(failure, "retry_after", None) or 0.0
        if not again or wait is None or asked > LONGEST_WAIT:
            raise failure
        await http.sleep(max(wait, asked))


def _in_progress(failure: ServerError) -> bool:
    """Whether the server is still busy with the same request, whose answer we did not wait for."""
    return failure.status == 409 and failure.type.endswith(":request-in-progress")


def _decode(reply: Reply) -> Any:
    try:
        return json.loads(reply.body) if reply.body else {}
    except ValueError as error:
        text = reply.body.decode(errors="replace").strip()[:200]
        raise ServerError(reply.status, "", f"The answer is no JSON: {text!r}. Is it nmn_keras that serves?") from error
