"""Requests that schemathesis makes up from the server's own OpenAPI document, sent to a real server.

Sessions are opened for them and bodies that the server takes are varied, so that what is behind the first checks of a
request is reached too. A bystander, a session that nobody else knows, shows whether the noise changes anything.
"""

from collections import Counter
from dataclasses import dataclass

import httpx
import numpy as np
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import load_all_checks, not_a_server_error
from schemathesis.specs.openapi import checks

load_all_checks()
CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
    checks.negative_data_rejection,
]
NUMBERS = [0, -1, 1, 2, 0.5, -0.0, 1e38, 1e39, 1e308, -1e308, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**400]
SCALARS = st.none() | st.booleans() | st.sampled_from(NUMBERS) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    SCALARS | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=6,
)


def varied(value):
    """Bodies like this one, most of them with one member or element replaced or left out."""
    options = [st.just(value)]
    if isinstance(value, dict):
        options += [varied(member).map(lambda new, key=key: {**value, key: new}) for key, member in value.items()]
        options += [st.just({name: value[name] for name in value if name != key}) for key in value]
    elif isinstance(value, list) and value:
        options += [varied(value[0]).map(lambda new: [new, *value[1:]]), st.just([*value, value[0]]), st.just([])]
    else:
        options += [VALUES]
    return st.one_of(options)


@dataclass
class Bystander:
    """A session that steps beside an agent in this process, which must do the same."""

    client: httpx.Client
    agent: object
    name: str
    steps: int = 0

    def __post_init__(self):
        self.session = open_session(self.client, self.name, deterministic=False, seed=3)
        self.state = self.agent.initial_state(1)
        self.action = np.zeros((1, self.agent.action_size), np.float32)

    def step(self):
        """Take a step, and check it."""
        observation = np.random.default_rng(self.steps).normal(size=(1, self.agent.observation_size))
        reward = 0.25 * self.steps
        noise = np.random.default_rng([3, self.steps])
        self.action, self.state = self.agent.act(observation, self.action, [[reward]], self.state, rng=noise)
        self.steps += 1
        message = {"observation": observation[0].tolist(), "reward": reward, "step": self.steps}
        answer = self.client.post(f"/v1/sessions/{self.session}/step", json=message)
        assert answer.json() == {"action": self.action[0].tolist(), "step": self.steps}, answer.text


def open_session(client, agent, **settings):
    answer = client.post(f"/v1/agents/{agent}/sessions", json=settings)
    assert answer.status_code == 201, answer.text
    return answer.json()["session"]


def fuzz(client, agent, examples, bystander):
    """Send up to five times `examples` requests to each operation; count the statuses each was answered with."""
    schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
    answered = {}
    for result in schema.get_all_operations():
        operation = result.ok()
        counter = answered[operation.definition.raw["operationId"]] = Counter()
        targets = [({}, None), *_targets(client, operation, agent)]
        for strategy, share in _kinds(operation, targets):
            _send(client, strategy, share * examples, counter)
        bystander.step()
    return answered


def _kinds(operation, targets):
    """What schemathesis makes up, valid and not, and bodies like those that the server takes; the share of each."""
    for mode in GenerationMode:
        if mode is GenerationMode.POSITIVE or operation.body or operation.query or operation.headers:
            yield st.one_of(operation.as_strategy(mode, path_parameters=known) for known, _ in targets), 1
    if varieties := [_varieties(operation, known, body) for known, body in targets if body is not None]:
        yield st.one_of(varieties), 3


def _varieties(operation, known, body):
    made = operation.as_strategy(path_parameters=known, body=body, media_type="application/json")
    return st.builds(_with_body, made, varied(body))


def _with_body(case, body):
    case.body = body
    return case


def _targets(client, operation, agent):
    """Path parameters that lead somewhere, and a body that is taken there."""
    names = {parameter.name for parameter in operation.path_parameters}
    content = operation.definition.raw.get("requestBody", {}).get("content", {})
    example = content.get("application/json", {}).get("example")
    if "session" in names:
        for batch in (1, 2):
            session = open_session(client, agent, batch=batch, deterministic=False, seed=batch)
            yield {"session": session}, _body_for_session(client, operation, agent, session, batch)
        return
    known = {name: {"version": "1", "file": "policy.onnx"}.get(name, agent) for name in names}
    yield known, example
    if operation.path.endswith("infer"):
        tensors = client.get(f"/v2/models/{agent}").json()["inputs"]
        for tensor in tensors:
            tensor["shape"][0], tensor["data"] = 1, [0.5] * tensor["shape"][1]
        yield known, {"inputs": tensors, "outputs": [{"name": "action"}, {"name": "state_out"}]}


def _body_for_session(client, operation, agent, session, batch):
    if operation.method == "put":
        return client.get(f"/v1/sessions/{session}/state").json()
    if operation.path.endswith("step"):
        row = client.get(f"/v1/agents/{agent}").json()["observation"]["low"]
        rows = {"observation": [[0.5] * len(row)] * batch, "reward": [0.0] * batch}
        return {**(rows if batch > 1 else {name: values[0] for name, values in rows.items()}), "step": 1}
    return {} if operation.method == "post" else None


def _send(client, strategy, examples, counter):
    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],  # sessions change: what failed cannot be replayed to be made smaller
        suppress_health_check=[*HealthCheck],
    )
    @given(strategy)
    def send(case):
        response = case.call(base_url=str(client.base_url), session=connection)
        counter[response.status_code] += 1
        case.validate_response(response, checks=CHECKS)

    with requests.Session() as connection:
        send()
