"""The client against real servers: over HTTP and a WebSocket, blocking and on asyncio, and over a bad line."""

import asyncio
import contextlib
import inspect
import pickle
import re
import socket
import subprocess
import sys
import threading
import time

import gymnasium
import httpx
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from lossy_forwarder import CUT, Forwarder
from server_process import ROOT, serving

from nmn_keras import envs, zoo
from nmn_keras.client import (
    AgentClient,
    AsyncAgentClient,
    ExpiredSession,
    NoAnswer,
    ServerError,
    UnknownSession,
    play,
    retries,
)
from nmn_keras.envs.gym import MovingTargetVectorEnv
from nmn_keras.evaluation import evaluate

BAD_GATEWAY = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 9\r\nConnection: close\r\n\r\nno server"
PROXY_FAILED = BAD_GATEWAY.replace(b"502 Bad Gateway", b"500 Internal Server Error")
STEPS = 60
KINDS = [(cls, transport) for cls in (AgentClient, AsyncAgentClient) for transport in ("http", "websocket")]


@pytest.fixture(scope="module")
def url(agents):
    with serving(agents) as server:
        yield server.url


class Awaited:
    """An `AsyncAgentClient` whose methods wait, so that one test holds for both classes."""

    def __init__(self, runner, client):
        self.__dict__.update(runner=runner, client=client)

    def __getattr__(self, name):
        value = getattr(self.client, name)
        if not inspect.iscoroutinefunction(value):
            return value

        def call(*arguments):
            result = self.runner.run(value(*arguments))
            return Awaited(self.runner, result) if isinstance(result, AsyncAgentClient) else result

        return call

    def __setattr__(self, name, value):
        setattr(self.client, name, value)


@pytest.fixture(params=KINDS, ids=lambda kind: f"{kind[0].__name__}-{kind[1]}")
def connect(request, url):
    """Open clients of one kind; they are closed at the end."""
    cls, transport = request.param
    with contextlib.ExitStack() as stack:
        runner = stack.enter_context(asyncio.Runner())

        def connect(agent=None, url=url, **options):
            client = cls(url, agent, transport=transport, **options)
            client = Awaited(runner, client).open() if cls is AsyncAgentClient else client
            stack.callback(client.close)
            return client

        yield connect


class InProcess:
    """An `OnnxAgent` under `client.step`."""

    def __init__(self, agents, name, batch=1, seed=None):
        self.agent = zoo.load(name, runtime="onnx", zoo=agents)
        self.batch, self.seed, self.steps = batch, seed, 0
        self.state = self.agent.initial_state(batch)
        self.action = np.zeros((batch, self.agent.action_size), np.float32)

    def step(self, observation, reward=None):
        rng = None if self.seed is None else np.random.default_rng([self.seed, self.steps])
        observation = np.reshape(observation, (self.batch, -1))
        rewards = np.reshape(np.zeros(self.batch) if reward is None else reward, (self.batch, 1))
        self.action, self.state = self.agent.act(observation, self.action, rewards, self.state, rng=rng)
        self.steps += 1
        return self.action[0] if self.batch == 1 else self.action


def play_b1(client, steps, before=lambda step: None):
    """Play one episode of benchmark 1 and return its actions; `before` is called before each step."""
    env = envs.make_vec("b1", client.batch, max_episode_steps=steps + 1)
    observation, _ = env.reset(seed=5)
    reward, actions = None, []
    for step in range(steps):
        before(step)
        action = client.step(observation[0] if client.batch == 1 else observation, reward)
        observation, rewards, *_ = env.step(action.reshape(client.batch, -1))
        reward = rewards[0] if client.batch == 1 else rewards
        actions.append(action)
    return np.stack(actions)


