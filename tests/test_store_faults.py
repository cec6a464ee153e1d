"""What disks, files and clocks do to sessions on SQLite: a clear answer, and nothing lost. The faults are real."""

import asyncio
import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import time

import httpx
import pytest
from msgspec.structs import replace
from onnx_agents import TinyAgent
from server_process import ROOT, serving
from test_serve_process import run_serve

from nmn_keras.runtime import OnnxAgent
from serve.problems import Problem
from serve.sessions import open_session
from serve.stores import Change, Gone, open_store
from serve.stores.memory import MemoryStore

AGENT = OnnxAgent(TinyAgent("tiny").onnx())


@contextlib.contextmanager
def mounted(directory, *options):
    """A small disk of its own. Skips where nothing may be mounted."""
    directory.mkdir(exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", *options, "tmpfs", str(directory)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", str(directory)], check=True)


def steps_of(client, sessions):
    return [client.get(f"/v1/sessions/{session}").json()["step"] for session in sessions]


def take(client, session, step):
    body = {"observation": [0.5], "step": step, **({"reward": 0.5} if step > 1 else {})}
    return client.post(f"/v1/sessions/{session}/step", json=body)


def test_a_full_disk_refuses_clearly_and_goes_on_when_there_is_room(agents, tmp_path):
    with mounted(tmp_path / "disk", "-o", "size=1m") as disk:
        with (
            serving(agents, "--store", f"sqlite:///{disk}/s.db") as server,
            httpx.Client(base_url=server.url, timeout=30) as client,
        ):
            sessions = [client.post("/v1/agents/tiny/sessions").json()["session"] for _ in range(20)]
            assert all(take(client, session, 1).status_code == 200 for session in sessions)
            filler = disk / "filler"
            with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(1024))
            refused, answered = [], dict.fromkeys(sessions, 1)
            for session in sessions * 20:  # the log has some room left at first
                answer = take(client, session, answered[session] + 1)
                if answer.status_code == 200:
                    answered[session] += 1
                else:
                    refused.append(answer)
            assert refused and {answer.status_code for answer in refused} == {503}
            problem = refused[-1].json()
            assert "disk is full" in problem["detail"] and refused[-1].headers["retry-after"] == "1"
            opening = client.post("/v1/agents/tiny/sessions")
            assert opening.status_code == 503 and "disk is full" in opening.json()["detail"]
            assert steps_of(client, sessions) == list(answered.values())  # what was answered is there, no more, no less
            filler.unlink()
            assert all(take(client, session, answered[session] + 1).status_code == 200 for session in sessions)
            assert client.post("/v1/agents/tiny/sessions").status_code == 201
        with (
            serving(agents, "--store", f"sqlite:///{disk}/s.db") as server,
            httpx.Client(base_url=server.url, timeout=30) as client,
        ):
            assert steps_of(client, sessions) == [step + 1 for step in answered.values()]


