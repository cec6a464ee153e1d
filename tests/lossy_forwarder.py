"""A TCP forwarder in front of a real server that loses answers when a test says so."""

import contextlib
import socket
import threading
import time
import urllib.parse
from collections import deque

CUT = b""
"""Instead of an answer: the connection ends."""


class Forwarder:
    """Forwards connections; what the server sends next is replaced by what stands first in `faults`.

    The request has then been forwarded, and acted upon, and its answer never arrives. A fault is the bytes that come in
    its place before the connection ends (`CUT`: none); None: nothing more comes, and the connection stays open; or a
    number: the answer itself, so many seconds late.
    """

    def __init__(self, url: str, port: int = 0):
        address = urllib.parse.urlsplit(url)
        self.target = (address.hostname, address.port)
        self.faults: deque[bytes | float | None] = deque()
        self.lost = 0
        self.sent = b""
        """Everything that clients have sent."""
        self._listener = socket.create_server(("127.0.0.1", port))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for end in (self._listener, *self._open):
            hang_up(end)

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self.target)
                self._open += [client, server]
                for pump in (self._ask, self._answer):
                    threading.Thread(target=pump, args=(client, server), daemon=True).start()

    def _ask(self, client, server):
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                self.sent += data
                server.sendall(data)
        hang_up(server)

    def _answer(self, client, server):
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 16):
                if self.faults:
                    self.lost += 1
                    instead = self.faults.popleft()
                    if instead is None:
                        return  # the client waits
                    if isinstance(instead, bytes):
                        client.sendall(instead)
                        break
                    time.sleep(instead)
                client.sendall(data)
        hang_up(client)
        hang_up(server)


def hang_up(end):
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
