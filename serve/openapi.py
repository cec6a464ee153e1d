"""The OpenAPI document, made of the operations and of the messages they take and give."""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from types import UnionType
from typing import Any, get_args

import msgspec

from nmn_keras import __version__
from serve.operations import Operation
from serve.problems import Problem

DESCRIPTION = """Neuromodulated recurrent agents, stepped online: a session holds an agent's memory between two steps.

Steps of one session are taken one at a time, whoever sends them. A request that is refused changes nothing.

Beside these operations there is a WebSocket, one message per step, which OpenAPI cannot describe: see
[stream](/docs#stream)."""

PARAMETERS = {
    "agent": "Name of a served agent.",
    "file": "Name of one of its published files.",
    "model": "Name of a served agent.",
    "session": "Id of a session, as it was answered when the session was opened. It is a secret.",
    "version": "Version of the agent within this server; there is one.",
}
REASONS = {
    400: "The body cannot be read.",
    401: "No known API key came with the request.",
    403: "A page of another origin sent the request.",
    404: "There is no such agent, session or file.",
    409: "It does not fit the session as it is now.",
    410: "The session has expired.",
    413: "The body is too large.",
    415: "The body's media type or encoding is not taken.",
    422: "The body is JSON, but cannot be used.",
    503: "Not now: too many sessions are open, their store cannot be reached, or the server is starting or stopping.",
}
HEADERS = {
    201: {"Location": "Path of the session."},
    401: {"WWW-Authenticate": "Bearer"},
    503: {"Retry-After": "Seconds to wait."},
}
KEY = "key"
"""Name of the security scheme."""


class Group(msgspec.Struct, frozen=True):
    """Operations that belong together."""

    name: str
    description: str
    operations: Sequence[Operation] = ()


class Schemas:
    """JSON Schemas of messages; those with a name are components of the document."""

    def __init__(self, messages: Iterable[Any]):
        every = list(dict.fromkeys(messages))
        schemas, self.components = msgspec.json.schema_components(every, ref_template="#/components/schemas/{name}")
        self._of = dict(zip(every, schemas, strict=True))
        for component in self.components.values():
            component["description"] = inspect.cleandoc(component.get("description", ""))

    def of(self, message: Any) -> dict[str, Any]:
        """Return the schema of a message, or of one of several messages."""
        options = [self._of[option] for option in _options(message)]
        return options[0] if len(options) == 1 else {"anyOf": options}


def describe(groups: Sequence[Group], examples: Mapping[str, str], *, keyed: bool) -> dict[str, Any]:
    """Return the OpenAPI document, version 3.1.

    Args:
        groups: everything that can be asked.
        examples: values of path parameters.
        keyed: whether operations need an API key.
    """
    operations = [operation for group in groups for operation in group.operations]
    schemas = Schemas(message for operation in operations for message in _messages(operation))
    paths: dict[str, dict[str, Any]] = {}
    for group in groups:
        for operation in group.operations:
            described = _describe(operation, schemas, examples, keyed and not operation.public)
            paths.setdefault(operation.path, {})[operation.method.lower()] = {"tags": [group.name], **described}
    scheme = {"type": "http", "scheme": "bearer", "description": "An API key of this server, if it needs any."}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "nmn_keras",
            "version": __version__,
            "summary": "Recurrent agents with their memory, over HTTP.",
            "description": DESCRIPTION,
            "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": group.name, "description": inspect.cleandoc(group.description)} for group in groups],
        "paths": paths,
        "components": {"schemas": schemas.components, "securitySchemes": {KEY: scheme}},
    }


def _options(message: Any) -> tuple[Any, ...]:
    return get_args(message) if isinstance(message, UnionType) else (message,)


def _messages(operation: Operation) -> list[Any]:
    """Every message of an operation, and the types of its parameters."""
    found = [operation.body, operation.answer, operation.failure]
    named = [option for message in found if message is not None for option in _options(message)]
    return [*named, *operation.query.values(), *operation.headers.values()]


