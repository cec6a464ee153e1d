"""Opening and forking that are sent more than once, on every store."""

import asyncio

import httpx
import pytest
from onnx_agents import TinyAgent
from redis_process import redis_running

from nmn_keras.runtime import OnnxAgent
from serve import idempotency
from serve.app import create_app
from serve.stores import Change, Claim, open_store
from serve.stores.memory import MemoryStore

AGENT = OnnxAgent(TinyAgent("tiny").onnx())
KEY = {"Idempotency-Key": '"8e03978e-40d5-43dd-bc93-6894a57f9324"'}
OPEN = "/v1/agents/tiny/sessions"


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory):
    with redis_running(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture
def stores(request, tmp_path):
    """Opens the store as one of two servers does; in memory there is one."""
    kind = request.param
    name = {"sqlite": f"sqlite:///{tmp_path}/s.db", "memory": "memory"}.get(kind) or request.getfixturevalue(
        "redis_url"
    )
    return lambda: open_store(name)


def client_of(store, **options):
    transport = httpx.ASGITransport(create_app({"tiny": AGENT}, store, **options))
    return httpx.AsyncClient(transport=transport, base_url="http://server")


every_store = pytest.mark.parametrize("stores", ["memory", "sqlite", "redis"], indirect=True)


@every_store
def test_a_repeated_request_makes_one_session_and_another_one_is_refused(stores):
    async def run():
        store = stores()
        other = store if isinstance(store, MemoryStore) else stores()
        async with client_of(store) as one, client_of(other) as two:
            before = await store.count()
            first = await one.post(OPEN, json={"seed": 7, "deterministic": False}, headers=KEY)
            again = await two.post(OPEN, json={"deterministic": False, "seed": 7}, headers=KEY)
            assert first.status_code == again.status_code == 201
            assert first.headers["location"] == again.headers["location"] == f"/v1/sessions/{again.json()['session']}"
            session = f"/v1/sessions/{first.json()['session']}"
            for path, body in ((OPEN, {"seed": 8, "deterministic": False}), (OPEN, None), (f"{session}/fork", None)):
                refused = await two.post(path, json=body, headers=KEY)
                assert refused.status_code == 422 and refused.json()["type"].endswith(":idempotency-key-reused")
            await one.post(f"{session}/step", json={"observation": [0.5]})
            fork = {"Idempotency-Key": '"fork"'}
            forks = [(await client.post(f"{session}/fork", headers=fork)).json() for client in (one, two, one)]
            assert len({answer["session"] for answer in forks}) == 1 and forks[0]["step"] == 1
            assert (await one.post(OPEN)).json()["session"] != (await one.post(OPEN)).json()["session"]
            assert await store.count() == before + 4
            await one.delete(session)
            gone = await two.post(OPEN, json={"seed": 7, "deterministic": False}, headers=KEY)
            assert gone.status_code == 404 and await store.count() == before + 3  # what was ended is not made anew
        await other.close()
        await store.close()

    asyncio.run(run())


@every_store
def test_two_servers_that_are_asked_at_once_make_one_session(stores):
    async def run():
        store = stores()
        other = store if isinstance(store, MemoryStore) else stores()
        async with client_of(store) as one, client_of(other) as two:
            before = await store.count()
            headers = {"Idempotency-Key": '"at once"'}
            answers = await asyncio.gather(*(client.post(OPEN, headers=headers) for client in (one, two) * 10))
            made = [answer.json()["session"] for answer in answers if answer.status_code == 201]
            busy = [answer for answer in answers if answer.status_code == 409]
            assert len(set(made)) == 1 and len(made) + len(busy) == 20
            assert all(answer.json()["type"].endswith(":request-in-progress") for answer in busy)
            assert all(answer.headers["retry-after"] == "1" for answer in busy)
            assert (await two.post(OPEN, headers=headers)).json()["session"] == made[0]
            assert await store.count() == before + 1
        await other.close()
        await store.close()

    asyncio.run(run())


@every_store
def test_a_repeat_while_the_first_is_in_progress_is_409(stores):
    async def run():
        store = stores()
        going, come = asyncio.Event(), asyncio.Event()
        saving = store.save

        async def slow_save(changes):
            come.set()
            await going.wait()
            return await saving(changes)

        store.save = slow_save
        headers = {"Idempotency-Key": '"slow"'}
        async with client_of(store) as client:
            first = asyncio.create_task(client.post(OPEN, headers=headers))
            await come.wait()
            assert (await client.post(OPEN, headers=headers)).status_code == 409
            going.set()
            made = (await first).json()["session"]
            assert (await client.post(OPEN, headers=headers)).json()["session"] == made
        await store.close()

    asyncio.run(run())


@every_store
def test_a_key_is_forgotten_after_a_while_and_is_its_owner_s(stores, monkeypatch):
    async def run():
        store = stores()
        headers = {"Idempotency-Key": '"short"'}
        monkeypatch.setattr(idempotency, "KEEP_SECONDS", 0.3)
        keys = [f"{name}-0123456789abcdef" for name in ("ann", "bob")]
        async with client_of(store, api_keys=keys) as client:

            async def opened(key):
                answer = await client.post(OPEN, headers={**headers, "Authorization": f"Bearer {key}"})
                return answer.json()["session"]

            ann, bob = await opened(keys[0]), await opened(keys[1])
            assert ann != bob and await opened(keys[0]) == ann
            await asyncio.sleep(0.4)
            assert await opened(keys[0]) != ann
        await store.close()

    asyncio.run(run())


def test_what_was_refused_laid_no_claim():
    async def run():
        async with client_of(MemoryStore(max_sessions=1)) as client:
            first = (await client.post(OPEN)).json()["session"]
            assert (await client.post(OPEN, headers=KEY)).status_code == 503
            await client.delete(f"/v1/sessions/{first}")
            assert (await client.post(OPEN, headers=KEY)).status_code == 201

    asyncio.run(run())


@pytest.mark.parametrize("key", ["8e03978e", '""', '"a', '"a" "b"', "'a'", '"' + "a" * 256 + '"', '"a\\b"', ":YQ==:"])
def test_what_is_no_string_is_refused(key):
    async def run():
        async with client_of(MemoryStore()) as client:
            refused = await client.post(OPEN, headers={"Idempotency-Key": key})
            assert refused.status_code == 400 and "Received: " in refused.json()["detail"]
            twice = [("Idempotency-Key", '"a"'), ("Idempotency-Key", '"a"')]
            assert (await client.post(OPEN, headers=twice)).status_code == 400
            assert (await client.post(OPEN, headers={"Idempotency-Key": '"a\\"b\\\\"; v=1'})).status_code == 201

    asyncio.run(run())


def test_claims_do_not_gather_in_memory():
    async def run():
        now = [0.0]
        store = MemoryStore(clock=lambda: now[0])
        for index in range(1000):
            now[0] += 1.0
            await store.claimed(str(index))
            await store.save([Change(str(index), None, None, Claim(str(index), b"", now[0] + 10.0))])
        assert len(store._claims) <= 11

    asyncio.run(run())
