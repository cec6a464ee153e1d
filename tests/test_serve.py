import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import gymnasium
import httpx
import numpy as np
import pytest
from server_process import serving

from nmn_keras import zoo
from nmn_keras.envs import resolve
from serve.problems import Problem
from serve.sessions import lock_session, open_session

NATIVE = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def url(agents):
    with serving(agents) as server:
        yield server.url


@pytest.fixture(scope="module")
def client(url):
    with httpx.Client(base_url=url) as client:
        yield client


def open_on(client, name, **settings):
    answer = client.post(f"/v1/agents/{name}/sessions", json=settings)
    assert answer.status_code == 201, answer.text
    return answer.json()["session"]


def step(client, session, **message):
    answer = client.post(f"/v1/sessions/{session}/step", json=message)
    assert answer.status_code == 200, answer.text
    return answer.json()


class Soon:
    """Equal to a time to live of a session that was just used."""

    def __eq__(self, other):
        return 0 < other <= 3600


def described(session, agent, **changed):
    """What the server says of a session."""
    values = {"batch": 1, "step": 0, "episode": 0, "locked": False, "expires_in": Soon()}
    return {"session": session, "agent": agent, **values, **changed}


def check_problem(answer, status, path=None):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status and problem["detail"] and problem["title"]
    assert problem["type"].startswith("urn:problem-type:nmn:")
    assert problem.get("path") == path
    return problem


class InProcess:
    """The same session kept by hand around an `OnnxAgent`."""

    def __init__(self, agents, name, seed=None):
        self.agent = zoo.load(name, runtime="onnx", zoo=agents)
        self.seed, self.steps = seed, 0
        self.reset()

    def reset(self):
        self.state = self.agent.initial_state(1)
        self.action = np.zeros((1, self.agent.action_size), np.float32)

    def step(self, observation, reward=0.0, action=None):
        played = self.action if action is None else [action]
        rng = None if self.seed is None else np.random.default_rng([self.seed, self.steps])
        self.action, self.state = self.agent.act([observation], played, [[reward]], self.state, rng=rng)
        self.steps += 1
        return self.action[0].tolist()


def test_agents_are_listed_and_described(client, agents):
    cards = client.get("/v1/agents").json()["agents"]
    assert [card["name"] for card in cards] == ["loud", "pair", "tiny"]
    card = client.get("/v1/agents/pair").json()
    assert card == cards[1]
    agent = zoo.load("pair", runtime="onnx", zoo=agents)
    assert (card["state_size"], card["signal_size"]) == (agent.state_size, 3)
    assert (card["sha256"], card["env_id"]) == (agent.sha256, agent.env_id)
    assert card["observation"] == {"low": [None, None], "high": [5.0, 5.0]}
    assert card["action"] == {"low": [-20.0, -20.0], "high": [20.0, 20.0], "sizes": None}
    assert card["scores"] == {"return": 1.0}


def test_health(client):
    assert client.get("/health/live").json() == {"status": "live"}
    assert client.get("/health/ready").json() == {"status": "ready"}


def test_a_session_is_created_with_an_id_nobody_can_guess(client):
    answers = [client.post("/v1/agents/tiny/sessions") for _ in range(20)]
    for answer in answers:
        session = answer.json()["session"]
        assert answer.status_code == 201
        assert answer.json() == described(session, "tiny")
        assert answer.headers["location"] == f"/v1/sessions/{session}"
        assert re.fullmatch(r"[\w-]{32}", session)  # 6 bits each
    assert len({answer.json()["session"] for answer in answers}) == 20


def test_an_episode_is_the_same_by_session_statelessly_and_in_process(client, agents):
    reference, session = InProcess(agents, "tiny"), open_on(client, "tiny")
    env = gymnasium.make(resolve("b1"), max_episode_steps=300)
    observation, _ = env.reset(seed=5)
    message, memory, ended = {"observation": observation.tolist()}, {}, False
    while not ended:
        answer = step(client, session, **message)
        stateless = {"observation": message["observation"], **memory}
        other = client.post("/v1/agents/tiny/step", json=stateless).json()
        expected = reference.step(message["observation"], message.get("reward", 0.0))
        assert answer == {"action": expected, "step": reference.steps}
        assert other == {"action": expected, "state": reference.state[0].tolist()}
        action = np.asarray(expected, np.float32)
        observation, reward, _, ended, _ = env.step(action)
        message = {"observation": observation.tolist(), "reward": float(reward)}
        memory = {"prev_action": expected, "prev_reward": float(reward), "state": other["state"]}
    assert reference.steps == 300