@pytest.mark.parametrize(("batch", "seed"), [(1, None), (3, 7)])
def test_an_episode_is_the_same_over_the_network_as_in_process(connect, agents, batch, seed):
    client = connect("tiny", batch=batch, deterministic=seed is None, seed=None if seed is None else np.int64(seed))
    actions = play_b1(client, STEPS)
    assert actions.dtype == np.float32 and actions.shape == ((STEPS, 1) if batch == 1 else (STEPS, batch, 1))
    np.testing.assert_array_equal(actions, play_b1(InProcess(agents, "tiny", batch, seed), STEPS))
    assert len(np.unique(actions)) > 10
    assert client.steps == client.describe()["step"] == STEPS


# A cut line, half an answer, two cuts in a row, proxies' own words, no answer at all, one that comes too late.
FAULTS = {1: [CUT], 3: [b"HTTP/1.1 200 OK\r\nContent-Le"], 5: [CUT, CUT], 7: [BAD_GATEWAY, PROXY_FAILED]}
FAULTS |= {9: [None], 10: [0.7]}


def test_a_lost_answer_is_asked_for_again_and_the_step_taken_once(connect, url, agents, monkeypatch):
    monkeypatch.setattr(retries, "FIRST_DELAY", 0.02)
    with Forwarder(url) as forwarder:
        client = connect("tiny", forwarder.url, deterministic=False, seed=3, timeout=0.5)
        actions = play_b1(client, 12, before=lambda step: forwarder.faults.extend(FAULTS.get(step, ())))
        assert forwarder.lost == 8 and not forwarder.faults
        assert client.steps == client.describe()["step"] == 12
        np.testing.assert_array_equal(actions, play_b1(InProcess(agents, "tiny", seed=3), 12))
        client.close()


def test_other_requests_are_repeated_too_and_nothing_is_opened_twice(agents, connect, monkeypatch):
    monkeypatch.setattr(retries, "FIRST_DELAY", 0.02)

    def opened():
        found = re.search(r"^nmn_sessions (\S+)", httpx.get(f"{server.url}/metrics").text, re.MULTILINE)
        return float(found[1])

    with serving(agents) as server, Forwarder(server.url) as forwarder:
        forwarder.faults.extend([CUT, 0.0, CUT, BAD_GATEWAY, PROXY_FAILED])  # the agent's card is asked for first
        client = connect("tiny", forwarder.url)
        assert opened() == 1
        client.step([0.5])
        for call in (client.begin_episode, client.lock, client.unlock, client.describe, client.state, client.reset):
            forwarder.faults.append(CUT)
            call()
        assert (client.steps, client.describe()["step"]) == (0, 0)
        for number, fault in enumerate((CUT, BAD_GATEWAY, PROXY_FAILED), start=2):
            forwarder.faults.append(fault)
            forked = client.fork()
            assert opened() == number and forked.session != client.session
            forked.detach()
        assert forwarder.lost == 14
        client.close()


def test_a_server_that_is_not_there_yet_is_waited_for(url):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(NoAnswer) as caught:
        AgentClient(f"http://127.0.0.1:{port}", "tiny", retries=1)
    assert not caught.value.sent and isinstance(caught.value, ConnectionError)
    with contextlib.ExitStack() as stack:
        timer = threading.Timer(0.3, lambda: stack.enter_context(Forwarder(url, port)))
        timer.start()
        with AgentClient(f"http://127.0.0.1:{port}", "tiny") as client:
            assert client.step([0.5]).shape == (1,)
        timer.join()


def test_a_stream_that_could_not_be_opened_sent_nothing(agents):
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(serving(agents))
        client = AgentClient(server.url, "tiny", transport="websocket", retries=0)
        stack.close()
        with pytest.raises(NoAnswer) as caught:
            client.step([0.5])
        assert not caught.value.sent
        client.close()


