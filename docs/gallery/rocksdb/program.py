"""RocksDB by rocksdict: batches that are synced, or not. The memtable is flushed to a table before the last one."""

from collections.abc import Sequence
from pathlib import Path

from rocksdict import Options, Rdict, WriteBatch, WriteOptions
from transactions import DATABASE, NUMBERS, TRANSACTIONS, installed, main, promise, rows_of


def opened(path: str) -> Rdict:
    """Open it, and make it if it is not there."""
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    return Rdict(path, options)


def make(setting: str) -> None:
    """Make it empty."""
    opened(DATABASE).close()


def write(setting: str) -> None:
    """Commit batches."""
    database = opened(DATABASE)
    options = WriteOptions()
    options.sync = setting == "sync"
    for number in NUMBERS:
        if number == TRANSACTIONS:
            database.flush()
        batch = WriteBatch(raw_mode=True)
        for key, value in rows_of(number).items():
            batch.put(key, value)
        database.write(batch, options)
        promise(number)
    database.close()


def count(directory: Path) -> Sequence[int]:
    """Open it as the next user would, and write to it."""
    database = opened(str(directory / DATABASE))
    try:
        found = [sum(database.get(key) == value for key, value in rows_of(number).items()) for number in NUMBERS]
        database[b"more"] = b""
        return found
    finally:
        database.close()


main(write, count, lambda: f"RocksDB ({installed('rocksdict')})", make)