def test_many_clients_at_once_do_not_meet(client, agents):
    def play(seed):
        rng, name = np.random.default_rng(seed), ("tiny", "pair")[seed % 2]
        reference, session = InProcess(agents, name), open_on(client, name)
        size, reward = reference.agent.observation_size, 0.0
        for _ in range(30):
            message = {"observation": rng.standard_normal(size).tolist(), "reward": reward}
            assert step(client, session, **message)["action"] == reference.step(**message)
            reward = float(rng.standard_normal())
        return reference.action[0, 0]

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(play, range(16)))) == 16


def test_an_action_played_instead_of_ours_is_what_the_agent_remembers(client, agents):
    reference, session = InProcess(agents, "pair"), open_on(client, "pair")
    ours = InProcess(agents, "pair")
    for played in (None, [3.0, -7.5], None, [20.0, 0.0]):
        message = {"observation": [0.5, -1.0], "reward": 1.0 if reference.steps else 0.0}
        expected = reference.step(action=played, **message)
        unheard = ours.step(**message)
        assert step(client, session, action=played, **message)["action"] == expected
    assert not np.allclose(expected, unheard)


def test_sampled_sessions_repeat_with_their_seed(client, agents):
    reference = InProcess(agents, "pair", seed=11)
    sessions = [
        open_on(client, "pair", deterministic=False, **seed)
        for seed in ({"seed": 11}, {"seed": 11}, {"seed": 12}, {}, {})
    ]
    for _ in range(10):
        message = {"observation": [0.1, 0.2], "reward": -1.0 if reference.steps else 0.0}
        actions = [tuple(step(client, session, **message)["action"]) for session in sessions]
        assert actions[0] == actions[1] == tuple(reference.step(**message))
        assert len(set(actions)) == 4


def test_reset_zeroes_the_memory_and_the_noise_goes_on(client, agents):
    reference = InProcess(agents, "tiny", seed=3)
    session = open_on(client, "tiny", deterministic=False, seed=3)
    for _ in range(2):
        for reward in (None, 1.0, 2.0):
            expected = reference.step([0.7], reward or 0.0)
            answer = step(client, session, observation=[0.7], reward=reward)
            assert answer["action"] == expected
        assert answer["step"] == 3
        answer = client.post(f"/v1/sessions/{session}/reset")
        assert answer.json() == described(session, "tiny")
        reference.reset()


def test_a_deleted_session_is_gone(client):
    session = open_on(client, "tiny")
    answer = client.delete(f"/v1/sessions/{session}")
    assert (answer.status_code, answer.content) == (204, b"")
    for path in ("/step", "/reset"):
        body = {"observation": [0.0]} if path == "/step" else {}
        problem = check_problem(client.post(f"/v1/sessions/{session}{path}", json=body), 404)
        assert problem["type"].endswith(":unknown-session") and session not in problem["detail"]
    check_problem(client.delete(f"/v1/sessions/{session}"), 404)


@pytest.mark.parametrize("path", ["", "/sessions", "/step"])
def test_an_unknown_agent_lists_the_served_ones(client, path):
    method = "POST" if path else "GET"
    problem = check_problem(client.request(method, f"/v1/agents/b9-nmn{path}"), 404)
    assert "Served: loud, pair, tiny. Received: 'b9-nmn'" in problem["detail"]


def test_unknown_routes_and_methods(client):
    assert "GET /v1/agents" in check_problem(client.get("/v1/nothing"), 404)["detail"]
    check_problem(client.get("/v1/agents/"), 404)  # not a redirect, which would name the host that was asked for
    answer = client.get("/v1/agents/tiny/step")
    check_problem(answer, 405)
    assert answer.headers["allow"] == "POST"
    assert client.patch("/v1/sessions/x").headers["allow"] == "DELETE, GET, HEAD"
    assert "GET" in client.post("/page/js/main.js").headers["allow"]


