"""deltalake: the rows of a transaction are appended by one version of a table."""

from collections.abc import Sequence
from pathlib import Path

from arro3.core import Array, DataType, Field, Schema, Table
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from transactions import DATABASE, NUMBERS, installed, main, promise, rows_of

_SCHEMA = Schema([Field("key", DataType.binary()), Field("value", DataType.binary())])


def table_of(rows: dict[bytes, bytes]) -> Table:
    """Return rows as an Arrow table."""
    columns = {"key": Array(list(rows), DataType.binary()), "value": Array(list(rows.values()), DataType.binary())}
    return Table.from_pydict(columns)


def make(_: str) -> None:
    """Make it empty."""
    DeltaTable.create(DATABASE, _SCHEMA)


def write(_: str) -> None:
    """Append; each call reads the table's log anew."""
    for number in NUMBERS:
        write_deltalake(DATABASE, table_of(rows_of(number)), mode="append")
        promise(number)


def count(directory: Path) -> Sequence[int]:
    """Open it as the next user would, read all rows, and append one more."""
    place = str(directory / DATABASE)
    read = QueryBuilder().register("rows", DeltaTable(place)).execute("select key, value from rows").read_all()
    rows = dict(zip(read["key"].to_pylist(), read["value"].to_pylist(), strict=True))
    write_deltalake(place, table_of({b"more": b""}), mode="append")
    return [sum(rows.get(key) == value for key, value in rows_of(number).items()) for number in NUMBERS]


main(write, count, lambda: installed("deltalake"), make)
