"""The server's account of itself: the OpenAPI document, the page made of it, and whether the server keeps to it."""

import html
import itertools
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from importlib.metadata import version

import api_fuzzing
import httpx
import msgspec
import pytest
from jsonschema import Draft202012Validator
from onnx_agents import TinyAgent, write_zoo
from openapi_spec_validator import OpenAPIV31SpecValidator
from server_process import serving
from starlette.routing import Route

from nmn_keras import zoo
from serve import manual
from serve.app import create_app
from serve.documentation import exemplary
from serve.openapi import Group, describe
from serve.operations import Operation

KEY = "a key of sixteen characters".replace(" ", "-")


@pytest.fixture(scope="module")
def agents(tmp_path_factory):
    directory = tmp_path_factory.mktemp("openapi") / "zoo"
    return write_zoo(directory, TinyAgent("tiny"))


@pytest.fixture(scope="module")
def client(agents):
    with serving(agents) as server, httpx.Client(base_url=server.url) as client:
        yield client


@pytest.fixture(scope="module")
def document(client):
    return client.get("/openapi.json").json()


def operations_of(document):
    """Path, method and description of every operation."""
    return [(path, method, found) for path, methods in document["paths"].items() for method, found in methods.items()]


def check_answer(document, operation, status, content_type, text):
    """An answer is one that is documented."""
    response = operation["responses"][str(status)]
    if "content" not in response:
        assert text == ""
        return
    media_type = content_type.partition(";")[0]
    schema = response["content"][media_type].get("schema", {})
    value = json.loads(text) if media_type.endswith("json") else text
    Draft202012Validator({**schema, "components": document["components"]}).validate(value)


def fits(document, name, value):
    reference = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    return Draft202012Validator(reference).is_valid(value)


def test_examples_are_of_a_neuromodulated_agent_if_one_is_served():
    film, nbrc, nmn = ({name: zoo.load(name, runtime="onnx")} for name in ("b1-film", "b1-nbrc", "b1-nmn"))
    assert exemplary(film | nbrc | nmn) == "b1-nmn" and exemplary(film | nbrc) == "b1-nbrc"
    assert exemplary(film) == "b1-film" and exemplary({}) == "AGENT"


def test_the_document_is_valid(document):
    OpenAPIV31SpecValidator(document).validate()
    assert document["openapi"].startswith("3.1") and document["info"]["license"]["identifier"] == "Apache-2.0"
    assert document["info"]["version"] == version("nmn_keras")
    assert "/docs#stream" in document["info"]["description"]  # what OpenAPI cannot describe
    assert all(operation["summary"] for *_, operation in operations_of(document))


def test_the_document_has_every_route_and_no_other(agents, document):
    app = create_app({"tiny": zoo.load("tiny", runtime="onnx", zoo=agents)})
    routes = [route for route in app.routes if isinstance(route, Route)]
    routed = {(route.path, method.lower()) for route in routes for method in route.methods - {"HEAD"}}
    assert routed == {(path, method) for path, method, _ in operations_of(document)} and len(routed) > 20


def test_problems_follow_from_what_an_operation_takes(document):
    def statuses(path, method):
        return {*map(int, document["paths"][path][method]["responses"])}

    assert statuses("/v1/agents/{agent}/step", "post") == {200, 400, 403, 404, 413, 415, 422}
    assert statuses("/v2/models/{model}/infer", "post") == {200, 400, 403, 404, 413, 415, 503}
    assert statuses("/v1/sessions/{session}", "delete") == {204, 403, 404, 410, 503}
    assert statuses("/health/live", "get") == {200}
    step = document["paths"]["/v1/sessions/{session}/step"]["post"]
    assert step["responses"]["503"]["headers"].keys() == {"Retry-After"}
    assert step["requestBody"]["required"]
    assert not document["paths"]["/v1/sessions/{session}/reset"]["post"]["requestBody"]["required"]


def test_a_step_is_described_for_one_environment_and_for_many(client, document):
    rows = {"one": {"observation": [0.5]}, "many": {"observation": [[0.5], [1.0]]}}
    answers = {}
    for batch, (number, message) in enumerate(rows.items(), start=1):
        session = api_fuzzing.open_session(client, "tiny", batch=batch)
        answer = client.post(f"/v1/sessions/{session}/step?include=z,action_mean", json=message)
        assert answer.status_code == 200
        answers[number] = answer.json()
    for number, schema in (("one", "OneStep"), ("many", "ManySteps")):
        other = {"OneStep": "ManySteps", "ManySteps": "OneStep"}[schema]
        assert fits(document, schema, rows[number]) and not fits(document, other, rows[number])
        assert fits(document, f"{schema}Answer", answers[number])
        assert not fits(document, f"{other}Answer", answers[number])


def test_commands_of_the_page_get_what_is_documented(client, document, tmp_path):
    if not shutil.which("curl"):
        pytest.skip("curl is not installed")
    session = api_fuzzing.open_session(client, "tiny")
    (tmp_path / "message.json").write_text(client.get(f"/v1/sessions/{session}/state").text)
    commands = re.findall(r"<pre><code>(curl .*?)</code></pre>", client.get("/docs").text)
    described = operations_of(document)
    assert len(commands) == len(described)
    by_id = {operation["operationId"]: operation for *_, operation in described}
    ids = re.findall(r'<h3 id="(\w+)"><span', client.get("/docs").text)
    for operation_id, command in zip(ids, commands, strict=True):
        typed = html.unescape(command).replace("curl", "curl --silent --write-out '\\n%{http_code} %{content_type}'", 1)
        typed = typed.replace("SESSION", session)
        piped = {"capture_output": True, "text": True, "errors": "replace"}  # a file is no text
        done = subprocess.run(typed, shell=True, cwd=tmp_path, check=True, **piped)
        text, _, about = done.stdout.rpartition("\n")
        status, _, content_type = about.partition(" ")
        assert status.startswith("2"), (command, done.stdout)
        check_answer(document, by_id[operation_id], status, content_type, text)


