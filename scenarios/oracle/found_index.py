"""The key index of a recovered store, as its files have it."""

from dataclasses import dataclass

from ...store.message_store import MessageStore


@dataclass(slots=True)
class FoundIndex:
    """The files of an index, the oldest first: path and all bytes."""

    slots: int
    entries_max: int
    files: list[tuple[str, bytes]]


def read_index(store: MessageStore) -> FoundIndex | None:
    """Read the index of a store whose services stand still, None if it has none."""
    if store.index is None:
        return None
    table = store.index.table
    files = [(file.file.path, bytes(file.view)) for file in table.files]
    return FoundIndex(table.slots, table.entries_max, files)
