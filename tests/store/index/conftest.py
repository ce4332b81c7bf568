"""Check of an index: it must have each key of the log's records once, in log order."""

from collections.abc import Callable

import pytest

from tornlog.store.formats.index_key import key_hash, keys_of, may_have_keys
from tornlog.store.formats.scan import ScannedRecord, scan_records
from tornlog.store.index.index_file import index_file_defects
from tornlog.store.message_store import MessageStore

Entries = list[tuple[int, int]]


def records_of(store: MessageStore) -> list[ScannedRecord]:
    return [
        record
        for segment in store.log.segments
        for record in scan_records(
            segment.file.view(0, segment.size_bytes),
            0,
            segment.wrote.get(),
            file=segment.file.path,
            base_offset=segment.base_offset,
            check_crc=True,
        )
    ]


def entries_of(store: MessageStore) -> Entries:
    """Return every entry of a store's index as (phyOffset, keyHash), after a check of the files."""
    assert store.index is not None
    table = store.index.table
    entries = []
    for file in table.files:
        assert list(index_file_defects(file.view, file.file.path, table.slots, table.entries_max)) == []
        assert file.count.get() > 1
        found = [file.entry(number) for number in range(1, file.count.get())]
        entries += [(entry.physical_offset, entry.key_hash) for entry in found]
    assert all(file.is_full for file in table.files[:-1])
    return entries


def expected_entries(store: MessageStore) -> Entries:
    return [
        (record.physical_offset, key_hash(record.topic, key))
        for record in records_of(store)
        if may_have_keys(record)
        for key in keys_of(record.properties)
    ]


@pytest.fixture
def exact() -> Callable[[MessageStore], Entries]:
    """Check that a store's index matches the log, and return its entries."""

    def check(store: MessageStore) -> Entries:
        found = entries_of(store)
        assert found == expected_entries(store)
        return found

    return check
