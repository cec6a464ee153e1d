"""BentoML: a service with one worker, its method a coroutine so that no thread is woken; no access log, no metrics.

No adaptive batching: it waits for a batch, and the network is the least of a request.
"""

import os

import bentoml
from policy import Policy


@bentoml.service(
    workers=1,
    metrics={"enabled": False},
    logging={"access": {"enabled": False}},
)
class Recurrent:
    """The session's id comes with the observation."""

    def __init__(self) -> None:
        self.policy = Policy(os.environ["POLICY"])

    @bentoml.api
    async def step(self, session: str, observation: list[float], reward: float) -> dict:
        return {"action": self.policy.step(session, observation, reward)}
