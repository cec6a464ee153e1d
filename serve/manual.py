"""The OpenAPI document as a page: plain HTML without scripts, for eyes, for phones and for screen readers."""

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from html import escape
from http import HTTPStatus
from typing import Any

SERVER = "http://127.0.0.1:8000"
"""The address that examples name; whoever serves the page puts its own there."""

Schema = Mapping[str, Any]


def write(document: Schema) -> str:
    """Return the page."""
    info = document["info"]
    schemas = document["components"]["schemas"]
    title = f"{info['title']} {info['version']}"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}: HTTP API</title>
<link rel="stylesheet" href="/docs/style.css">
</head>
<body>
<a class="skip" href="#operations">Skip to the operations</a>
<header>
<h1>{escape(info["title"])} <span class="version">{escape(info["version"])}</span></h1>
{prose(info["description"])}
<p>For programs: <a href="/openapi.json">openapi.json</a> (OpenAPI {escape(document["openapi"])}).
Licence: {escape(info["license"]["name"])}.</p>
</header>
<nav aria-label="Contents">
{_contents(document)}
</nav>
<main id="operations">
{"".join(_section(document, tag) for tag in document["tags"])}
<section aria-labelledby="messages">
<h2 id="messages">Messages</h2>
{"".join(_message(name, schema) for name, schema in schemas.items())}
</section>
</main>
</body>
</html>
"""


def prose(text: str) -> str:
    """Return a docstring as HTML: its paragraphs, `code`, links within the server, lines that describe members."""
    return "".join(_paragraph(paragraph) for paragraph in text.split("\n\n") if paragraph.strip())


def _paragraph(text: str) -> str:
    members = r"(?:`\w+`, )*`\w+`:"
    if not re.match(members, text):
        return f"<p>{_inline(text)}</p>\n"
    items = (_inline(item) for item in re.split(rf"\n(?={members})", text))
    return f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>\n"


def _inline(text: str) -> str:
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(" ".join(text.split())))
    return re.sub(r"\[(\w+)\]\((/[\w/#]+)\)", r'<a href="\2">\1</a>', text)


def _operations(document: Schema, tag: str) -> list[tuple[str, str, Schema]]:
    """Method, path and description of each operation of a group."""
    return [
        (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if tag in operation["tags"]
    ]


def _contents(document: Schema) -> str:
    groups = []
    for tag in document["tags"]:
        items = "".join(
            f'<li><a href="#{escape(operation["operationId"])}">{_address(method, path)}</a></li>'
            for method, path, operation in _operations(document, tag["name"])
        )
        groups.append(f'<li><a href="#{_anchor(tag["name"])}">{escape(tag["name"])}</a><ul>{items}</ul></li>')
    return f'<ul>{"".join(groups)}<li><a href="#messages">messages</a></li></ul>'


def _anchor(name: str) -> str:
    return escape(name.replace(" ", "-"))


def _address(method: str, path: str) -> str:
    return f'<span class="method">{escape(method)}</span> <code>{escape(path)}</code>'


def _section(document: Schema, tag: Schema) -> str:
    articles = (_operation(*found) for found in _operations(document, tag["name"]))
    anchor = _anchor(tag["name"])
    return f"""<section aria-labelledby="{anchor}">
<h2 id="{anchor}">{escape(tag["name"].capitalize())}</h2>
{prose(tag["description"])}
{"".join(articles)}
</section>
"""


def _operation(method: str, path: str, operation: Schema) -> str:
    anchor = escape(operation["operationId"])
    return f"""<article aria-labelledby="{anchor}">
