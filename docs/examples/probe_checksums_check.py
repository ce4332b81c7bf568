"""Each promised order is in its page of the log, or its damage is noticed."""

import zlib
from collections.abc import Iterator
from pathlib import Path


def check(directory: Path, acknowledged: list[str]) -> Iterator[str]:
    log = (directory / "orders").read_bytes() if acknowledged else b""
    for number, promise in enumerate(acknowledged):
        order, _, checksum = log[4096 * number :][:4096].rstrip().partition(b" ")
        if checksum != str(zlib.crc32(order)).encode():
            yield f"noticed: record {number} has a wrong checksum"
        elif order.decode() != promise:
            yield f"{promise!r} was promised, found {order.decode()!r}"
