"""Redis with snapshots: `save` asks for one after each transaction, `later` leaves it to the timer and the stop."""

from collections.abc import Sequence
from pathlib import Path

from redis_server import count_in, put, running, version
from transactions import NUMBERS, main, promise


def write(when: str) -> None:
    """Put transactions; with `save`, promise each when its snapshot is answered."""
    with running(".", "--appendonly", "no", "--save", "3600 1") as client:
        for number in NUMBERS:
            if put(client, number) and (when == "later" or client.ask(b"SAVE") == b"+OK"):
                promise(number)
        if when == "later":
            client.ask(b"SHUTDOWN")  # takes a snapshot, without an answer


def count(directory: Path) -> Sequence[int]:
    """Start it as the next user would, and write to it."""
    with running(str(directory), "--appendonly", "no", "--save", "") as client:
        return count_in(client)


main(write, count, version)