BAD_STEPS = [  # body, status, path
    (b"", 422, "$"),
    (b"{}", 422, "$"),
    (b"[]", 422, "$"),
    (b"{", 400, None),
    (b"\xff\xfe", 400, None),
    (b'{"observation": [0.5], "reward": 1, "\xff": 1}', 400, None),
    (b'{"observation": [0.5], "reward": 1} x', 400, None),
    (b'{"observation": [NaN], "reward": 1}', 400, None),
    (b"[" * 100_000, 422, "$"),
    (b'{"observation": ' + b"[" * 100_000, 422, "$.observation[0]"),
    (b'{"observation": [0.5]}', 422, "$.reward"),
    (b'{"observation": [0.5], "reward": null}', 422, "$.reward"),
    (b'{"observation": [0.5], "reward": [1]}', 422, "$.reward"),
    (b'{"observation": [0.5], "reward": true}', 422, "$.reward"),
    (b'{"observation": [0.5], "reward": 1e39}', 422, "$.reward"),
    (b'{"observation": [0.5], "reward": 1e999}', 422, "$.reward"),
    (b'{"observation": [0.5], "reward": 1, "rewards": 1}', 422, "$"),
    (b'{"observation": 0.5, "reward": 1}', 422, "$.observation"),
    (b'{"observation": [[0.5]], "reward": 1}', 422, "$.observation[0]"),
    (b'{"observation": ["0.5"], "reward": 1}', 422, "$.observation[0]"),
    (b'{"observation": [null], "reward": 1}', 422, "$.observation[0]"),
    (b'{"observation": [], "reward": 1}', 422, "$.observation"),
    (b'{"observation": [0.5, 0.5], "reward": 1}', 422, "$.observation"),
    (b'{"observation": [-1e39], "reward": 1}', 422, "$.observation"),
    (b'{"observation": [1' + b"0" * 400 + b'], "reward": 1}', 422, "$.observation[0]"),
    (b'{"observation": [0.5], "reward": 1, "action": [1, 2]}', 422, "$.action"),
    (b'{"observation": [0.5], "reward": 1, "action": [1e39]}', 422, "$.action"),
    (b'{"observation": [1.0], "reward": 1}', 422, "$"),  # finite, but the action overflows
    (b'{"observation": [0.5], "reward": 1' + b" " * 2_000_000 + b"}", 413, None),
]


@pytest.mark.parametrize(("body", "status", "path"), BAD_STEPS)
def test_a_refused_step_leaves_the_session_as_it_was(client, agents, body, status, path):
    reference, session = InProcess(agents, "loud"), open_on(client, "loud")
    assert step(client, session, observation=[0.01])["action"] == reference.step([0.01])
    for content in (body, (body[i : i + 4096] for i in range(0, len(body), 4096))):
        answer = client.post(f"/v1/sessions/{session}/step", content=content, headers=NATIVE)
        check_problem(answer, status, path)
    answer = step(client, session, observation=[0.02], reward=1.0)
    assert answer == {"action": reference.step([0.02], 1.0), "step": 2}


@pytest.mark.parametrize("locked", [False, True])
@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"action": [1.0, 2.0]}, "$.action"),
        ({"action": []}, "$.action"),
        ({"action": [1e39]}, "$.action"),
        ({"reward": 1e39}, "$.reward"),
        ({"observation": [-1e39]}, "$.observation"),
    ],
)
def test_what_is_wrong_is_refused_of_an_agent_whose_numbers_stay_small_and_under_a_lock(client, locked, wrong, path):
    untold, told = open_on(client, "tiny"), open_on(client, "tiny")
    for session in (untold, told):
        step(client, session, observation=[0.5])
        if locked:
            client.post(f"/v1/sessions/{session}/lock")
    message = {"observation": [0.5], "reward": 1.0, **wrong}
    check_problem(client.post(f"/v1/sessions/{told}/step", json=message), 422, path)
    after = [step(client, session, observation=[0.25], reward=1.0) for session in (untold, told)]
    assert after[0] == after[1] and after[0]["step"] == 2


@pytest.mark.parametrize(
    ("first", "path"),
    [({"reward": 1.0}, "$.reward"), ({"action": [0.5]}, "$.action"), ({"reward": 0.0, "action": [-1]}, "$.action")],
)
def test_the_first_step_has_no_previous_one(client, first, path):
    session = open_on(client, "tiny")
    answer = client.post(f"/v1/sessions/{session}/step", json={"observation": [1.0], **first})
    problem = check_problem(answer, 422, path)
    assert problem["type"].endswith(":nothing-played-yet") and "Received: " in problem["detail"]
    assert step(client, session, observation=[1.0], reward=0.0)["step"] == 1


