"""The page's files and the published ones, as the server sends them."""

import asyncio
import gzip
import re

import httpx
import pytest
from onnx_agents import TinyAgent, write_zoo

from nmn_keras import zoo
from serve.app import create_app
from serve.pages import FOLDER, TYPES

KEY = "ann-0123456789abcdef"
NAME = "b1-nmn"


class Client:
    """Asks an application in this process."""

    def __init__(self, app):
        self._transport = httpx.ASGITransport(app)

    def get(self, path, **headers):
        async def ask():
            async with httpx.AsyncClient(transport=self._transport, base_url="http://testserver") as client:
                return await client.get(path, headers={name.replace("_", "-"): text for name, text in headers.items()})

        return asyncio.run(ask())


@pytest.fixture(scope="module")
def agents():
    return {NAME: zoo.load(NAME, runtime="onnx")}


@pytest.fixture(scope="module")
def client(agents):
    return Client(create_app(agents))


def test_the_page_is_served_under_a_strict_policy(client):
    answer = client.get("/")
    assert answer.status_code == 200 and answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["form-action"] == "'none'"
    assert policy["script-src"] == policy["worker-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son[a-z]+=", answer.text)  # nothing inline


def test_every_file_of_the_page_is_served_as_what_it_is(client):
    files = [path for path in FOLDER.rglob("*") if path.is_file() and path.name != "package.json"]
    assert len(files) > 20
    for path in files:
        answer = client.get(f"/page/{path.relative_to(FOLDER).as_posix()}")
        assert answer.content == path.read_bytes()
        assert answer.headers["content-type"] == TYPES[path.suffix]
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_the_page_is_small(client):
    sent = [gzip.compress(path.read_bytes()) for path in FOLDER.rglob("*") if path.is_file()]
    assert sum(map(len, sent)) < 300_000
    answer = client.get("/page/vendor/uPlot.esm.js", accept_encoding="gzip")
    assert answer.headers["content-encoding"] == "gzip" and int(answer.headers["content-length"]) < 60_000


def test_what_is_known_is_not_sent_again(client):
    for path in ("/", f"/zoo/{NAME}/policy.onnx"):
        tag = client.get(path).headers["etag"]
        answer = client.get(path, if_none_match=tag)
        assert answer.status_code == 304 and not answer.content


def test_no_text_is_inserted_as_html():
    for path in (FOLDER / "js").rglob("*.js"):
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", path.read_text()), path


@pytest.mark.parametrize("path", ["/page/", "/page/package.json", "/page/../app.py", "/page/%2e%2e/app.py"])
def test_nothing_else_is_served(client, path):
    assert client.get(path).status_code == 404


def test_published_files_are_those_of_the_index(client):
    published = client.get("/zoo/index.json").json()["agents"]
    assert published == {NAME: zoo.card(NAME)}
    for file in published[NAME]["files"]:
        answer = client.get(f"/zoo/{NAME}/{file}")
        assert answer.content == zoo.path(NAME, file).read_bytes()
        assert answer.headers["content-disposition"] == f'attachment; filename="{NAME}-{file}"'


@pytest.mark.parametrize("path", [f"/zoo/{NAME}/index.json", "/zoo/b1-rnn/policy.onnx", f"/zoo/{NAME}/..%2findex.json"])
def test_other_files_and_agents_that_are_not_served_are_refused(client, path):
    answer = client.get(path)
    assert answer.status_code == 404 and answer.headers["content-type"] == "application/problem+json"


def test_with_keys_the_page_is_public_and_the_agents_are_not(agents):
    client = Client(create_app(agents, api_keys=[KEY]))
    assert client.get("/").status_code == client.get("/page/js/main.js").status_code == 200
    for path in ("/zoo/index.json", f"/zoo/{NAME}/policy.onnx"):
        assert client.get(path).status_code == 401
        assert client.get(path, authorization=f"Bearer {KEY}").status_code == 200


def test_agents_that_were_not_published_have_no_files(tmp_path):
    elsewhere = write_zoo(tmp_path / "zoo", TinyAgent(NAME))
    agents = {NAME: zoo.load(NAME, runtime="onnx", zoo=elsewhere)}  # another agent of a published name
    for directory in (None, str(tmp_path)):
        client = Client(create_app(agents, zoo_directory=directory))
        assert client.get("/zoo/index.json").json()["agents"] == {}
        assert client.get(f"/zoo/{NAME}/policy.onnx").status_code == 404


def test_an_altered_file_is_refused(agents, tmp_path):
    copy = tmp_path / NAME
    copy.mkdir()
    (tmp_path / "index.json").write_bytes((zoo.directory() / "index.json").read_bytes())
    (copy / "README.md").write_text("not what was published")
    client = Client(create_app(agents, zoo_directory=str(tmp_path)))
    answer = client.get(f"/zoo/{NAME}/README.md")
    assert answer.status_code == 404 and "not the published one" in answer.json()["detail"]
