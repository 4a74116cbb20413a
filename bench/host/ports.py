"""Which ports of the loopback are free?"""

import os
import socket
from itertools import count
from pathlib import Path

LOOPBACK = "127.0.0.1"
_FIRST = 10_000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_USUAL_LOWEST = 32_768
_chosen = count(os.getpid() * 41)  # benches that run side by side look at different ports first


def free_port() -> int:
    """A TCP port of the loopback that nobody has, and no outgoing connection will get.

    Not one of the ports that the kernel hands out by itself: while a server is stopped, another
    connection could be given its port, or a client that tries to reach it could reach itself.
    """
    ports = range(_FIRST, _lowest_of_the_kernel())
    for number, _ in zip(_chosen, ports, strict=False):
        port = ports[number % len(ports)]
        if _can_be_had(port):
            return port
    with socket.create_server((LOOPBACK, 0)) as server:
        return int(server.getsockname()[1])


def is_answered(port: int) -> bool:
    """Whether somebody on the loopback accepts connections on this port."""
    try:
        socket.create_connection((LOOPBACK, port), timeout=1).close()
    except OSError:
        return False
    return True


def _can_be_had(port: int) -> bool:
    try:
        # Without SO_REUSEADDR: nor may a connection of an earlier server linger there.
        with socket.socket() as server:
            server.bind((LOOPBACK, port))
    except OSError:
        return False
    return True


def _lowest_of_the_kernel() -> int:
    try:
        lowest = int(_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        lowest = _USUAL_LOWEST
    return max(lowest, _FIRST)
