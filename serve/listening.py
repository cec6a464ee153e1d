"""Where the server listens: a port of an address, or a Unix socket."""

import errno
import os
import socket
import stat
from pathlib import Path

BACKLOG = 2048


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket: from here on clients can connect, if not yet be answered.

    Raises:
        ValueError: the address is none of this machine's, or the port is taken.
    """
    try:
        return socket.create_server((host, port), family=_family(host), backlog=BACKLOG)
    except OSError as error:
        raise _unusable(host, port, error, "--port") from error


def reserve(host: str, port: int) -> socket.socket:
    """Return a socket that holds a port for gRPC, whose servers, one in each process, bind it beside us.

    It does not listen, so no connection comes to it.

    Raises:
        ValueError: gRPC is not installed, the address is none of this machine's, or the port is taken.
    """
    try:
        import grpc  # noqa: F401
    except ImportError as error:
        reason = '--grpc-port needs grpcio, which is not installed: pip install "nmn_keras[grpc]", or leave it out.'
        raise ValueError(reason) from error
    if not hasattr(socket, "SO_REUSEPORT"):
        raise ValueError("--grpc-port needs SO_REUSEPORT, which this system does not have. Leave it out.")
    try:
        socket.create_server((host, port), family=_family(host)).close()  # fails where others listen
        reserved = socket.socket(_family(host))
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind((host, port))
        return reserved
    except OSError as error:
        raise _unusable(host, port, error, "--grpc-port") from error


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _unusable(host: str, port: int, error: OSError, option: str) -> ValueError:
    elsewhere = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
    wrong = "Choose an address of this machine for --host; 0.0.0.0 is all of them."
    return ValueError(
        f"cannot listen on {address(host, port)} ({error.strerror or error}). "
        f"{wrong if elsewhere else f'Choose another {option}; 0 takes any free one.'}"
    )


def listen_at(path: str) -> socket.socket:
    """Return a socket that listens at a path, where everybody on this machine may connect.

    What a server that was killed has left there is taken over.

    Raises:
        ValueError: something else is there, a server listens there, or the path cannot be used.
    """
    place = Path(path)
    try:
        if place.is_symlink() or place.exists():
            _clear(place)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(place))
        place.chmod(0o666)
        listener.listen(BACKLOG)
        return listener
    except OSError as error:
        raise ValueError(
            f"cannot listen at {path} ({error.strerror or error}). Choose a --uds in a folder that can be written."
        ) from error


def _clear(place: Path) -> None:
    """Remove a socket at which nobody listens."""
    if not stat.S_ISSOCK(place.lstat().st_mode):
        raise ValueError(f"cannot listen at {place}: a file that is no socket is there. Choose another path for --uds.")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(place))
        except ConnectionRefusedError:
            place.unlink()
            return
    raise ValueError(f"cannot listen at {place}: another server does. Choose another path for --uds.")


def forget(path: str | None) -> None:
    """Remove a Unix socket at the end."""
    if path is not None and os.path.exists(path):
        os.unlink(path)


def url_of(listener: socket.socket) -> str:
    """Return the address to type; over a Unix socket the host's name means nothing."""
    if listener.family == socket.AF_UNIX:
        return "http://localhost"
    host, port = listener.getsockname()[:2]
    return f"http://{address(host, port)}"


def address(host: str, port: int) -> str:
    """Return host and port as they stand in a URL."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