def test_another_server_is_told_from_ours():
    answers = [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n" + body for body in (b"{}", b"[]")]
    for answer in answers:
        with socket.create_server(("127.0.0.1", 0)) as other:

            def reply(other=other, answer=answer):
                with other.accept()[0] as connection:
                    connection.recv(4096)
                    connection.sendall(answer)

            threading.Thread(target=reply, daemon=True).start()
            url = f"http://127.0.0.1:{other.getsockname()[1]}"
            with pytest.raises(ServerError, match=r"describes no session.* Is it nmn_keras that serves"):
                AgentClient(url, session="s", retries=0)


def test_opening_twice_opens_one_session(url):
    async def use():
        client = await AsyncAgentClient(url, "tiny").open()
        await client.step([0.5])
        session = client.session
        async with client:
            assert (client.session, client.steps) == (session, 1)

    asyncio.run(use())


def test_a_full_server_is_waited_for_as_long_as_it_says_if_that_is_not_long(agents):
    with serving(agents, "--max-sessions", "1") as server:
        AgentClient(server.url, "tiny", ttl_seconds=1).detach()
        began = time.monotonic()
        with AgentClient(server.url, "tiny"):
            assert time.monotonic() - began > 0.5
            with pytest.raises(ServerError, match="1 sessions are open") as caught:
                AgentClient(server.url, "tiny")  # longer than a client waits
            assert caught.value.status == 503 and caught.value.retry_after == 60


def test_pauses_grow_and_no_two_clients_keep_the_same():
    drawn = [list(retries.delays(8)) for _ in range(20)]
    assert all(0.1 <= pause[0] <= 0.2 and 2.5 <= pause[7] <= 5.0 for pause in drawn)
    assert len({pause[0] for pause in drawn}) == 20


def test_errors_come_with_the_words_of_the_server(connect, url):
    client = connect("pair")
    client.step([0.1, 0.2])
    with pytest.raises(ServerError, match=r"the previous step's reward is required.* \(422 at \$\.reward\)") as caught:
        client.step([0.1, 0.2])
    error = caught.value
    assert (error.status, error.type, error.path) == (422, "urn:problem-type:nmn:missing-reward", "$.reward")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert client.steps == 1 and client.step([0.1, 0.2], 1.0).shape == (2,)  # nothing was changed
    httpx.post(f"{url}/v1/sessions/{client.session}/step", json={"observation": [0.0, 0.0], "reward": 0.0})
    with pytest.raises(ServerError, match="The next step is 4") as caught:
        client.step([0.1, 0.2], 1.0)
    assert caught.value.status == 409
    assert client.describe()["step"] == client.steps == 3
    client.step([0.1, 0.2], 1.0)
    httpx.delete(f"{url}/v1/sessions/{client.session}")
    with pytest.raises(UnknownSession, match="No such session is open"):
        client.step([0.1, 0.2], 1.0)
    with pytest.raises(ServerError, match="Served: loud, pair, tiny") as caught:
        connect("b9-nmn")
    assert caught.value.status == 404 and not isinstance(caught.value, UnknownSession)
    with pytest.raises(ServerError, match="batch") as caught:
        connect("tiny", batch=0)
    assert caught.value.status == 422


def test_an_expired_session_is_told_from_an_unknown_one(connect):
    client = connect("tiny", ttl_seconds=0.2)
    client.step([0.5])
    time.sleep(0.3)
    with pytest.raises(ExpiredSession, match="idle for longer") as caught:
        client.step([0.5], 0.0)
    assert caught.value.status == 410
    with pytest.raises(UnknownSession) as caught:
        connect(session="unknown")
    assert caught.value.status == 404


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"transport": "carrier pigeon"}, "Accepted: http, websocket. Received: 'carrier pigeon'"),
        ({"url": "127.0.0.1:8000"}, "must look like http://127.0.0.1:8000. Received: '127"),
        ({"url": "http://127.0.0.1:abc"}, "must look like http://127.0.0.1:8000. Received: 'http"),
        ({"api_key": "0123456789abcdef\n"}, "^`api_key` must be visible ASCII characters.*end of line.$"),
        ({"api_key": "schl\u00fcssel"}, "^`api_key` must be visible ASCII characters"),
        ({"include": ("z", "q")}, "takes z, action_mean, action_log_std, logits. Received: q"),
        ({"timeout": 0}, "`timeout` must be a positive number of seconds. Received: 0"),
        ({"retries": -1}, "`retries` must be a whole number from 0. Received: -1"),
        ({"session": "s", "seed": 1}, "keeps its own settings.* Received with `session`: seed=1"),
    ],
)
def test_wrong_settings_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        AgentClient(**options)