@pytest.mark.parametrize("batch", [1, 2])
def test_zeros_before_the_first_step_are_nothing(client, batch):
    def rows(value):
        return value if batch == 1 else [value] * batch

    def first(**more):
        session = open_on(client, "tiny", batch=batch)
        return step(client, session, observation=rows([1.0]), **more)

    told = first(reward=rows(0.0), action=rows([0.0]))
    assert told == first() and told["step"] == 1
    session = open_on(client, "tiny", batch=batch)
    short = {"observation": rows([1.0]), "action": rows([0.0, 0.0])}
    assert client.post(f"/v1/sessions/{session}/step", json=short).status_code == 422


@pytest.mark.parametrize("media_type", [None, "text/plain", "application/x-www-form-urlencoded"])
def test_a_body_must_be_declared_as_json(client, media_type):
    headers = {"Content-Type": media_type} if media_type else {}
    body = b'{"observation": [0.5]}'
    answer = client.post("/v1/agents/tiny/step", content=body, headers=headers)
    assert "application/json" in check_problem(answer, 415)["detail"]
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert client.post("/v1/agents/tiny/step", content=body, headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"deterministic": 1}, "$.deterministic"),
        ({"seed": -1}, "$.seed"),
        ({"seed": 2**63}, "$.seed"),
        ({"seed": 0.5}, "$.seed"),
        ({"batch": 0}, "$.batch"),
        ({"batch": 1025}, "$.batch"),
        ({"ttl_seconds": 0}, "$.ttl_seconds"),
        ({"size": 4}, "$"),
    ],
)
def test_a_session_with_bad_settings_is_not_created(client, settings, path):
    check_problem(client.post("/v1/agents/tiny/sessions", json=settings), 422, path)


@pytest.mark.parametrize(
    ("memory", "path"),
    [
        ({"state": [0.0] * 7}, "$.prev_action"),
        ({"prev_action": [0, 0], "prev_reward": 0}, "$.state"),
        ({"prev_action": [0, 0], "prev_reward": 0, "state": [0.0] * 6}, "$.state"),
        ({"prev_action": [0], "prev_reward": 0, "state": [0.0] * 7}, "$.prev_action"),
        ({"prev_action": [0, 0], "prev_reward": 1e39, "state": [0.0] * 7}, "$.prev_reward"),
        ({"prev_action": [0, 0], "prev_reward": 0, "state": [0.0] * 6 + ["x"]}, "$.state[6]"),
    ],
)
def test_a_stateless_step_takes_all_of_the_memory_or_none(client, memory, path):
    message = {"observation": [1.0, 2.0], **memory}
    check_problem(client.post("/v1/agents/pair/step", json=message), 422, path)


