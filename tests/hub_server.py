"""As much of the Hugging Face Hub as huggingface_hub needs to push and load a model, on loopback.

Written after huggingface_hub's requests: repositories with branches and tags, commits of regular and of large files
(Git LFS), tokens with roles, and the errors' own headers. Content is hashed as Git and LFS do it. Large files come from
and go to another host, as the Hub's do: the same server under the name `localhost`, to which no token may be sent.
"""

import base64
import hashlib
import json
import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import yaml

LARGE = (".h5", ".npz", ".onnx")
"""What the Hub's .gitattributes gives to LFS."""
ROLES = {"hf_ann_writes": ("ann", "write"), "hf_ann_reads": ("ann", "read"), "hf_bob_writes": ("bob", "write")}


@dataclass
class Repository:
    private: bool
    commits: dict = field(default_factory=dict)
    """Content by path, by commit."""
    branches: dict = field(default_factory=dict)
    tags: dict = field(default_factory=dict)
    messages: list = field(default_factory=list)

    def resolve(self, revision):
        commit = self.branches.get(revision) or self.tags.get(revision) or revision
        return commit if commit in self.commits else None

    def commit(self, branch, content, message):
        text = json.dumps([self.branches.get(branch), sorted((p, blob(c)) for p, c in content.items()), message])
        name = hashlib.sha1(text.encode()).hexdigest()
        self.commits[name], self.branches[branch] = content, name
        self.messages.append(message)
        return name


def blob(content):
    """Git's name of a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def sha256(content):
    return hashlib.sha256(content).hexdigest()


class Refused(Exception):
    def __init__(self, status, message, code=None):
        self.status, self.headers = status, {"X-Error-Message": message, **({"X-Error-Code": code} if code else {})}


class Hub(ThreadingHTTPServer):
    """The server. `repositories` and `large` are what it holds, `requests` what it was asked."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url, self.store = (f"http://{host}:{self.server_port}" for host in ("127.0.0.1", "localhost"))
        self.repositories, self.large, self.requests = {}, {}, []

    def asked_for(self):
        """Files that were asked for since the last time."""
        asked = {path.split("/", 5)[-1] for _, path in self.requests if "/resolve/" in path}
        self.requests.clear()
        return asked


@contextmanager
def serving_hub():
    hub = Hub()
    thread = threading.Thread(target=hub.serve_forever)
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        thread.join()
        hub.server_close()


