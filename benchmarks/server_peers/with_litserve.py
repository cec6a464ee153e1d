"""LitServe: a LitAPI in one worker, reached through the faster of its queues, no access log.

With its dynamic batching, which shares the way to the worker: a batch never holds two steps of a session, because a
client waits for the answer before it sends the next one.
"""

import sys

import litserve
from policy import Policy


class Recurrent(litserve.LitAPI):
    """The session's id comes with the observation."""

    def setup(self, device: str) -> None:
        self.policy = Policy(sys.argv[2])

    def batch(self, requests: list[dict]) -> list[dict]:
        return requests  # dicts, not arrays to be stacked

    def predict(self, requests: list[dict]) -> list[dict]:
        return [{"action": self.policy.step(**request)} for request in requests]

    def unbatch(self, actions: list[dict]) -> list[dict]:
        return actions


def main(port: str, path: str) -> None:
    api = Recurrent(max_batch_size=64, batch_timeout=0.001)
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=1, fast_queue=True, timeout=False)
    quiet = {"generate_client_file": False, "log_level": "warning", "access_log": False}
    server.run(host="127.0.0.1", port=int(port), num_api_servers=1, **quiet)


if __name__ == "__main__":
    main(*sys.argv[1:])