<h3 id="{anchor}">{_address(method, path)}</h3>
<p>{_inline(operation["summary"])}.{" Needs an API key." if "security" in operation else ""}</p>
{prose(operation.get("description", ""))}
<pre><code>{escape(curl(method, path, operation))}</code></pre>
{_parameters(operation)}
{_body(operation)}
{_answer(operation)}
{_refusals(operation)}
</article>
"""


def _parameters(operation: Schema) -> str:
    rows = [
        (
            f"<code>{escape(parameter['name'])}</code>",
            "in the path" if parameter["in"] == "path" else f"{parameter['in']}, optional",
            kind(parameter["schema"]),
            _inline(parameter["description"]),
        )
        for parameter in operation.get("parameters", ())
    ]
    return _table("Parameters", ("Name", "Where", "Type", "Meaning"), rows)


def _body(operation: Schema) -> str:
    if "requestBody" not in operation:
        return ""
    body = operation["requestBody"]
    optional = "" if body["required"] else " It may be left out."
    return f"<p>Takes: {_content(body['content'])}.{optional}</p>"


def _content(content: Schema) -> str:
    """Media types and messages."""
    options = []
    for name, media in content.items():
        media_type = f"<code>{escape(name)}</code>"
        options.append(f"{kind(media['schema'])} ({media_type})" if "schema" in media else media_type)
    return " or ".join(options)


def _answer(operation: Schema) -> str:
    (status, answer), *_ = operation["responses"].items()
    content = _content(answer["content"]) if "content" in answer else "nothing"
    return f"<p>Answers: {content}, status {escape(status)} {HTTPStatus(int(status)).phrase}.</p>"


def _refusals(operation: Schema) -> str:
    _, *refusals = operation["responses"].items()
    contents = {_content(refusal["content"]): None for _, refusal in refusals}  # one, or nothing is refused
    rows = [
        (f"{escape(status)} {HTTPStatus(int(status)).phrase}", _inline(refusal["description"]))
        for status, refusal in refusals
    ]
    table = _table("Refusals", ("Status", "When"), rows)
    return f"<p>Refuses with: {' or '.join(contents)}.</p>{table}" if rows else ""


def _message(name: str, schema: Schema) -> str:
    anchor = f"message-{escape(name)}"
    return f"""<article aria-labelledby="{anchor}">
<h3 id="{anchor}">{escape(name)}</h3>
{prose(schema["description"])}
{_members(schema)}
</article>
"""


def _members(schema: Schema) -> str:
    required = schema.get("required", ())
    rows = [
        (f"<code>{escape(name)}</code>", kind(member), "required" if name in required else _default(member))
        for name, member in schema.get("properties", {}).items()
    ]
    return _table("Members", ("Member", "Type", "Default"), rows)


def _default(schema: Schema) -> str:
    default = schema.get("default")
    return "absent" if default is None else f"<code>{escape(json.dumps(default))}</code>"


def kind(schema: Schema) -> str:
    """Return in words what a schema takes, as HTML."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#message-{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(kind(option) for option in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"array of {kind(schema['items'])}"
    bounds = (("minimum", "from"), ("exclusiveMinimum", "above"), ("maximum", "to"))
    words = [escape(schema.get("type", "anything"))]
    return " ".join([*words, *(f"{word} {schema[bound]}" for bound, word in bounds if bound in schema)])


def _table(caption: str, head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of HTML cells, the first of each row its heading; nothing if there are no rows."""
    body = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>\n'
        for first, *rest in rows
    )
    if not body:
        return ""
    columns = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    # A wide table is scrolled, which the keyboard can do only if it can be focused.
    return f"""<div class="wide" tabindex="0" role="group" aria-label="{escape(caption)}"><table>
<caption>{escape(caption)}</caption>
<thead><tr>{columns}</tr></thead>
<tbody>
{body}</tbody></table></div>
"""


def curl(method: str, path: str, operation: Schema) -> str:
    """Return a command that asks for an operation; in capitals what only the reader knows."""
    examples = {parameter["name"]: parameter.get("example") for parameter in operation.get("parameters", ())}
    address = re.sub(r"{(\w+)}", lambda found: examples[found[1]] or found[1].upper(), path)
    words = ["curl"]
    if "security" in operation:
        words += ["--header", "Authorization: Bearer KEY"]
    body = operation.get("requestBody")
    example = body and body["content"]["application/json"].get("example")
    sends = example is not None or (body and body["required"])
    if method not in ("GET", "POST") or (method == "POST" and not sends):
        words += ["--request", method]
    if sends:
        words += ["--json", "@message.json" if example is None else json.dumps(example)]
    return " ".join([*map(shlex.quote, words), SERVER + shlex.quote(address)])