NAME = r"(?P<repository>[^/]+/[^/]+)"
ROUTES = [
    ("POST", r"/api/repos/create", "create"),
    ("POST", r"/api/validate-yaml", "validate"),
    ("POST", rf"/api/models/{NAME}/preupload/(?P<branch>[^/]+)", "preupload"),
    ("POST", rf"/api/models/{NAME}/commit/(?P<branch>[^/]+)", "commit"),
    ("POST", rf"/api/models/{NAME}/branch/(?P<branch>[^/]+)", "branch"),
    ("GET", rf"/api/models/{NAME}/refs", "refs"),
    ("GET", rf"/api/models/{NAME}(/revision/(?P<revision>[^/]+))?", "info"),
    ("POST", rf"/{NAME}\.git/info/lfs/objects/batch", "batch"),
    ("PUT", r"/large/(?P<oid>[0-9a-f]{64})", "upload"),
    ("GET", r"/large/(?P<oid>[0-9a-f]{64})", "large"),
    ("GET", rf"/{NAME}/resolve/(?P<revision>[^/]+)/(?P<path>.+)", "resolve"),
]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def _answer(self):
        path = urlsplit(self.path).path
        self.server.requests.append((self.command, path))
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        method = {"HEAD": "GET"}.get(self.command, self.command)
        try:
            for accepted, pattern, name in ROUTES:
                if accepted == method and (found := re.fullmatch(pattern, path)):
                    parts = {key: unquote(value) for key, value in found.groupdict().items() if value}
                    return self._send(*getattr(self, f"_{name}")(**parts))
            raise Refused(404, f"This hub has no {self.command} {path}")
        except Refused as refused:
            self._send(refused.status, {"error": refused.headers["X-Error-Message"]}, refused.headers)

    do_GET = do_HEAD = do_POST = do_PUT = _answer

    def _send(self, status, content, headers=()):
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **dict(headers)}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    # Who may do what

    def _check_store(self):
        if "Authorization" in self.headers:
            raise Refused(400, "The token was sent to another host")

    def _caller(self):
        sent = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if sent and sent not in ROLES:
            raise Refused(401, "Invalid credentials in Authorization header")
        return ROLES.get(sent, (None, None))

    def _may_write(self, namespace):
        user, role = self._caller()
        if user is None:
            raise Refused(401, "Invalid username or password.")
        if (user, role) != (namespace, "write"):
            raise Refused(403, "You don't have the rights to write there")

    def _opened(self, repository):
        user, _ = self._caller()
        found = self.server.repositories.get(repository)
        if found is None or (found.private and user != repository.split("/")[0]):
            # The Hub does not tell a stranger what does not exist from what is private.
            raise Refused(401, "Invalid username or password.", "RepoNotFound")
        return found

    def _revision(self, repository, revision):
        opened = self._opened(repository)
        if (commit := opened.resolve(revision)) is None:
            raise Refused(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return opened, commit

    # Writing

    def _create(self):
        asked = json.loads(self.body)
        namespace = asked["organization"] or self._caller()[0]
        self._may_write(namespace)
        name = f"{namespace}/{asked['name']}"
        answer = {"url": f"{self.server.url}/{name}"}
        if name in self.server.repositories:
            return 409, {**answer, "error": "You already created this model repo"}
        made = self.server.repositories[name] = Repository(asked.get("visibility") == "private")
        made.commit("main", {".gitattributes": b"*.h5 filter=lfs\n"}, "initial commit")
        return 200, answer

    def _validate(self):
        """The Hub's own rules of a card's metadata, as far as its documentation states them."""
        header = yaml.safe_load(json.loads(self.body)["content"].split("---\n", 2)[1])
        errors = [f"{key} is no text" for key in ("license", "pipeline_tag") if not isinstance(header.get(key), str)]
        for model in header["model-index"]:
            for result in model["results"]:
                wanted = (result["task"]["type"], result["dataset"]["type"], result["dataset"]["name"])
                errors += [f"{text!r} is no text" for text in wanted if not isinstance(text, str)]
                errors += [f"{m} has no value" for m in result["metrics"] if not {"type", "value"} <= m.keys()]
        return 400 if errors else 200, {"errors": [{"message": error} for error in errors], "warnings": []}

    def _preupload(self, repository, branch):
        opened, commit = self._revision(repository, branch)
        self._may_write(repository.split("/")[0])
        held = opened.commits[commit]
        files = [
            {
                "path": file["path"],
                "uploadMode": "lfs" if file["path"].endswith(LARGE) else "regular",
                "shouldIgnore": False,
                **({"oid": _oid(file["path"], held[file["path"]])} if file["path"] in held else {}),
            }
            for file in json.loads(self.body)["files"]
        ]
        return 200, {"files": files}

    def _batch(self, repository):
        self._may_write(repository.split("/")[0])
        objects = [dict(each) for each in json.loads(self.body)["objects"]]
        for each in objects:
            if each["oid"] not in self.server.large:
                each["actions"] = {"upload": {"href": f"{self.server.store}/large/{each['oid']}"}}
        return 200, {"objects": objects}

    def _upload(self, oid):
        self._check_store()
        if sha256(self.body) != oid:
            raise Refused(400, "The content is not what was announced")
        self.server.large[oid] = self.body
        return 200, {}

    def _branch(self, repository, branch):
        self._may_write(repository.split("/")[0])
        opened = self._opened(repository)
        if branch in opened.branches:
            raise Refused(409, "Reference already exists")
        opened.branches[branch] = opened.branches["main"]
        return 201, {}

    def _commit(self, repository, branch):
        opened, commit = self._revision(repository, branch)
        self._may_write(repository.split("/")[0])
        header, *changes = [json.loads(line) for line in self.body.splitlines()]
        if header["value"].get("parentCommit", commit) != commit:
            raise Refused(412, "A commit has happened since. Please refresh and try again.")
        content = dict(opened.commits[commit])
        for change in changes:
            told = change["value"]
            if change["key"] == "file":
                content[told["path"]] = base64.b64decode(told["content"])
            elif change["key"] == "lfsFile":
                content[told["path"]] = self.server.large[told["oid"]]
            else:
                del content[told["path"]]
        made = opened.commit(branch, content, header["value"]["summary"])
        return 200, {"commitUrl": f"{self.server.url}/{repository}/commit/{made}", "commitOid": made}

    # Reading

    def _info(self, repository, revision="main"):
        opened, commit = self._revision(repository, revision)
        names = [{"rfilename": path} for path in opened.commits[commit]]
        return 200, {"id": repository, "sha": commit, "private": opened.private, "siblings": names, "tags": []}

    def _refs(self, repository):
        opened = self._opened(repository)
        branches = [{"name": n, "ref": f"refs/heads/{n}", "targetCommit": c} for n, c in opened.branches.items()]
        tags = [{"name": n, "ref": f"refs/tags/{n}", "targetCommit": c} for n, c in opened.tags.items()]
        return 200, {"branches": branches, "tags": tags, "converts": []}

    def _resolve(self, repository, revision, path):
        opened, commit = self._revision(repository, revision)
        headers = {"X-Repo-Commit": commit}
        content = opened.commits[commit].get(path)
        if content is None:
            refused = Refused(404, "Entry not found", "EntryNotFound")
            refused.headers |= headers
            raise refused
        if not path.endswith(LARGE):
            return 200, content, {**headers, "ETag": f'"{blob(content)}"'}
        digest = sha256(content)
        self.server.large[digest] = content
        linked = {"X-Linked-ETag": f'"{digest}"', "X-Linked-Size": len(content)}
        return 302, b"", {**headers, **linked, "Location": f"{self.server.store}/large/{digest}"}

    def _large(self, oid):
        self._check_store()
        return 200, self.server.large[oid], {"ETag": f'"{oid}"'}


def _oid(path, content):
    return sha256(content) if path.endswith(LARGE) else blob(content)
