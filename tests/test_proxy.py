"""Below a path of a real proxy, at a Unix socket, on IPv6."""

import contextlib
import re
import shutil
import socket
import stat
import subprocess
import time

import httpx
import pytest
from server_process import serving
from test_serve_process import run_serve
from websockets.sync.client import connect

from nmn_keras.client import AgentClient
from serve.prefix import check_prefix

CONFIGURATION = """
global
  maxconn 100
defaults
  mode http
  timeout connect 5s
  timeout client 20s
  timeout server 20s
frontend all
  bind 127.0.0.1:{port}
  http-request set-header X-Forwarded-Proto https if {{ hdr(x-tls) yes }}
  http-request return status 404 content-type text/plain string "another application" if !{{ path_beg /agents }}
  default_backend agents
backend agents
  {rules}
  server one {server}
"""
STRIPPING = r"http-request replace-path ^/agents/?(.*) /\1"
FORWARDING = "http-request set-header X-Forwarded-Prefix /agents\n  " + STRIPPING


@contextlib.contextmanager
def proxying(directory, server, rules):
    """A real HAProxy that shows a server below /agents; yields its address."""
    program = shutil.which("haproxy", path="/usr/sbin:/usr/bin:/usr/local/sbin")
    if not program:
        pytest.skip("haproxy is not installed: apt-get install haproxy")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    file = directory / "haproxy.cfg"
    file.write_text(CONFIGURATION.format(port=port, server=server, rules=rules))
    process = subprocess.Popen([program, "-db", "-f", str(file)], stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=20)


def links_of(text):
    return re.findall(r'(?:href|src)="([^"#:]+)[^":]*"', text)


def check_below_a_prefix(proxy):
    """All that the server shows works below /agents, and nothing of it points elsewhere."""
    base = f"{proxy}/agents"
    with httpx.Client(timeout=30) as http:
        assert http.get(proxy + "/").text == "another application"
        moved = http.get(base)
        if moved.status_code == 307:
            assert moved.headers["location"] == "/agents/"
        for page in ("/", "/docs"):
            answer = http.get(base + page)
            assert answer.status_code == 200
            links = links_of(answer.text)
            assert len(links) >= 3
            for link in links:
                target = httpx.URL(f"{base}{page}").join(link)
                assert str(target).startswith(base + "/"), link
                assert http.get(target).status_code == 200, link
        assert f"curl {base}/v1/agents<" in http.get(f"{base}/docs").text
        document = http.get(f"{base}/openapi.json").json()
        assert document["servers"] == [{"url": "/agents"}]
        assert http.get(f"{base}/v1/agents").status_code == 200
        opened = http.post(f"{base}/v1/agents/tiny/sessions")
        assert opened.headers["location"] == f"/agents/v1/sessions/{opened.json()['session']}"
        assert http.get(proxy + opened.headers["location"]).status_code == 200
        assert http.get(f"{base}/nothing").status_code == 404
    for transport in ("http", "websocket"):
        with AgentClient(base, "tiny", transport=transport) as client:
            client.step([0.5])
            client.step([0.5], 1.0)
            assert client.describe()["step"] == 2
    with connect(f"{base.replace('http', 'ws')}/v1/agents/tiny/stream") as stream:
        assert "session" in stream.recv(timeout=20)


@pytest.mark.parametrize(
    ("flags", "rules"),
    [(("--root-path", "/agents"), STRIPPING), (("--root-path", "/agents/"), ""), ((), FORWARDING)],
    ids=["the proxy cuts the prefix off", "the proxy passes whole paths on", "the proxy names the prefix"],
)
def test_the_server_can_live_below_a_path_of_a_proxy(agents, tmp_path, flags, rules):
    with serving(agents, *flags) as server:
        address = re.search(r"127\.0\.0\.1:\d+", server.greeting)[0]
        with proxying(tmp_path, address, rules) as proxy:
            check_below_a_prefix(proxy)
            assert httpx.get(f"{proxy}/agents/docs", headers={"X-TLS": "yes"}).text.count("curl https://127.0.0.1") > 20
        if flags:
            assert f"http://{address}/agents/docs to read" in server.greeting
        else:  # without the proxy there is no prefix
            assert httpx.get(f"http://{address}/openapi.json").json()["servers"] == [{"url": "/"}]


