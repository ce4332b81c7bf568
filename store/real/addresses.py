"""`host:port`, an IPv6 host in brackets, as sockets take it and give it."""

import socket
from typing import NamedTuple

from ..network import in_brackets

_PORT_MAX = 65_535


class SocketAddress(NamedTuple):
    """One place that a name leads to."""

    family: socket.AddressFamily
    place: tuple[str | int | bytes, ...]
    """What bind and connect take."""


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of `host:port`. ValueError if it is nothing of the kind."""
    host, colon, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"address: expected an IPv6 host in brackets, found {address!r}")
    is_port = port.isascii() and port.isdigit() and int(port) <= _PORT_MAX
    if not colon or not host or not is_port:
        raise ValueError(f"address: expected host:port with a port up to {_PORT_MAX}, found {address!r}")
    return host, int(port)


def join_address(place: tuple[str | int, ...]) -> str:
    """Return `host:port` of what getsockname, getpeername and accept give."""
    host, port = str(place[0]), place[1]
    return f"{in_brackets(host)}:{port}"


def find_addresses(address: str) -> list[SocketAddress]:
    """Return all that `host:port` leads to, in the system's order of preference; names are looked up.

    Raises OSError (socket.gaierror) if there is no such host. A look-up takes as long as the system lets it.
    """
    host, port = split_address(address)
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    internet = (socket.AF_INET, socket.AF_INET6)
    return [
        SocketAddress(family, (str(place[0]), *place[1:]))
        for family, _, _, _, place in found
        if family in internet
    ]
