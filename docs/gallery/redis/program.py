"""Redis with an append-only file: a value of `appendfsync`. The file is rewritten before the last transaction."""

from collections.abc import Sequence
from pathlib import Path
from time import sleep

from redis_server import POLL_SECONDS, count_in, put, running, version
from transactions import NUMBERS, TRANSACTIONS, main, promise

_LOG = ("--appendonly", "yes", "--save", "", "--auto-aof-rewrite-percentage", "0")


def write(appendfsync: str) -> None:
    """Commit transactions by MULTI and EXEC."""
    with running(".", *_LOG, "--appendfsync", appendfsync) as client:
        for number in NUMBERS:
            if number == TRANSACTIONS:
                client.ask(b"BGREWRITEAOF")
                while b"aof_rewrite_in_progress:1" in client.ask(b"INFO", b"persistence"):
                    sleep(POLL_SECONDS)
            if put(client, number):
                promise(number)


def count(directory: Path) -> Sequence[int]:
    """Start it as the next user would, and write to it."""
    with running(str(directory), *_LOG, "--appendfsync", "no") as client:
        return count_in(client)


main(write, count, version)
