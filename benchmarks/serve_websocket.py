"""Steps over one WebSocket: the server against an echo of a message of the same size, in the same application.

    python benchmarks/serve_websocket.py
    python benchmarks/serve_websocket.py --agent b1-rnn --rounds 15

One worker on one core, the client on another (`load.py`), one message in flight. In each round both are driven one
after another, for as long each. No compression: the client does not offer it. Ratios are taken within each round.
"""

import argparse
import json
import socket
import sys
from functools import partial
from pathlib import Path

from load import WebSocketConnection, alternate, draw_steps, masked_frame, measure, print_table
from servers import ANSWER_SECONDS, HOST, Failed, clearly, free_port, post, serving

from nmn_keras import zoo

SERVED = str(Path(__file__).with_name("served.py"))


def main() -> None:
    arguments = parse_arguments()
    print(f"    python {' '.join(sys.argv)}\n")
    port = free_port()
    size = zoo.load(arguments.agent, runtime="onnx").observation_size
    messages = [masked_frame(json.dumps(step).encode()) for step in draw_steps(size, 1)[0]]
    drive = partial(measure, port, [messages], arguments.seconds, WebSocketConnection)
    sides = {
        "steps": lambda: drive(partial(open_stream, f"/v1/agents/{arguments.agent}/stream")),
        "echo": lambda: drive(partial(open_socket, "/echo")),
    }
    command = [sys.executable, SERVED, "--agents", arguments.agent, "--port", str(port)]
    with serving(command, lambda: post(port, "/noop", b'{"observation": []}')):
        rounds = alternate(sides, arguments.rounds)
    print(f"{arguments.agent}, one connection, {arguments.rounds} rounds\n")
    print_table(rounds, over="echo", unit="messages")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", default="b3-nmn", help="published agent (%(default)s)")
    parser.add_argument("--rounds", type=int, default=9, help="(%(default)s)")
    parser.add_argument("--seconds", type=float, default=1.5, help="of each in a round (%(default)s)")
    return parser.parse_args()


def open_stream(path: str, port: int) -> socket.socket:
    """Connect to an agent's stream and read what it says of the session."""
    connected = open_socket(path, port)
    size = WebSocketConnection.length
    data = b""
    while len(data) < size(data):
        data += receive(connected)
    return connected


def open_socket(path: str, port: int) -> socket.socket:
    """Connect and shake hands, reading no byte beyond."""
    connected = socket.create_connection((HOST, port), ANSWER_SECONDS)
    connected.sendall(
        f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += receive(connected, 1)
    if not head.startswith(b"HTTP/1.1 101"):
        raise Failed(f"The WebSocket {path} was refused: {head!r}")
    return connected


def receive(connected: socket.socket, most: int = 1 << 16) -> bytes:
    data = connected.recv(most)
    if not data:
        raise Failed("The server closed a WebSocket.")
    return data


if __name__ == "__main__":
    clearly(main)