def test_wrong_arguments_are_refused_before_anything_is_sent(connect, url):
    with Forwarder(url) as forwarder:
        one, many = connect("pair", forwarder.url), connect("pair", forwarder.url, batch=2)
        sent = forwarder.sent
        for client, arguments, words in (
            (one, [[0.5]], r"`observation` .* Accepted is float32 of shape \(2,\). Received: shape \(1,\)"),
            (one, [[[0.1, 0.2]]], r"Received: shape \(1, 2\)"),
            (one, [["a", "b"]], "`observation` is not made of numbers.* Received: "),
            (one, [[0.1, 1e39]], "`observation` must be finite.* Received: inf"),
            (one, [[0.1, 0.2], [1.0]], r"`reward` .* Accepted is one number. Received: shape \(1,\)"),
            (one, [[0.1, 0.2], None, 1.0], r"`action` .* Received: shape \(\)"),
            (many, [[0.1, 0.2]], r"Accepted is float32 of shape \(2, 2\)"),
            (many, [np.zeros((2, 2)), 1.0], r"`reward` .* shape \(2,\)"),
        ):
            with pytest.raises(ValueError, match=words):
                client.step(*arguments)
        assert forwarder.sent == sent
        one.close(), many.close()


def test_further_outputs_are_in_last(connect, agents):
    plain, client = connect("pair"), connect("pair", include=("z", "action_log_std"))
    assert client.last is None
    agent = zoo.load("pair", runtime="onnx", zoo=agents)
    expected = agent.step(*agent.check([[0.1, 0.2]], [[0.0, 0.0]], [[0.0]], agent.initial_state(1)))
    np.testing.assert_array_equal(client.step([0.1, 0.2]), client.last.action)
    for name in ("action", "z", "action_log_std"):
        np.testing.assert_array_equal(getattr(client.last, name), expected[name][0])
    assert client.last.action_mean is None and client.last.step == 1
    plain.step([0.1, 0.2])
    assert plain.last.z is None


def test_what_was_played_instead_is_told(connect, agents):
    told, reference, untold = connect("pair"), InProcess(agents, "pair"), connect("pair")
    for client in (told, reference, untold):
        client.step([0.5, -1.0])
    reference.action[:] = [[3.0, -7.5]]
    expected = reference.step([0.5, -1.0], 1.0)
    np.testing.assert_array_equal(told.step([0.5, -1.0], 1.0, [3.0, -7.5]), expected)
    assert not np.allclose(untold.step([0.5, -1.0], 1.0), expected)


def test_forks_and_restored_sessions_go_on_alike(connect):
    client = connect("tiny", deterministic=False, seed=2, include="z")
    client.step([0.2]), client.step([0.2], 1.0)
    fork, snapshot, other = client.fork(), client.state(), connect("tiny")
    other.restore(snapshot)
    assert fork.session != client.session and fork.steps == other.steps == 2
    for reward in (0.5, -2.0):
        action = client.step([1.5], reward)
        for follower in (fork, other):
            np.testing.assert_array_equal(follower.step([1.5], reward), action)
        np.testing.assert_array_equal(fork.last.z, client.last.z)
    client.step([9.0], 9.0)  # moves no other
    assert (client.steps, fork.describe()["step"]) == (5, 4)
    client.restore(snapshot)
    other.restore(snapshot)
    np.testing.assert_array_equal(client.step([1.5], 0.5), other.step([1.5], 0.5))
    assert client.steps == 3
    foreign = connect("pair")
    with pytest.raises(ServerError, match="must be 'pair'") as caught:
        foreign.restore(snapshot)
    assert caught.value.status == 409
    fork.close()