def test_a_read_only_folder_is_said_to_be_so_and_left_alone(agents, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    with serving(agents, "--store", f"sqlite:///{folder}/s.db") as server:
        assert httpx.post(f"{server.url}/v1/agents/tiny/sessions").status_code == 201
    kept = (folder / "s.db").read_bytes()
    with mounted(tmp_path / "disk") as disk:
        shutil.copy(folder / "s.db", disk)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        for name in ("s.db", "new.db"):
            done = run_serve("--zoo", str(agents), "--store", f"sqlite:///{disk}/{name}")
            assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
            assert f"Cannot keep sessions in {disk}/{name}" in done.stderr and "ead-only" in done.stderr
        assert (disk / "s.db").read_bytes() == kept and [file.name for file in disk.iterdir()] == ["s.db"]


def test_a_lock_that_is_held_for_long_refuses_clearly_and_loses_nothing(agents, tmp_path):
    folder = tmp_path / "s"
    folder.mkdir()
    with (
        serving(agents, "--store", f"sqlite:///{folder}/s.db") as server,
        httpx.Client(base_url=server.url, timeout=30) as client,
    ):
        session = client.post("/v1/agents/tiny/sessions").json()["session"]
        with sqlite3.connect(folder / "s.db") as other:
            other.execute("BEGIN IMMEDIATE")
            locked = take(client, session, 1)
            assert locked.status_code == 503 and "locked" in locked.json()["detail"]
            other.execute("ROLLBACK")
        other.close()
        assert take(client, session, 1).json()["step"] == 1


@pytest.mark.parametrize("content", [b"no database at all" * 100, b"SQLite format 3\0" + b"x" * 5000])
def test_a_file_that_is_no_database_is_refused_and_kept(agents, tmp_path, content):
    path = tmp_path / "s.db"
    path.write_bytes(content)
    done = run_serve("--zoo", str(agents), "--store", f"sqlite:///{path}")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "is not a database" in done.stderr and path.read_bytes() == content


def test_an_empty_file_is_a_store_without_sessions(agents, tmp_path):
    path = tmp_path / "s.db"
    path.touch()
    with serving(agents, "--store", f"sqlite:///{path}") as server:
        assert httpx.post(f"{server.url}/v1/agents/tiny/sessions").status_code == 201


def test_a_damaged_file_is_said_to_be_damaged(tmp_path):
    """Some pages are overwritten; sessions on the others stay, and what is lost is never answered by something else."""
    path = tmp_path / "s.db"

    async def fill():
        store = open_store(f"sqlite:///{path}")
        session = open_session("tiny", AGENT, None, now=store.clock())
        for index in range(400):
            await store.save([Change(str(index), None, replace(session, seed=index))])
        await store.close()

    async def read():
        store = open_store(f"sqlite:///{path}")
        found, refused = [], []
        for index in range(400):
            try:
                (session,) = await store.load([str(index)])
                assert session is Gone.UNKNOWN or session.seed == index
                found.append(session)
            except Problem as problem:
                refused.append(problem)
        await store.close()
        return found, refused

    asyncio.run(fill())
    size = path.stat().st_size
    with path.open("r+b") as file:
        for place in range(size // 2 // 4096 * 4096, size // 2 // 4096 * 4096 + 5 * 4096, 4096):
            file.seek(place)
            file.write(b"\xff" * 4096)
    found, refused = asyncio.run(read())
    assert len(found) > 100 and refused
    assert {problem.details.status for problem in refused} == {503}
    assert all("the file is damaged" in problem.details.detail for problem in refused)


def library_of_faketime():
    places = [f"/usr/lib/{machine}-linux-gnu/faketime/libfaketime.so.1" for machine in ("x86_64", "aarch64")]
    return next(filter(os.path.exists, places), None) or pytest.skip(
        "libfaketime is not installed: apt-get install faketime"
    )


JUMP = """
import asyncio, select, sys, time
sys.path[:0] = ["tests"]
from onnx_agents import TinyAgent
from nmn_keras.runtime import OnnxAgent
from serve.sessions import open_session
from serve.stores import Change, open_store
from msgspec.structs import replace

async def run(name, file):
    agent = OnnxAgent(TinyAgent("tiny").onnx())
    store = open_store(name)
    def jump(offset):
        with open(file, "w") as told:
            told.write(offset)
    wall = time.time()
    session = open_session("tiny", agent, None, now=store.clock(), ttl_seconds=600)
    await store.save([Change("a", None, session), Change("b", None, session)])
    jump("-7200")
    assert time.time() < wall - 7000
    later = replace(session, turn=session.turn + 1, step=1, used=store.clock())
    print(await store.load(["a"]) == [session], await store.save([Change("a", session, later)]), await store.count())
    jump("+7200")
    assert time.time() > wall + 7000
    print([getattr(found, "name", "here") for found in await store.load(["a", "b"])], await store.count())
    select.select([], [], [], 1.1)  # what has expired is emptied at most once a second
    await store.save([Change("c", None, replace(session, born=store.clock(), used=store.clock()))])
    jump("+0")
    print([getattr(found, "name", "here") for found in await store.load(["a", "b", "c"])])
    await store.close()

asyncio.run(run(*sys.argv[1:]))
"""


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_clock_that_jumps(tmp_path, kind):
    """In memory a jump means nothing. A shared store goes by the wall clock: forward ends sessions early, back late."""
    file = tmp_path / "offset"
    file.write_text("+0")
    told = {
        "LD_PRELOAD": library_of_faketime(),
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "PYTHONPATH": str(ROOT),
    }
    name = "memory" if kind == "memory" else f"sqlite:///{tmp_path}/s.db"
    command = [sys.executable, "-c", JUMP, name, str(file)]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **told}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    back, forward, after = done.stdout.splitlines()
    assert back == "True [True] 2"
    if kind == "memory":
        assert (forward, after) == ("['here', 'here'] 2", "['here', 'here', 'here']")
    else:
        assert forward == "['EXPIRED', 'EXPIRED'] 0"
        assert after == "['EXPIRED', 'EXPIRED', 'here']"


@pytest.mark.parametrize(
    "query", ["?durability=full", "?durability", "?sync=power", "?", "?durability=power&x=1", "?durability=power&"]
)
def test_unknown_parameters_of_sqlite_are_refused(tmp_path, query):
    with pytest.raises(ValueError, match=r"\?durability=process or \?durability=power .*Received: "):
        open_store(f"sqlite:///{tmp_path}/s.db{query}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("query", "waits"), [("", False), ("?durability=process", False), ("?durability=power", True)])
def test_what_is_promised_over_power_is_on_the_disk_before_the_answer(tmp_path, query, waits):
    """The system's calls are watched: with durability=power the log is synced between a save and its answer."""
    strace = shutil.which("strace") or pytest.skip("strace is not installed: apt-get install strace")
    script = f"""
import asyncio, os, sys
sys.path[:0] = ["tests"]
from test_store_faults import AGENT, Change, open_session, open_store
async def run():
    store = open_store("sqlite:///{tmp_path}/s.db{query}")
    for index in range(10):
        await store.save([Change(str(index), None, open_session("tiny", AGENT, None, now=store.clock()))])
        os.write(2, b"answer %d" % index)
asyncio.run(run())
"""
    command = [
        strace,
        "-f",
        "-o",
        str(tmp_path / "calls"),
        "-e",
        "trace=fdatasync,fsync,write",
        sys.executable,
        "-c",
        script,
    ]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    if "PTRACE" in done.stderr:
        pytest.skip("processes cannot be watched here")
    assert done.returncode == 0, done.stderr
    calls = (tmp_path / "calls").read_text()
    between = calls[calls.index('"answer 0"') :].split('"answer ')[1:-1]
    assert len(between) == 9
    assert [("fdatasync(" in part or "fsync(" in part) for part in between] == [waits] * 9


def test_memory_is_not_concerned():
    assert MemoryStore().clock() <= time.monotonic()
