"""Imported by every Python process that has this folder on its path: it may connect to loopback alone.

An audit hook sees every connection and look-up before it is made. It writes them down in the file `NMN_CONNECTIONS`, so
that a test can see that it was there, and refuses those that would leave the machine.
"""

import os
import sys

LOOPBACK = {"127.0.0.1", "::1", "localhost"}


def watch(event, arguments):
    if event == "socket.getaddrinfo":
        host = arguments[0]
    elif event in ("socket.connect", "socket.sendto") and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    else:
        return
    host = host.decode() if isinstance(host, bytes) else host
    with open(os.environ["NMN_CONNECTIONS"], "a") as file:
        file.write(f"{host}\n")
    if host not in LOOPBACK:
        raise PermissionError(f"The tests stay on loopback. Received: {event} {host!r}")


sys.addaudithook(watch)