def test_episodes_resets_and_locks(connect, agents):
    client = connect("pair", include="z")
    client.step([0.1, 0.2])
    client.lock()
    client.step([2.0, 1.0], 5.0)
    locked = client.last.z
    client.step([0.0, 3.0], -5.0)
    np.testing.assert_array_equal(client.last.z, locked)
    client.unlock()
    client.step([0.0, 3.0], -5.0)
    assert not np.allclose(client.last.z, locked)
    client.begin_episode()
    assert client.steps == 4
    client.step([0.0, 0.0])  # without a reward
    assert client.describe()["episode"] == 1
    client.reset()
    assert client.steps == 0
    np.testing.assert_array_equal(client.step([0.1, 0.2]), InProcess(agents, "pair").step([0.1, 0.2]))


def status(url, session):
    return httpx.get(f"{url}/v1/sessions/{session}").status_code


def test_closing_deletes_what_the_client_opened_and_leaves_what_it_was_given(connect, url):
    client = connect("tiny")
    session = client.session
    client.step([0.5])
    resumed = connect(session=session)
    assert (resumed.agent, resumed.batch, resumed.steps, resumed.card["name"]) == ("tiny", 1, 1, "tiny")
    resumed.step([0.5], 1.0)
    resumed.close()
    assert status(url, session) == 200
    assert client.describe()["step"] == 2 and client.detach() == session
    assert status(url, session) == 200
    with pytest.raises(ValueError, match="is of agent 'tiny'"):
        connect("pair", session=session)
    last = connect("tiny", session=session)
    last.keep = False
    fork = last.fork()
    for ended in (last, fork):
        ended.step([0.5], 1.0)
        ended.close()
        assert status(url, ended.session) == 404
        ended.close()  # once more does no harm
        with pytest.raises(RuntimeError, match="The client is closed"):
            ended.step([0.5], 1.0)


def test_a_with_block_ends_the_session_even_if_the_server_forgot_it(url):
    async def use():
        client = AsyncAgentClient(url, "tiny")
        with pytest.raises(RuntimeError, match="has no session yet"):
            await client.step([0.5])
        async with client:
            await client.step([0.5])
            return client.session

    with AgentClient(url, "tiny") as client:
        client.step([0.5])
        assert repr(client) == f"<AgentClient of tiny at {url}: 1 steps>"
    assert status(url, client.session) == status(url, asyncio.run(use())) == 404
    with AgentClient(url, "tiny") as client:
        httpx.delete(f"{url}/v1/sessions/{client.session}")


def test_a_cancelled_step_leaves_no_answer_behind_for_the_next_one(url, agents):
    """Over a WebSocket the answer still comes; it must not be taken for that of the step after."""

    async def use(forwarder):
        async with AsyncAgentClient(forwarder.url, "tiny", transport="websocket") as client:
            await client.step([0.1])
            forwarder.faults.append(0.4)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.step([0.2], 1.0), 0.1)
            assert (await client.describe())["step"] == client.steps == 2  # it was taken
            return await client.step([0.3], 2.0)

    reference = InProcess(agents, "tiny")
    expected = [reference.step([0.1]), reference.step([0.2], 1.0), reference.step([0.3], 2.0)]
    with Forwarder(url) as forwarder:
        np.testing.assert_array_equal(asyncio.run(use(forwarder)), expected[-1])


def test_the_key_is_sent_with_requests_and_with_the_handshake(connect, url):
    with Forwarder(url) as forwarder:
        client = connect("tiny", forwarder.url, api_key="sesame")
        client.step([0.5])
        heads = [part for part in forwarder.sent.split(b"\r\n\r\n") if b" HTTP/1.1\r\n" in part]
        assert len(heads) == 3 and all(b"authorization: bearer sesame" in head.lower() for head in heads)
        client.close()


def test_play_gives_the_scores_of_evaluate(url, agents):
    agent = zoo.load("tiny", runtime="onnx", zoo=agents)
    expected = evaluate(agent, "b1", episodes=4, env_kwargs={"max_episode_steps": 100})["return"]
    seed = int(np.random.default_rng([0, 0, 2**31]).integers(2**31))  # of the published scores
    with AgentClient(url, "tiny", batch=4) as client:
        returns = play(envs.make_vec("b1", 4, max_episode_steps=100), client, seed=seed)
    assert len(returns) == 4 and np.ptp(returns) > 0
    assert np.mean(returns) == pytest.approx(expected, rel=1e-12)


