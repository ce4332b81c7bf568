"""Sends all of something over a stream that may take less at a time."""

from ..network import Connection


def send_all(connection: Connection, data: bytes | memoryview, timeout_ms: int) -> None:
    """Hand all of data to the network. TimeoutError if it takes nothing for timeout_ms, ConnectionError if broken."""
    left = memoryview(data)
    while left:
        left = left[connection.send(left, timeout_ms) :]
