"""Tables over several stores: add the column `store`, the directory of each row.

The column exists if the option `paths` is set, even to one store, or if `columns` names the column. Stores that a
condition on `store` excludes are not read.
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
    """Creates rows of a table from parts of a store directory."""

    schema: pa.Schema

    def batches(
        self, directory: StoreDirectory, partition: Any, conditions: RowConditions
    ) -> Iterator[pa.RecordBatch]: ...


class StoreTable(TableRows, Protocol):
    """A table of one store directory."""

    condition_columns: frozenset[str]
    """`batches` applies the conditions on these columns."""

    def partitions(self, directory: StoreDirectory, conditions: RowConditions) -> Sequence[Any]:
        """Divide the store into one part per task."""


_Table = TypeVar("_Table", bound=TableRows)


@dataclass(frozen=True, slots=True)
class StorePart:
    """The path of a store, and the part of the store that one task reads."""

    store: str
    value: Any
    """The part; each table defines its own type."""


class StoreRows(Generic[_Table]):
    """Creates rows from parts of several stores."""

    def __init__(self, options: SourceOptions, table: Callable[[SourceOptions], _Table]) -> None:
        others = tuple(name for name in options.columns if name != STORE.name)
        has_store = STORE.name in options.columns if options.columns else bool(options.paths)
        has_others = bool(others) or not options.columns
        self.table = table(replace(options, columns=others if has_others else ("file",)))
        self.schema = pa.schema([*([STORE] if has_store else []), *(self.table.schema if has_others else [])])
        self._options = options

    def directory(self, store: str) -> StoreDirectory:
        return StoreDirectory(store, self._options.commit_log)

    def batches(self, part: StorePart, conditions: RowConditions) -> Iterator[pa.RecordBatch]:
        rows = self.table.batches(self.directory(part.store), part.value, conditions.without(STORE.name))
        for batch in rows:
            columns = {name: batch.column(name) for name in self.table.schema.names}
            columns[STORE.name] = pa.repeat(part.store, len(batch))
            yield batch_of(self.schema, columns)


class StoresTable(StoreRows[StoreTable]):
    """One table of all stores."""

    @property
    def condition_columns(self) -> frozenset[str]:
        return self.table.condition_columns | {STORE.name}

    def partitions(self, conditions: RowConditions) -> list[StorePart]:
        """Raises FileNotFoundError if a store does not exist."""
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