def in_process_returns(agent, env, episodes, seed):
    """Returns of episodes in a row: every step but the first is told what came of the one before."""
    returns, reward = [], None
    for episode in range(episodes):
        observation, _ = env.reset(seed=None if episode else seed)
        ended = False
        returns.append(0.0)
        while not ended:
            observation, reward, _, ended, _ = env.step(agent.step(observation, reward))
            returns[-1] += reward
    return returns


def test_play_tells_the_agent_the_last_reward_of_the_episode_before(url, agents):
    env = gymnasium.make(envs.resolve("b1"), max_episode_steps=30)
    expected = in_process_returns(InProcess(agents, "tiny"), env, 3, seed=2)
    with AgentClient(url, "tiny") as client:
        assert play(env, client, episodes=3, seed=2) == pytest.approx(expected, rel=1e-12)
        told = client.describe()
        assert (told["step"], told["episode"]) == (90, 2)
        play(env, client, options={"task": 1.0})
        assert client.describe()["episode"] == 3 and env.unwrapped.task == 1.0


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.DISABLED])
def test_play_counts_every_environment_s_own_episodes(url, agents, mode):
    lengths = (20, 33)
    makers = [lambda length=length: gymnasium.make(envs.resolve("b1"), max_episode_steps=length) for length in lengths]
    with AgentClient(url, "tiny", batch=2) as client:
        returns = play(SyncVectorEnv(makers, autoreset_mode=mode), client, episodes=2, seed=4)
        assert client.steps == 66
    singly = [in_process_returns(InProcess(agents, "tiny"), make(), 2, 4 + row) for row, make in enumerate(makers)]
    np.testing.assert_allclose(np.reshape(returns, (2, 2)), np.transpose(singly), rtol=1e-4)


def test_play_with_our_vector_environments(url, agents):
    """Both autoreset modes draw the same, so they give the same; N may be 1."""
    for batch in (1, 3):
        returns = []
        for mode in (AutoresetMode.SAME_STEP, AutoresetMode.DISABLED):
            env = MovingTargetVectorEnv(batch, max_episode_steps=25, autoreset_mode=mode)
            with AgentClient(url, "tiny", batch=batch) as client:
                returns.append(play(env, client, episodes=2, seed=1))
                assert client.describe()["episode"] == 1
        assert returns[0] == returns[1] and len(set(returns[0])) == 2 * batch


def test_play_refuses_what_does_not_fit(url):
    with AgentClient(url, "tiny", batch=2) as client:
        for env, episodes, words in (
            (envs.make_vec("b1", 3), 1, "batch 2 steps as many environments. Received: 3"),
            (gymnasium.make(envs.resolve("b1")), 1, "Received: 1"),
            (envs.make_vec("b1", 2), 0, "`episodes` must be a positive integer. Received: 0"),
            (
                SyncVectorEnv([lambda: gymnasium.make(envs.resolve("b1"))] * 2),
                1,
                "Accepted: SAME_STEP, DISABLED. Received: AutoresetMode.NEXT_STEP",
            ),
        ):
            with pytest.raises(ValueError, match=words):
                play(env, client, episodes)
        assert client.describe()["step"] == 0


def test_a_missing_library_is_named_with_what_installs_it():
    script = """
import sys
sys.modules["websockets"] = None
from nmn_keras.client import AgentClient
try:
    AgentClient(transport="websocket")
except ModuleNotFoundError as error:
    print(error)
for name in [name for name in sys.modules if name.startswith("nmn_keras.client")]:
    del sys.modules[name]
sys.modules["httpx"] = None
try:
    import nmn_keras.client
except ModuleNotFoundError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.stderr == "" and done.stdout.count('pip install "nmn_keras[client]"') == 2