def open_request(url, length):
    """Send the head of a step that announces a body of so many bytes."""
    host, port = re.fullmatch(r"http://(.*):(\d+)", url).groups()
    connection = socket.create_connection((host, int(port)), timeout=10)
    head = "POST /v1/agents/tiny/step HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    connection.sendall(f"{head}Content-Length: {length}\r\n\r\n{{".encode())
    return connection


def test_a_client_that_leaves_in_the_middle_of_a_body_harms_nothing(client, url):
    open_request(url, 100).close()
    assert client.get("/health/live").status_code == 200  # and `serving` checks stderr


def test_a_body_announced_too_large_is_refused_before_it_is_sent(url):
    with open_request(url, 10**12) as connection:
        assert connection.recv(1000).startswith(b"HTTP/1.1 413 ")


def test_a_full_server_says_when_to_come_back(agents):
    with serving(agents, "--max-sessions", "2", "--ttl-seconds", "60") as server:
        with httpx.Client(base_url=server.url) as client:
            sessions = [open_on(client, "tiny") for _ in range(2)]
            answer = client.post("/v1/agents/tiny/sessions")
            assert "2 sessions are open" in check_problem(answer, 503)["detail"]
            assert 1 <= int(answer.headers["retry-after"]) <= 60
            step(client, sessions[0], observation=[0.0])
            client.delete(f"/v1/sessions/{sessions[1]}")
            open_on(client, "tiny")


def test_a_session_expires_when_its_client_said(client):
    session = open_on(client, "tiny", ttl_seconds=0.05)
    time.sleep(0.1)
    problem = check_problem(client.post(f"/v1/sessions/{session}/step", json={"observation": [0.0]}), 410)
    assert problem["type"].endswith(":expired-session")
    left = client.post("/v1/agents/tiny/sessions", json={"ttl_seconds": 1e9}).json()["expires_in"]
    assert left <= 3600


def test_a_session_of_many_environments_is_as_many_sessions(client, agents):
    references = [InProcess(agents, "pair") for _ in range(3)]
    session, rng = open_on(client, "pair", batch=3), np.random.default_rng(0)
    rewards = None
    for taken in range(1, 6):
        observations = rng.standard_normal((3, 2)).tolist()
        answer = step(client, session, observation=observations, reward=rewards)
        given = rewards or [0.0] * 3
        expected = [r.step(o, reward) for r, o, reward in zip(references, observations, given, strict=True)]
        np.testing.assert_allclose(answer["action"], expected, rtol=1e-5)
        assert answer["step"] == taken
        rewards = rng.standard_normal(3).tolist()
    for message, path in (
        ({"observation": [0.0, 0.0], "reward": rewards}, "$.observation[0]"),
        ({"observation": observations[:2], "reward": rewards}, "$.observation"),
        ({"observation": observations, "reward": rewards[:2]}, "$.reward"),
        ({"observation": observations, "reward": rewards[:1]}, "$.reward"),
        ({"observation": observations, "reward": 1.0}, "$.reward"),
        ({"observation": observations, "reward": rewards, "action": [[0.0, 0.0]]}, "$.action"),
    ):
        check_problem(client.post(f"/v1/sessions/{session}/step", json=message), 422, path)
    assert client.get(f"/v1/sessions/{session}").json() == described(session, "pair", batch=3, step=5)


def test_further_outputs_come_when_asked_for(client, agents):
    reference, session = InProcess(agents, "pair"), open_on(client, "pair")
    expected = reference.agent.step(*reference.agent.check([[0.3, -0.2]], reference.action, [[0.0]], reference.state))
    url = f"/v1/sessions/{session}/step"
    answer = client.post(f"{url}?include=z,action_log_std", json={"observation": [0.3, -0.2]}).json()
    assert answer.keys() == {"action", "step", "z", "action_log_std"}
    for name in ("z", "action_log_std", "action"):
        assert answer[name] == expected[name][0].tolist()
    problem = client.post(f"{url}?include=z,mean", json={"observation": [0.0, 0.0], "reward": 0})
    assert "action_mean" in check_problem(problem, 422)["detail"]
    assert client.get(f"/v1/sessions/{session}").json()["step"] == 1


def test_a_step_can_be_repeated_and_no_other_number_changes_anything(client, agents):
    reference = InProcess(agents, "tiny", seed=4)
    session = open_on(client, "tiny", deterministic=False, seed=4)
    url = f"/v1/sessions/{session}/step"
    check_problem(client.post(url, json={"observation": [0.1], "step": 0}), 409, "$.step")
    for taken in range(1, 4):
        message = {"observation": [0.1 * taken], "reward": 1.0 if taken > 1 else 0.0, "step": taken}
        expected = reference.step(message["observation"], message["reward"])
        for _ in range(3):
            assert step(client, session, **message) == {"action": expected, "step": taken}
        problem = check_problem(client.post(url, json={**message, "observation": [9.0]}), 409, "$.step")
        assert problem["type"].endswith(":another-request")
        for wrong in (taken - 1, taken + 2):
            problem = check_problem(client.post(url, json={**message, "step": wrong}), 409, "$.step")
            assert f"The next step is {taken + 1}" in problem["detail"]


def test_an_episode_keeps_the_memory(client, agents):
    reference, session = InProcess(agents, "tiny"), open_on(client, "tiny")
    for reward in (0.0, 2.0):
        assert step(client, session, observation=[0.5], reward=reward)["action"] == reference.step([0.5], reward)
    told = client.post(f"/v1/sessions/{session}/episode").json()
    assert told == described(session, "tiny", step=2, episode=1)
    again = client.post(f"/v1/sessions/{session}/episode").json()
    assert again == described(session, "tiny", step=2, episode=1)  # a retry begins no other
    reference.action[:] = 0.0  # nothing was played yet in this episode
    assert step(client, session, observation=[0.7])["action"] == reference.step([0.7])
    client.post(f"/v1/sessions/{session}/episode")
    expected = reference.step([0.7], 3.0)  # told the last step's reward, the agent learns from it
    assert step(client, session, observation=[0.7], reward=3.0)["action"] == expected


def test_a_lock_freezes_the_signal_and_nothing_else(client, agents):
    reference, session = InProcess(agents, "pair"), open_on(client, "pair")
    agent, url = reference.agent, f"/v1/sessions/{session}/step?include=z"
    client.post(f"/v1/sessions/{session}/lock")
    first = client.post(url, json={"observation": [0.1, 0.2]}).json()
    inputs = agent.check([[0.1, 0.2]], reference.action, [[0.0]], reference.state)
    assert first["z"] == agent.step(*inputs)["z"][0].tolist()
    again = client.post(url, json={"observation": [2.0, 1.0], "reward": 5.0}).json()
    assert again["z"] == first["z"] and again["action"] != first["action"]
    assert client.post(f"/v1/sessions/{session}/unlock").json()["locked"] is False
    # The memory goes on from where it was locked, with what was seen and played last.
    state = agent.step(*agent.check([[2.0, 1.0]], inputs[1], inputs[2], inputs[3]))["state_out"]
    expected, _ = agent.act([[0.0, 0.0]], [again["action"]], [[-1.0]], state)
    answer = client.post(url, json={"observation": [0.0, 0.0], "reward": -1.0}).json()
    assert answer["action"] == expected[0].tolist() and answer["z"] != first["z"]
    client.post(f"/v1/sessions/{session}/lock")
    assert client.post(f"/v1/sessions/{session}/reset").json()["locked"] is False


def test_an_agent_without_neuromodulation_has_nothing_to_lock():
    agent = zoo.load("b1-rnn", runtime="onnx")
    with pytest.raises(Problem) as caught:
        lock_session(open_session("b1-rnn", agent, None, now=0.0), agent)
    assert caught.value.details.status == 409


def test_forks_and_restored_sessions_go_on_alike(client, agents):
    session = open_on(client, "tiny", deterministic=False, seed=2)
    for reward in (None, 1.0):
        step(client, session, observation=[0.2], reward=reward)
    fork = client.post(f"/v1/sessions/{session}/fork")
    assert fork.status_code == 201 and fork.json()["step"] == 2
    state = client.get(f"/v1/sessions/{session}/state").json()
    with serving(agents) as elsewhere, httpx.Client(base_url=elsewhere.url) as other:
        restored = open_on(other, "tiny")
        answer = other.put(f"/v1/sessions/{restored}/state", json=state)
        assert answer.json() == described(restored, "tiny", step=2)
        for reward in (0.5, -2.0):
            message = {"observation": [1.5], "reward": reward}
            expected = step(client, session, **message)
            assert expected == step(client, fork.json()["session"], **message) == step(other, restored, **message)
    step(client, session, observation=[9.0], reward=9.0)  # moves no other
    assert step(client, fork.json()["session"], observation=[0.0], reward=0.0)["step"] == 5


def test_a_snapshot_larger_than_other_bodies_may_be_can_be_put_back(agents):
    with serving(agents, "--max-body-bytes", "4096") as server, httpx.Client(base_url=server.url) as client:
        session = open_on(client, "pair", batch=200)
        step(client, session, observation=[[0.5, -0.3]] * 200)
        snapshot = client.get(f"/v1/sessions/{session}/state").content
        assert len(snapshot) > 20_000
        path = f"/v1/sessions/{session}/state"
        assert client.put(path, content=snapshot, headers=NATIVE).status_code == 200
        assert client.get(path).content == snapshot
        assert client.put(path, content=b" " * 10_000_000, headers=NATIVE).status_code == 413


def test_a_state_that_does_not_fit_is_refused(client):
    session, other, wide = open_on(client, "tiny"), open_on(client, "pair"), open_on(client, "tiny", batch=2)
    step(client, session, observation=[0.2])
    state = client.get(f"/v1/sessions/{session}/state").json()
    for changed, status, path in (
        ({}, 409, "$.agent"),
        ({"agent": "pair"}, 409, "$.sha256"),
        ({"state": [[0.0]]}, 409, "$.agent"),
    ):
        check_problem(client.put(f"/v1/sessions/{other}/state", json={**state, **changed}), status, path)
    check_problem(client.put(f"/v1/sessions/{wide}/state", json=state), 409, "$.batch")
    for changed, path in (
        ({"state": [[0.0]]}, "$.state"),
        ({"action": [[1e39]]}, "$.action"),
        ({"before": {**state["before"], "prev_reward": [[0.0], [0.0]]}}, "$.before.prev_reward"),
        ({"step": -1}, "$.step"),
        ({"more": 1}, "$"),
    ):
        check_problem(client.put(f"/v1/sessions/{session}/state", json={**state, **changed}), 422, path)
    assert client.get(f"/v1/sessions/{session}/state").json() == state
