"""MLServer: a custom runtime that steps in the server's own process (`parallel_workers` 0).

No debug mode (it logs every request), no metrics server, no gzip. No adaptive batching: it waits for a batch, and the
network is the least of a request.
"""

import asyncio
import sys

from mlserver import MLModel, MLServer, ModelSettings, Settings
from mlserver.settings import ModelParameters
from mlserver.types import InferenceRequest, InferenceResponse, ResponseOutput
from mlserver.utils import install_uvloop_event_loop
from policy import Policy


class Recurrent(MLModel):
    """The session's id comes as a parameter of the request."""

    async def load(self) -> bool:
        self.policy = Policy(self.settings.parameters.uri)
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        observation, reward = payload.inputs
        action = self.policy.step(payload.parameters.session, observation.data.root, reward.data.root[0])
        output = ResponseOutput(name="action", shape=[1, len(action)], datatype="FP32", data=action)
        return InferenceResponse(model_name=self.name, outputs=[output])


async def main(port: str, path: str) -> None:
    settings = Settings(
        host="127.0.0.1",
        http_port=int(port),
        grpc_port=int(port) + 1,
        debug=False,
        parallel_workers=0,
        metrics_endpoint=None,
        gzip_enabled=False,
    )
    model = ModelSettings(name="policy", implementation=Recurrent, parameters=ModelParameters(uri=path))
    await MLServer(settings).start([model])


if __name__ == "__main__":
    install_uvloop_event_loop()
    asyncio.run(main(*sys.argv[1:]))
