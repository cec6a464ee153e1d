"""The Python client of `python -m serve`: sessions stepped over HTTP or a WebSocket, from plain or asynchronous code.

`pip install "nmn_keras[client]"`: it needs httpx, and websockets for `transport="websocket"`; neither Keras nor
TensorFlow.
"""

from nmn_keras.client.agents import AgentClient, AsyncAgentClient
from nmn_keras.client.episodes import play
from nmn_keras.client.errors import ExpiredSession, NoAnswer, ServerError, UnknownSession
from nmn_keras.client.step import Step

__all__ = [
    "AgentClient",
    "AsyncAgentClient",
    "ExpiredSession",
    "NoAnswer",
    "ServerError",
    "Step",
    "UnknownSession",
    "play",
]