def test_only_trusted_proxies_are_believed(agents):
    told = {"X-Forwarded-Prefix": "/evil", "X-Forwarded-Proto": "https"}
    with serving(agents, "--forwarded-allow-ips", "10.0.0.0/8") as server:
        assert httpx.get(f"{server.url}/openapi.json", headers=told).json()["servers"] == [{"url": "/"}]
        assert "curl https" not in httpx.get(f"{server.url}/docs", headers=told).text
    with serving(agents) as server:
        for prefix in ("//evil.example", '/"onclick', "/a/../b", "/v1", "evil", "/a b"):
            headers = {"X-Forwarded-Prefix": prefix}
            assert httpx.get(f"{server.url}/openapi.json", headers=headers).json()["servers"] == [{"url": "/"}]


@pytest.mark.parametrize("prefix", ["agents", "/v1/agents", "//", "/a//b", "/a b", "/a/..", "/docs"])
def test_what_is_no_prefix_is_refused(prefix):
    if prefix == "//":
        assert check_prefix(prefix) == ""
        return
    with pytest.raises(ValueError, match="Received: "):
        check_prefix(prefix)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_unix_socket_is_served_and_leaves_nothing(agents, tmp_path, workers):
    path = tmp_path / "s.sock"
    store = ("--store", f"sqlite:///{tmp_path}/s.db", "--workers", str(workers))
    with serving(agents, "--uds", str(path), *store) as server:
        assert f"at {path}, http://localhost (Ctrl+C stops)" in server.greeting
        assert stat.S_IMODE(path.stat().st_mode) == 0o666
        with httpx.Client(
            transport=httpx.HTTPTransport(uds=str(path)), base_url="http://localhost", timeout=30
        ) as client:
            session = client.post("/v1/agents/tiny/sessions").json()["session"]
            assert client.post(f"/v1/sessions/{session}/step", json={"observation": [0.5]}).status_code == 200
            prefixed = {"X-Forwarded-Prefix": "/agents"}  # whoever is there is on this machine
            assert client.get("/openapi.json", headers=prefixed).json()["servers"] == [{"url": "/agents"}]
        command = re.search(r"^  (curl .*/v1/agents)$", server.greeting, re.MULTILINE)[1]
        if shutil.which("curl"):
            typed = command.replace("curl", "curl --silent", 1)
            assert b'"tiny"' in subprocess.check_output(typed, shell=True)
        refused = run_serve("--zoo", str(agents), "--uds", str(path))
        assert refused.returncode == 2 and "another server does" in refused.stderr
    assert not path.exists()


def test_a_socket_that_a_killed_server_left_is_taken_over_and_a_file_is_not(agents, tmp_path):
    path = tmp_path / "s.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with serving(agents, "--uds", str(path)):
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), timeout=30) as client:
            assert client.get("http://x/health/ready").status_code == 200
    path.write_text("mine")
    for place, words in ((path, "no socket is there"), (tmp_path / "no" / "s.sock", "cannot listen at")):
        refused = run_serve("--zoo", str(agents), "--uds", str(place))
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1) and words in refused.stderr
    assert path.read_text() == "mine"


def test_a_proxy_can_pass_on_to_a_unix_socket(agents, tmp_path):
    path = tmp_path / "s.sock"
    with serving(agents, "--uds", str(path)), proxying(tmp_path, f"unix@{path}", FORWARDING) as proxy:
        check_below_a_prefix(proxy)


def test_ipv6_is_served_and_its_address_can_be_typed(agents):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("there is no IPv6 here")
    with serving(agents, "--host", "::1") as server:
        url = re.search(r"http://\[::1\]:\d+", server.greeting)[0]
        assert f"{url}/docs to read" in server.greeting
        with AgentClient(url, "tiny", transport="websocket") as client:
            client.step([0.5])
        assert f"curl {url}/v1/agents<" in httpx.get(f"{url}/docs").text
    taken = run_serve("--zoo", str(agents), "--host", "2001:db8::1")
    assert taken.returncode == 2 and "cannot listen on [2001:db8::1]:0" in taken.stderr
