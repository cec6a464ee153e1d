import asyncio
import time

import httpx
import numpy as np
import pytest
from msgspec.structs import replace
from onnx_agents import TinyAgent
from redis_process import redis_running

from nmn_keras.runtime import OnnxAgent
from serve.app import create_app
from serve.messages import ManySteps, OneStep
from serve.metrics import Metrics
from serve.problems import Problem
from serve.rounds import Rounds
from serve.sessions import layout_of, open_session
from serve.steps import plan_step
from serve.stores import Change, Gone, open_store
from serve.stores.memory import MemoryStore
from serve.stores.sqlite import SQLiteStore

AGENT = OnnxAgent(TinyAgent("tiny").onnx())
STORES = ("memory", "sqlite", "redis")
SHARED = STORES[1:]


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory):
    with redis_running(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture
def open_named(request, tmp_path):
    """Opens a store of a kind; a shared one is the same each time within a test."""
    kept = []

    def open_named(kind, **limits):
        if kind == "redis":
            name = request.getfixturevalue("redis_url")[:-1] + str(hash(request.node.name) % 16)
        else:
            name = f"sqlite:///{tmp_path}/sessions.db" if kind == "sqlite" else kind
        kept.append(open_store(name, **limits))
        return kept[-1]

    return open_named


def fresh(store, **settings):
    return open_session("tiny", AGENT, None, now=store.clock(), **settings)


def stepped(session, now):
    return replace(session, turn=session.turn + 1, step=session.step + 1, used=now)


async def keep(store, key, before, after):
    (result,) = await store.save([Change(key, before, after)])
    return result


@pytest.mark.parametrize("kind", STORES)
def test_a_change_is_kept_only_if_the_session_is_what_it_was(open_named, kind):
    async def run():
        store = open_named(kind)
        first = fresh(store)
        assert await store.load(["a"]) == [Gone.UNKNOWN]
        assert not await keep(store, "a", first, stepped(first, store.clock()))  # it is not there
        assert await keep(store, "a", None, first) is True
        second = stepped(first, store.clock())
        assert await keep(store, "a", first, second) is True
        for late in (stepped(first, 0.0), None):
            assert await keep(store, "a", first, late) is False
        assert await store.load(["a", "b"]) == [second, Gone.UNKNOWN]
        assert await store.count() == 1
        other = fresh(store)
        assert await keep(store, "a", None, other) is True  # whatever was there
        assert await keep(store, "a", second, None) is False
        assert await keep(store, "a", other, None) is True
        assert await store.load(["a"]) == [Gone.UNKNOWN] and await store.count() == 0
        await store.close()

    asyncio.run(run())


@pytest.mark.parametrize("kind", STORES)
def test_idle_and_old_sessions_are_forgotten_and_used_ones_kept(open_named, kind):
    async def run():
        store = open_named(kind, max_sessions=2, max_age_seconds=1.2)
        used, idle = fresh(store, ttl_seconds=0.6), fresh(store, ttl_seconds=0.4)
        await store.save([Change("used", None, used), Change("idle", None, idle)])
        (problem,) = await store.save([Change("third", None, fresh(store))])
        assert problem.details.status == 503 and problem.headers == {"Retry-After": "1"}
        while store.clock() < used.born + 1.0:
            later = stepped(used, store.clock())
            assert await keep(store, "used", used, later) is True
            used = later
            await asyncio.sleep(0.1)
        assert await store.load(["used", "idle", "third"]) == [used, Gone.EXPIRED, Gone.UNKNOWN]
        assert await keep(store, "idle", idle, stepped(idle, store.clock())) is False
        assert await store.count() == 1
        assert await keep(store, "third", None, fresh(store)) is True  # there is room again
        await asyncio.sleep(used.born + 1.25 - store.clock())
        assert await store.load(["used"]) == [Gone.EXPIRED]
        await store.close()

    asyncio.run(run())


def test_opening_and_deleting_leaves_nothing_in_memory():
    async def run():
        store = MemoryStore()
        session = fresh(store)
        for index in range(2000):
            await store.save([Change(str(index), None, session)])
            await store.save([Change(str(index), session, None)])
        assert len(store._ends) < 200

    asyncio.run(run())


@pytest.mark.parametrize("kind", SHARED)
def test_sessions_outlive_the_store_object(open_named, kind):
    async def write():
        store = open_named(kind)
        session = fresh(store, batch=3, owner="somebody")
        await store.save([Change("a", None, session)])
        await store.close()
        return session

    async def read():
        store = open_named(kind)
        (session,) = await store.load(["a"])
        await store.close()
        return session

    assert asyncio.run(write()) == asyncio.run(read())


@pytest.mark.parametrize("kind", STORES)
def test_every_step_is_taken_once_whoever_asks(open_named, kind):
    """Two processes' worth of rounds over one store, and many clients of one session at once."""

    async def run():
        stores = [open_named(kind)] if kind == "memory" else [open_named(kind), open_named(kind)]
        rounds = [Rounds({"tiny": AGENT}, store, Metrics(["tiny"])) for store in stores]
        await rounds[0].take("a", "", lambda session: session, fresh=fresh(stores[0]))

        def act(session):
            return plan_step(session, AGENT, OneStep([0.5], 1.0 if session.step else None))

        asked = [rounds[index % len(rounds)].take("a", "", act) for index in range(40)]
        after = await asyncio.gather(*asked)
        assert sorted(session.step for session in after) == list(range(1, 41))
        for store in stores:
            await store.close()
        return sorted(after, key=lambda session: session.step)

    action, state = np.zeros((1, 1), np.float32), AGENT.initial_state(1)
    for index, session in enumerate(asyncio.run(run())):
        action, state = AGENT.act([[0.5]], action, [[1.0 if index else 0.0]], state)
        answered = layout_of(AGENT).answered(session)
        np.testing.assert_allclose(answered["action"], action, rtol=1e-5)
        np.testing.assert_allclose(answered["state_out"], state, rtol=1e-5)


def test_a_change_whose_answer_was_lost_is_not_made_twice():
    """The client of a store may send a change again whose answer it missed: the store then finds it changed."""

    class Forgetful(MemoryStore):
        lost = 0

        async def save(self, changes):
            results = await super().save(changes)
            if changes[0].before is not None and not self.lost:
                self.lost += 1
                results = await super().save(changes)
            return results

    async def run():
        store = Forgetful()
        rounds = Rounds({"tiny": AGENT}, store, Metrics(["tiny"]))
        await rounds.take("a", "", lambda session: session, fresh=fresh(store))
        after = await rounds.take("a", "", lambda session: plan_step(session, AGENT, OneStep([0.5])))
        assert store.lost == 1 and after.step == 1 and await store.load(["a"]) == [after]

    asyncio.run(run())


def test_company_changes_nothing():
    """A session's step is bit by bit the same alone and among others, and their mistakes do not concern it."""

    async def run():
        store = MemoryStore()
        rounds = Rounds({"tiny": AGENT}, store, Metrics(["tiny"]))
        rng = np.random.default_rng(0)
        numbers = rng.normal(size=(12, 30)).tolist()
        seeds = [None if index % 3 else index for index in range(12)]
        alone, together = {}, {}
        for kept, name in ((alone, "alone"), (together, "together")):
            for index, seed in enumerate(seeds):
                session = open_session("tiny", AGENT, seed, now=store.clock())
                kept[index] = await rounds.take(f"{name}{index}", "", lambda session: session, fresh=session)

        def asked(name, index, step):
            message = OneStep([numbers[index][step]], numbers[index][step - 1] if step else None)
            return rounds.take(f"{name}{index}", "", lambda session: plan_step(session, AGENT, message))

        for step in range(30):
            for index in range(12):
                alone[index] = await asked("alone", index, step)
            wrong = rounds.take("alone0", "", lambda session: plan_step(session, AGENT, OneStep([1e39], 0.0)))
            *after, refusal = await asyncio.gather(
                *(asked("together", index, step) for index in range(12)), wrong, return_exceptions=True
            )
            assert isinstance(refusal, Problem) and refusal.details.path == "$.observation"
            together.update(enumerate(after))
        assert [alone[index].record for index in range(12)] == [together[index].record for index in range(12)]

    asyncio.run(run())


def test_one_number_too_few_is_not_made_up_for_by_one_too_many():
    """Rewards of different sessions stand behind each other in the batch."""

    async def run():
        store = MemoryStore()
        rounds = Rounds({"tiny": AGENT}, store, Metrics(["tiny"]))
        for key in "ab":
            await rounds.take(key, "", lambda session: session, fresh=fresh(store, batch=2))
        for rewards in ({"a": None, "b": None}, {"a": [1.0], "b": [2.0, 3.0, 4.0]}):
            asked = [
                rounds.take(key, "", lambda s, own=own: plan_step(s, AGENT, ManySteps([[0.5], [0.5]], own)))
                for key, own in rewards.items()
            ]
            answers = await asyncio.gather(*asked, return_exceptions=True)
        assert [answer.details.path for answer in answers] == ["$.reward"] * 2

    asyncio.run(run())


def test_sessions_of_an_agent_that_is_not_served_any_more_are_gone(tmp_path):
    async def ask(agents):
        requests = [("GET", ""), ("GET", "/state"), ("POST", "/fork"), ("POST", "/reset"), ("POST", "/step")]
        transport = httpx.ASGITransport(create_app(agents, SQLiteStore(tmp_path / "sessions.db")))
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
            if "tiny" in agents and agents["tiny"] is AGENT:
                opened.append((await client.post("/v1/agents/tiny/sessions")).json()["session"])
            url = f"/v1/sessions/{opened[0]}"
            return [
                (await client.request(method, url + path, json={"observation": [0.5]} if path == "/step" else None))
                for method, path in requests
            ]

    opened: list[str] = []
    assert [answer.status_code for answer in asyncio.run(ask({"tiny": AGENT}))] == [200, 200, 201, 200, 200]
    for agents in ({"other": AGENT}, {"tiny": OnnxAgent(TinyAgent("tiny", seed=1).onnx())}):
        answers = asyncio.run(ask(agents))
        assert [answer.status_code for answer in answers] == [410] * 5
        assert {answer.json()["type"] for answer in answers} == {"urn:problem-type:nmn:another-version"}


@pytest.mark.parametrize("name", ["", "sqlite://", "sqlite:///", "sqlite:////no/such/folder/file", "postgres://x"])
def test_an_unknown_store_is_refused(name):
    with pytest.raises(ValueError, match=r"Accepted|Cannot keep"):
        open_store(name)


def test_a_store_that_cannot_be_reached_is_said_to_be_so(tmp_path):
    redis = pytest.importorskip("redis", reason="the client of Redis is not installed")
    assert redis
    store = open_store("redis://127.0.0.1:1/0")
    started = time.monotonic()
    with pytest.raises(Problem) as caught:
        asyncio.run(store.load(["a"]))
    assert caught.value.details.status == 503 and "Redis" in caught.value.details.detail
    assert time.monotonic() - started < 30