def test_with_api_keys_the_document_says_what_needs_one(agents, tmp_path):
    (tmp_path / "keys").write_text(KEY)
    with serving(agents, "--api-keys", str(tmp_path / "keys")) as server, httpx.Client(base_url=server.url) as client:
        document = client.get("/openapi.json").json()
        OpenAPIV31SpecValidator(document).validate()
        public = set()
        for path, method, operation in operations_of(document):
            answer = client.request(method, path)
            if "security" in operation:
                assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
                check_answer(document, operation, 401, answer.headers["content-type"], answer.text)
            else:
                assert answer.status_code == 200 and "401" not in operation["responses"]
                public.add(path)
        health = {"/health/live", "/health/ready", "/v2/health/live", "/v2/health/ready"}
        assert public == {"/", "/openapi.json", "/docs", "/docs/style.css", *health}


class Outline(HTMLParser):
    """What a page is made of."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.ids, self.names = [], [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        for name, value in attributes:
            self.names.add(name)
            if name in ("href", "src"):
                self.links.append(value)
            elif name == "id":
                self.ids.append(value)


def test_the_page_names_every_operation_and_loads_nothing_foreign(client, document):
    answer = client.get("/docs")
    outline = Outline(answer.text)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'; style-src 'self';" in answer.headers["content-security-policy"]
    for path, method, operation in operations_of(document):
        assert f'<h3 id="{operation["operationId"]}"><span class="method">{method.upper()}</span> ' in answer.text
        assert html.escape(operation["summary"]).partition("`")[0] in answer.text
        assert f"<code>{html.escape(path)}</code>" in answer.text
    for name in document["components"]["schemas"]:
        assert f'<h3 id="message-{name}">' in answer.text
    local = {link.removeprefix("#") for link in outline.links if link.startswith("#")}
    assert {link for link in outline.links if not link.startswith("#")} == {
        "/docs/style.css",
        "/openapi.json",
        "/docs#stream",
    }
    assert local <= {*outline.ids} and len({*outline.ids}) == len(outline.ids)
    assert not {"script", "style", "img", "iframe"} & {*outline.tags}
    assert not [name for name in outline.names if name == "style" or name.startswith("on")]
    style = client.get("/docs/style.css")
    assert style.headers["content-type"] == "text/css; charset=utf-8"
    assert "prefers-color-scheme: dark" in style.text
    assert "url(" not in style.text and "@import" not in style.text


def test_the_page_has_landmarks_and_headings_in_order(client):
    text = client.get("/docs").text
    tags = Outline(text).tags
    assert [tags.count(tag) for tag in ("h1", "header", "nav", "main")] == [1, 1, 1, 1]
    levels = [int(tag[1]) for tag in tags if re.fullmatch("h[1-6]", tag)]
    assert all(below <= above + 1 for above, below in itertools.pairwise(levels))
    assert '<html lang="en">' in text and 'name="viewport"' in text


def test_the_page_names_the_address_it_was_asked_at_unless_a_shell_would_read_more_into_it(client):
    assert f"curl {client.base_url}/v1/agents<" in client.get("/docs").text.replace(":80/", "/")
    hostile = client.get("/docs", headers={"Host": "$(reboot).example"}).text
    assert "reboot" not in hostile and f"curl {manual.SERVER}/v1/agents<" in hostile


def test_whatever_stands_in_the_document_is_escaped():
    class Message(msgspec.Struct):
        """<script>alert(1)</script>"""

        member: str = "<script>"

    async def handler(request):
        """Do <script> `<script>` [<script>](/x)."""

    operation = Operation("POST", "/x/{agent}", handler, Message, Message, example="'<script>'")
    document = describe([Group("<script>", "<script>", [operation])], {"agent": "'; reboot <script>"}, keyed=True)
    written = manual.write(document)
    assert "<script" not in written and written.count("&lt;script&gt;") > 6
    command = html.unescape(re.search(r"<pre><code>(.*?)</code></pre>", written)[1])
    assert subprocess.check_output(["sh", "-c", command.replace("curl", "echo", 1)], text=True).count("\n") == 1


@pytest.mark.slow
def test_requests_made_of_the_document_are_answered_as_it_says(client, agents, document):
    bystander = api_fuzzing.Bystander(client, zoo.load("tiny", runtime="onnx", zoo=agents), "tiny")
    answered = api_fuzzing.fuzz(client, "tiny", 6, bystander)
    assert bystander.steps == len(answered)
    assert {*answered} == {operation["operationId"] for *_, operation in operations_of(document)}
    for name, statuses in answered.items():
        assert any(status < 300 for status in statuses), (name, statuses)  # what lies behind the checks was reached
    assert answered["step_session"].keys() >= {200, 404, 409, 422}
    assert any(400 in statuses for statuses in answered.values())