def _describe(operation: Operation, schemas: Schemas, examples: Mapping[str, str], locked: bool) -> dict[str, Any]:
    summary, _, description = (inspect.getdoc(operation.handler) or "").partition("\n\n")
    described: dict[str, Any] = {
        "operationId": operation_id(operation),
        "summary": " ".join(summary.split()).removesuffix("."),
    }
    if description:
        described["description"] = description
    if parameters := _parameters(operation, schemas, examples):
        described["parameters"] = parameters
    if operation.body is not None:
        described["requestBody"] = _body(operation, schemas)
    described["responses"] = {
        str(operation.status): _answer(operation, schemas),
        **{str(status): _failure(status, operation, schemas) for status in _refusals(operation, locked)},
    }
    if locked:
        described["security"] = [{KEY: []}]
    return described


def operation_id(operation: Operation) -> str:
    """Return the name of the handler; a path with a version in it has a handler in common with one without."""
    name: str = getattr(operation.handler, "__name__", "")
    return f"{name}_version" if "{version}" in operation.path else name


def _parameters(operation: Operation, schemas: Schemas, examples: Mapping[str, str]) -> list[dict[str, Any]]:
    named = [part.strip("{}") for part in operation.path.split("/") if part.startswith("{")]
    path = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": PARAMETERS[name],
            "schema": {"type": "string"},
            **({"example": examples[name]} if name in examples else {}),
        }
        for name in named
    ]
    query = [_parameter("query", name, schemas.of(kind)) for name, kind in operation.query.items()]
    headers = [_parameter("header", name, schemas.of(kind)) for name, kind in operation.headers.items()]
    return [*path, *query, *headers]


def _parameter(place: str, name: str, schema: dict[str, Any]) -> dict[str, Any]:
    schema = dict(schema)
    described = {"name": name, "in": place, "description": schema.pop("description"), "schema": schema}
    # Values of a list are separated by commas; the default would be a parameter for each.
    return {**described, "explode": False} if schema.get("type") == "array" else described


def _body(operation: Operation, schemas: Schemas) -> dict[str, Any]:
    content = _content(operation.takes, schemas.of(operation.body))
    if operation.example is not None:
        content["application/json"]["example"] = operation.example
    members = [field for option in _options(operation.body) for field in msgspec.structs.fields(option)]
    return {"required": any(field.required for field in members), "content": content}


def _content(media_types: Sequence[str], schema: dict[str, Any]) -> dict[str, Any]:
    """Content of these media types, of which OpenAPI 3.1 can say of binary ones only that there are such."""
    return {name: {} if name == "application/octet-stream" else {"schema": schema} for name in media_types}


def _answer(operation: Operation, schemas: Schemas) -> dict[str, Any]:
    answer = _response(operation.status, HTTPStatus(operation.status).phrase)
    if operation.answer is not None:
        answer["content"] = _content(operation.gives, schemas.of(operation.answer))
    return answer


def _refusals(operation: Operation, locked: bool) -> list[int]:
    """Statuses of an operation's problems, in the form of its protocol."""
    of_body = (400, 413, 415, 422) if operation.body is not None else ()
    of_query = (422,) if operation.query else ()
    of_page = () if operation.method == "GET" else (403,)
    statuses = {*operation.refusals, *of_body, *of_query, *of_page, *((401,) if locked else ())}
    return sorted({operation.refuse(Problem(status, "", "")).status_code for status in statuses})


def _failure(status: int, operation: Operation, schemas: Schemas) -> dict[str, Any]:
    media_type = operation.refuse(Problem(status, "", "")).headers["content-type"]
    return {**_response(status, REASONS[status]), "content": _content((media_type,), schemas.of(operation.failure))}


def _response(status: int, description: str) -> dict[str, Any]:
    headers = {
        name: {"description": text, "schema": {"type": "string"}} for name, text in HEADERS.get(status, {}).items()
    }
    return {"description": description, **({"headers": headers} if headers else {})}
