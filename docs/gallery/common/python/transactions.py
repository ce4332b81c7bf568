"""Transactions: the sequence that each program of the gallery commits, and its check.

    program write SETTING    commits TRANSACTIONS transactions of ROWS rows, and promises each after its commit, by line
    program make SETTING     makes an empty database, without a promise
    program check            is a check's server: a JSON line in, a JSON line out
    program version          prints name and version

A breach begins with its kind: `unusable`, it cannot be opened, or reports corruption; `wrong`, a value was
never stored; `part`, a transaction is there in part; `lost`, a promised transaction is missing.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path

TRANSACTIONS, ROWS = 3, 8
VALUE_BYTES = 100
DATABASE = "db"
NUMBERS = range(1, TRANSACTIONS + 1)


class Wrong(Exception):
    """A value was never stored."""


def rows_of(transaction: int) -> dict[bytes, bytes]:
    """Return the rows of a transaction."""
    return {f"k{transaction}-{row}".encode(): bytes([transaction]) * VALUE_BYTES for row in range(ROWS)}


def value_of(transaction: int) -> bytes:
    """Return the rows of a transaction as one value, for programs without transactions."""
    return b"".join(key + value for key, value in rows_of(transaction).items())


def rows_in(value: bytes | None, transaction: int) -> int:
    """Return the number of rows in such a value: all, or none for a missing value. Raises Wrong for another value."""
    if value is None:
        return 0
    expected = value_of(transaction)
    if value != expected:
        where = next((at for at, (one, other) in enumerate(zip(value, expected, strict=False)) if one != other), "end")
        raise Wrong(f"the value of {transaction} has {len(value)} bytes of {len(expected)}, and differs at {where}")
    return ROWS


def promise(transaction: int) -> None:
    """Promise that a transaction is committed."""
    print(transaction, flush=True)


def breaches(rows: Sequence[int], promised: int) -> Iterator[str]:
    """Yield each breach. rows: number of rows of each transaction; promised: number of promised transactions."""
    for number, found in zip(NUMBERS, rows, strict=True):
        if found not in (0, ROWS):
            yield f"part: of transaction {number} there are {found} rows of {ROWS}"
    for number, found in zip(NUMBERS, rows, strict=True):
        if not found and number <= promised:
            yield f"lost: transaction {number} was promised"


def serve(count: Callable[[Path], Sequence[int]]) -> None:
    """Answer the breaches of each directory. count(directory) returns the rows of each transaction."""
    for line in sys.stdin:
        question = json.loads(line)
        promised = int(question["acknowledged"][-1]) if question["acknowledged"] else 0
        try:
            broken = list(breaches(count(Path(question["directory"])), promised))
        except Wrong as error:
            broken = [f"wrong: {error}"]
        except Exception as error:
            broken = [f"unusable: {type(error).__name__}: {_without_place(str(error), question['directory'])}"]
        print(json.dumps({"broken": broken}), flush=True)


def _without_place(text: str, directory: str) -> str:
    """Return the first line of an error without the path of the tried directory, also if its leading slash is gone."""
    return text.partition("\n")[0].replace(f"{directory}/", "").replace(f"{directory}/".lstrip("/"), "")


def installed(*distributions: str) -> str:
    """Return the names and versions of packages."""
    return ", ".join(f"{name} {metadata.version(name)}" for name in distributions)


def main(
    write: Callable[..., None],
    count: Callable[[Path], Sequence[int]],
    version: Callable[[], str],
    make: Callable[..., None] | None = None,
) -> None:
    """Run the command line."""
    match sys.argv[1:]:
        case ["check"]:
            serve(count)
        case ["version"]:
            print(version())
        case ["write", *arguments]:
            write(*arguments)
        case ["make", *arguments] if make is not None:
            make(*arguments)
        case _:
            raise SystemExit(f"expected write, make, check or version, found {sys.argv[1:]}")
