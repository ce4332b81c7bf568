"""The index of every golden store against RocketMQ's own files and answers.

Only three differences are allowed. RocketMQ also returns records without the key, may return a record twice, and misses
records stored in the very first second of the requested time.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tornlog.store.errors import CorruptFileError
from tornlog.store.formats.index_key import key_hash, keys_of, may_have_keys
from tornlog.store.formats.scan import ScannedRecord, scan_records
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import overlay_world
from tornlog.store.recovery.recovery import RecoveryReport
from tornlog.store.tools.observed import observe

GOLDEN = Path(__file__).parents[2] / "golden"
NO_LOAD = {"14-abn-foreign-file", "14-abn-truncated-file", "14-abn-size-huge"}
CASES = sorted({path.parent.name for path in GOLDEN.glob("*/manifest.json")} - NO_LOAD)
TREES = [(case, tree) for case in CASES for tree in ("before", "after")]

TWICE = "RocketMQ's recovery indexes the record again that a full file ends with"
FROM_THE_CHECKPOINT = "RocketMQ builds a lost index again from the checkpoint on; here it is whole"
BEYOND = "RocketMQ keeps entries of records behind the log's end"

DIFFERENT = (
    dict.fromkeys(("09-kill9-async", "09b-kill9-async-nopace", "10-kill9-sync", "11-kill9-transientpool"), TWICE)
    | dict.fromkeys(
        (
            *("14-abn-bodylen-huge", "14-abn-ckpt-future", "14-abn-control", "14-abn-cq-deleted"),
            *("14-abn-cq-mid-zero", "14-abn-cq-tail-garbage", "14-abn-early-flip", "14-abn-first-files-deleted"),
            *("14-abn-flip-5th-last-magic", "14-abn-flip-last-body", "14-abn-flip-props"),
            *("14-abn-lost-tail-cq-ahead", "14-abn-size-plus1", "14-abn-torn-tail", "14-abn-zero-page-mid-last"),
            *("14-cln-abort-created", "14-cln-cq-deleted"),
        ),
        TWICE,
    )
    | dict.fromkeys(
        ("14-abn-index-deleted", "14-abn-index-header-garbage", "14-abn-phyoffset-wrong"), FROM_THE_CHECKPOINT
    )
    | dict.fromkeys(
        (
            *("14-abn-all-commitlog-deleted", "14-abn-blank-magic-flip", "14-cln-flip-last-body"),
            *("14-cln-last-file-deleted", "14-cln-lost-tail-cq-ahead"),
        ),
        BEYOND,
    )
)
"""Cases in which the index files differ from RocketMQ's, in both `before/` and `after/`, with the reason."""


@pytest.fixture(params=TREES, ids="-".join)
def place(request: pytest.FixtureRequest) -> tuple[str, str]:
    case, tree = request.param
    return case, tree


@pytest.fixture
def written(place: tuple[str, str], golden: Callable[..., Any]) -> Any:
    return golden(place[0])


@pytest.fixture
def store(place: tuple[str, str], written: Any, loaded: Callable[..., MessageStore]) -> MessageStore:
    return loaded(written.config(written.tree(place[1])), overlay_world())


def readable_records(store: MessageStore) -> dict[int, ScannedRecord]:
    found = {}
    for segment in store.log.segments:
        view, base_offset = segment.file.view(0, segment.size_bytes), segment.base_offset
        try:
            for record in scan_records(view, 0, segment.wrote.get(), file="", base_offset=base_offset, check_crc=True):
                found[record.physical_offset] = record
        except CorruptFileError:
            continue
    return found


def without_names(files: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Ignore the file names: the name of a rebuilt file is the time of the rebuild."""
    return [file | {"name": ""} for file in files]


def test_the_index_files_equal_those_of_rocketmq(store: MessageStore, written: Any, place: tuple[str, str]) -> None:
    case = place[0]
    ours = without_names(observe(store, RecoveryReport(clean_exit=True), {})["indexFiles"])
    theirs = without_names(written.observed["indexFiles"])

    differs = case in DIFFERENT or place == ("05b-delay-abrupt", "before")
    assert (ours != theirs) == differs
    if DIFFERENT.get(case) == TWICE:
        counts = [sum(file["indexCount"] - 1 for file in files) for files in (theirs, ours)]
        assert counts[0] > counts[1]


def test_the_index_has_every_key_of_every_record_once(store: MessageStore) -> None:
    assert store.index is not None
    found: Counter[tuple[int, int]] = Counter()
    for file in store.index.table.files:
        entries = (file.entry(number) for number in range(1, file.count.get()))
        found.update((entry.physical_offset, entry.key_hash) for entry in entries)

    records = readable_records(store)
    expected = Counter(
        (record.physical_offset, key_hash(record.topic, key))
        for record in records.values()
        if may_have_keys(record)
        for key in keys_of(record.properties)
    )
    assert Counter({place: count for place, count in found.items() if place[0] in records}) == expected


def test_queries_return_the_messages_that_rocketmq_found_and_each_has_the_key(
    store: MessageStore, written: Any, place: tuple[str, str]
) -> None:
    is_whole = DIFFERENT.get(place[0]) not in (FROM_THE_CHECKPOINT, BEYOND)
    for asked in written.observed["queryMessage"]:
        found = store.query_message(asked["topic"], asked["key"], asked["maxNum"], asked["begin"], asked["end"])

        def has_key(offset: int, topic: str = asked["topic"], key: str = asked["key"]) -> bool:
            record = store.look_message_by_offset(offset)
            if record is None or record.topic != topic:
                return False
            return key.encode() in keys_of(record.properties.encode())

        def stored_ms(offset: int) -> int:
            record = store.look_message_by_offset(offset)
            assert record is not None
            return record.store_timestamp_ms

        offsets = found.physical_offsets
        assert offsets == sorted(set(offsets))
        assert len(offsets) <= asked["maxNum"]
        assert all(map(has_key, offsets)), asked
        theirs = {*filter(has_key, asked["phyOffsets"])}
        if not is_whole:  # which records up to 999 ms too late are found depends on the files
            theirs = {offset for offset in theirs if stored_ms(offset) <= asked["end"]}
        assert theirs <= {*offsets}, asked
        for offset in {*offsets} - {*asked["phyOffsets"]} if is_whole else ():
            in_first_second = stored_ms(offset) - asked["begin"] < 1000
            assert in_first_second or len(asked["phyOffsets"]) == asked["maxNum"], (asked, offset)
        if (
            found.records
            and asked["phyOffsets"]
            and place[0] not in DIFFERENT
            and place != ("05b-delay-abrupt", "before")
        ):
            last = (found.index_last_update_timestamp_ms, found.index_last_update_physical_offset)
            assert last == (asked["indexLastUpdateTimestamp"], asked["indexLastUpdatePhyoffset"])


def test_rocketmq_also_returns_records_of_other_keys_with_the_same_hash(
    golden: Callable[..., Any], loaded: Callable[..., MessageStore]
) -> None:
    written = golden("12-index-roll")
    store = loaded(written.config(written.before), overlay_world())
    records = readable_records(store)
    asked = next(asked for asked in written.observed["queryMessage"] if asked["key"] == "colAaAaAaAa")
    foreign = [offset for offset in asked["phyOffsets"] if b"colAaAaAaAa" not in keys_of(records[offset].properties)]

    assert len(foreign) == 28
    found = store.query_message("Idx0", "colAaAaAaAa", 32, 0, 1 << 62).physical_offsets
    assert len(found) == 20
    assert not {*found} & {*foreign}
