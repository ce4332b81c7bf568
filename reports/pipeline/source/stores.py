"""One table of all stores that the options name, with a column `store` that says which one a row is of.

It is there where stores are named by `paths`, be it only one, or where `columns` asks for it. A condition on it is seen
to here: nothing is read of a store that no row is wanted of.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa

from .columns import RowConditions, batch_of
from .directory import StoreDirectory
from .source_options import SourceOptions

STORE = pa.field("store", pa.string())


class TableRows(Protocol):
    """Makes rows of one kind, of parts of a store directory."""

    schema: pa.Schema

    def batches(self, directory: StoreDirectory, partition: Any, conditions: RowConditions) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one part."""


class StoreTable(TableRows, Protocol):
    """One kind of rows of a store directory."""

    condition_columns: frozenset[str]
    """Columns whose conditions are seen to by `batches`."""

    def partitions(self, directory: StoreDirectory, conditions: RowConditions) -> Sequence[Any]:
        """Return what tasks read, one each."""


_Table = TypeVar("_Table", bound=TableRows)


@dataclass(frozen=True, slots=True)
class StorePart:
    """What one task reads."""

    store: str
    value: Any
    """A part of that store, as its table has it."""


class StoreRows(Generic[_Table]):
    """Rows of parts of any of the stores."""

    def __init__(self, options: SourceOptions, table: Callable[[SourceOptions], _Table]) -> None:
        others = tuple(name for name in options.columns if name != STORE.name)
        has_store = STORE.name in options.columns if options.columns else bool(options.paths)
        has_others = bool(others) or not options.columns
        self.table = table(replace(options, columns=others if has_others else ("file",)))
        self.schema = pa.schema([*([STORE] if has_store else []), *(self.table.schema if has_others else [])])
        self._options = options

    def directory(self, store: str) -> StoreDirectory:
        """Return the directory of a store."""
        return StoreDirectory(store, self._options.commit_log)

    def batches(self, part: StorePart, conditions: RowConditions) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one part."""
        rows = self.table.batches(self.directory(part.store), part.value, conditions.without(STORE.name))
        for batch in rows:
            columns = {name: batch.column(name) for name in self.table.schema.names}
            columns[STORE.name] = pa.repeat(part.store, len(batch))
            yield batch_of(self.schema, columns)


class StoresTable(StoreRows[StoreTable]):
    """The tables of all stores, one behind the other."""

    @property
    def condition_columns(self) -> frozenset[str]:
        """Return the columns whose conditions are seen to."""
        return self.table.condition_columns | {STORE.name}

    def partitions(self, conditions: RowConditions) -> list[StorePart]:
        """Return what tasks read. Raises FileNotFoundError if one of the stores has no directory."""
        found = list[StorePart]()
        for store in self._options.stores:
            directory = self.directory(store)
            if not directory.exists:
                raise FileNotFoundError(f"{store}: no such directory")
            if not directory.is_store:
                raise FileNotFoundError(f"{store}: no store: neither a log nor a queue")
            if conditions.allow(STORE.name, store):
                parts = self.table.partitions(directory, conditions.without(STORE.name))
                found += [StorePart(store, one) for one in parts]
        return found
