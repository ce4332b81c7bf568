"""`inspect` reports the same state as RocketMQ; each difference has its reason here."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tornlog.store.config import GIB
from tornlog.store.formats.delay_level import SCHEDULE_TOPIC, parse_delay_levels
from tornlog.store.real.world import overlay_world
from tornlog.store.tools.geometry import Geometry, config_of_directory
from tornlog.store.tools.inspect import inspect_directory

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = sorted(path.parent.name for path in GOLDEN.glob("*/manifest.json"))
PLAIN_COLUMNS = ("offset", "size", "topic", "queueId", "queueOffset", "sysFlag", "storeTimestamp")
STORE_FIELDS = (
    *("minPhyOffset", "maxPhyOffset", "dispatchBehindBytes", "runningFlagBits", "earliestMessageTime"),
    *("checkpoint", "commitLogFiles", "delayOffsetTable", "topicQueueTable"),
)

NO_LOAD = {
    "14-abn-foreign-file": "RocketMQ refuses it as well",
    "14-abn-truncated-file": "RocketMQ refuses it as well",
    "14-abn-size-huge": "RocketMQ dies of the allocation, so there is nothing to compare with",
}

DELIVERED = "RocketMQ's observer also delivered the delayed messages that were due"
STALE_TAIL = "RocketMQ leaves cut entries in the file, and lastOffset, which reads past the end, finds them"
EMPTY_FILE = "a queue file whose entries are all cut stays, to be written again; RocketMQ removes it"
REBUILT_FILES = "files that recovery makes or writes have their mtime from then, and here not from the disk"
INDEX = "index files that are built again are durable again, and so is the third time; RocketMQ keeps them"
FUTURE = "the checkpoint does not speak for index files that are built again"
SHORT = "a checkpoint shorter than its values says nothing here; RocketMQ extends it with zeros"
UNREADABLE = "a damaged record has neither topic nor store time here; RocketMQ takes what stands in their place"
PARTLY_REBUILT = "RocketMQ rebuilds a lost queue from the checkpoint on and puts blanks in front; here it is whole"
NOT_REBUILT = "after a clean exit RocketMQ rebuilds no lost queue or tail; here it does not stay lost"
WRONG_OFFSET = "a record that claims another physical offset ends the log here"
TAGS = "the entry is what the log says; RocketMQ keeps the one from before the damage"

FIRST_FILE = "a queue begins at its first entry with a record in the log; RocketMQ looks in its first file only"

QUEUE_ENDS = ("entries", "files", "lastOffset", "maxOffset", "maxPhysicOffset", "messageTotal")
QUEUE_BEGINS = ("earliestMessageTime", "entries", "files", "messageTotal", "minLogicOffset", "minOffset")


def queue_fields(names: tuple[str, ...], reason: str) -> dict[str, str]:
    return dict.fromkeys((f"queue.{name}" for name in names), reason)


CUT_TAIL = queue_fields(("lastOffset",), STALE_TAIL)
CUT_FILE = CUT_TAIL | queue_fields(("files",), EMPTY_FILE)
REBUILT = queue_fields(("files",), REBUILT_FILES)
BROKEN_OFFSET = {
    **dict.fromkeys(
        ("commitLogFiles", "dispatchBehindBytes", "maxPhyOffset", "record", "topicQueueTable"), WRONG_OFFSET
    ),
    **queue_fields(QUEUE_ENDS, WRONG_OFFSET),
    **queue_fields(QUEUE_BEGINS, PARTLY_REBUILT),
}
FIRST_ENTRY = queue_fields(tuple(name for name in QUEUE_BEGINS if name != "files"), FIRST_FILE)
LOST_TAIL = {"topicQueueTable": NOT_REBUILT} | queue_fields(QUEUE_ENDS, NOT_REBUILT)
LOST_QUEUE = queue_fields(("queueId", "topic", *QUEUE_BEGINS, "maxOffset", "maxPhysicOffset"), NOT_REBUILT)

DIFFERENT: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "05b-delay-abrupt": (
        dict.fromkeys(
            ("checkpoint", "commitLogFiles", "delayOffsetTable", "maxPhyOffset", "record", "topicQueueTable"), DELIVERED
        )
        | queue_fields(QUEUE_ENDS, DELIVERED),
        {},
    ),
    "14-abn-all-commitlog-deleted": ({"checkpoint": INDEX}, {"checkpoint": INDEX}),
    "14-abn-blank-magic-flip": ({"checkpoint": INDEX} | CUT_FILE, {"checkpoint": INDEX} | CUT_TAIL),
    "14-abn-bodylen-huge": (CUT_TAIL, CUT_TAIL),
    "14-abn-ckpt-future": ({"checkpoint": FUTURE}, {"checkpoint": FUTURE}),
    "14-abn-combo": (REBUILT, {}),
    "14-abn-cq-deleted": (queue_fields(QUEUE_BEGINS, PARTLY_REBUILT), queue_fields(QUEUE_BEGINS, PARTLY_REBUILT)),
    "14-abn-cq-mid-zero": (REBUILT, {}),
    "14-abn-early-flip": ({"queue.earliestMessageTime": UNREADABLE}, {"queue.earliestMessageTime": UNREADABLE}),
    "14-abn-early-flip-ckpt-deleted": (CUT_TAIL, CUT_TAIL),
    "14-abn-first-files-deleted": (FIRST_ENTRY, FIRST_ENTRY),
    "14-abn-flip-5th-last-magic": (CUT_TAIL, CUT_TAIL),
    "14-abn-flip-last-body": (CUT_TAIL, CUT_TAIL),
    "14-abn-flip-props": (queue_fields(("entries",), TAGS), queue_fields(("entries",), TAGS)),
    "14-abn-lost-tail-cq-ahead": (CUT_FILE, CUT_TAIL),
    "14-abn-phyoffset-wrong": (BROKEN_OFFSET, BROKEN_OFFSET),
    "14-abn-size-plus1": (CUT_TAIL, CUT_TAIL),
    "14-abn-torn-tail": (CUT_TAIL, CUT_TAIL),
    "14-abn-zero-page-mid-last": (CUT_FILE, CUT_TAIL),
    "14-cln-cq-deleted": (REBUILT, {}),
    "14-cln-cq-one-deleted": (
        {"topicQueueTable": NOT_REBUILT} | LOST_QUEUE,
        {"topicQueueTable": NOT_REBUILT} | LOST_QUEUE,
    ),
    "14-abn-ckpt-short": ({"checkpoint": SHORT}, {}),
    "14-cln-cq-tail-zero": (LOST_TAIL, LOST_TAIL),
    "14-cln-early-zero-page": (
        {"record": UNREADABLE, "queue.earliestMessageTime": UNREADABLE},
        {"record": UNREADABLE, "queue.earliestMessageTime": UNREADABLE},
    ),
    "14-cln-flip-last-body": (CUT_TAIL, CUT_TAIL),
    "14-cln-last-file-deleted": ({"checkpoint": INDEX} | CUT_FILE, {"checkpoint": INDEX} | CUT_TAIL),
    "14-cln-lost-tail-cq-ahead": ({"checkpoint": INDEX} | CUT_FILE, {"checkpoint": INDEX} | CUT_TAIL),
}
"""Case -> intended differences in `before/` and in `after/`: field -> reason. All must occur, and no others."""


def flattened(observed: dict[str, Any]) -> dict[str, Any]:
    """Return all values to compare, by path. Of queues, only the fields that RocketMQ could report."""
    places = {field: observed[field] for field in STORE_FIELDS}
    for queue in observed["queues"]:
        for field, value in queue.items():
            if not (isinstance(value, str) and value.startswith("EXCEPTION")):
                places[f"{queue['topic']}/{queue['queueId']} queue.{field}"] = value
    for number, record in enumerate(observed["commitLogRecords"]):
        places[f"{number} record"] = record
    return places


def are_equal(place: str, ours: Any, theirs: Any) -> bool:
    if not place.endswith(" record"):
        return bool(ours == theirs)
    if isinstance(theirs, list):  # the short form of a plain record
        return [ours.get(column) for column in PLAIN_COLUMNS] == theirs
    marks = ours.keys() & {"blank", "illegalMagic", "crcMismatch", "at", "unreadable"}
    return {name: ours.get(name) for name in theirs} == theirs and marks <= theirs.keys()


def different_fields(ours: dict[str, Any], theirs: dict[str, Any]) -> set[str]:
    mine, real = flattened(ours), flattened(theirs)
    missing = {"record" if place.endswith(" record") else place for place in real.keys() - mine.keys()}
    added = {place for place in mine.keys() - real.keys() if not place.endswith(("lastOffset", " record"))} | {
        "record" for place in mine.keys() - real.keys() if place.endswith(" record")
    }
    changed = {place for place in mine.keys() & real.keys() if not are_equal(place, mine[place], real[place])}
    return {place.rpartition(" ")[2] for place in missing | added | changed}


@pytest.mark.parametrize("tree", ["before", "after"])
@pytest.mark.parametrize("case", [case for case in CASES if case not in NO_LOAD])
def test_inspect_reports_a_golden_store_as_rocketmq_did(golden: Callable[..., Any], case: str, tree: str) -> None:
    store = golden(case)
    found = inspect_directory(overlay_world(), str(store.tree(tree)), underivable_geometry(store, tree))
    on_purpose = DIFFERENT.get(case, ({}, {}))[tree == "after"]
    assert different_fields(found.all_fields(), store.observed) == set(on_purpose)


@pytest.mark.parametrize("case", [case for case in CASES if case not in NO_LOAD])
def test_delivery_progress_is_read_as_rocketmq_writes_it(golden: Callable[..., Any], case: str) -> None:
    store = golden(case)
    found = inspect_directory(overlay_world(), str(store.after), Geometry()).summary()
    assert found["delayOffsetJson"].encode() == (store.after / "config/delayOffset.json").read_bytes()
    assert found["delayOffsetJson"] == store.manifest["inspect"]["delayOffsetJson"]


def underivable_geometry(store: Any, tree: str) -> Geometry:
    """Return known settings only if they cannot be derived from a queue or index file."""
    told, config = Geometry(), store.manifest["config"]
    if not list(store.tree(tree).glob("consumequeue/*/*/*")):
        told = replace(told, consume_queue_bytes=config["mappedFileSizeConsumeQueue"])
    if not list(store.tree(tree).glob("index/*")):
        told = replace(told, hash_slots=config["maxHashSlotNum"], index_entries=config["maxIndexNum"])
    return told


@pytest.mark.parametrize("case", CASES)
def test_sizes_and_delay_levels_are_found_in_the_files(golden: Callable[..., Any], case: str) -> None:
    store = golden(case)
    written = store.config(store.before)
    found = config_of_directory(overlay_world().files, str(store.before), underivable_geometry(store, "before"))
    delays, found_delays = map(parse_delay_levels, (written.message_delay_level, found.message_delay_level))
    used = [int(path.name) + 1 for path in store.before.glob(f"consumequeue/{SCHEDULE_TOPIC}/*")]

    assert found.mapped_file_size_consume_queue == written.mapped_file_size_consume_queue
    assert [found_delays[level] for level in used] == [delays[level] for level in used]
    if list(store.before.glob("commitlog/*")):
        assert found.mapped_file_size_commit_log == written.mapped_file_size_commit_log
    else:
        assert found.mapped_file_size_commit_log == GIB


@pytest.mark.parametrize("case", sorted(NO_LOAD))
def test_every_golden_store_that_is_refused_was_refused_by_rocketmq_or_is_listed(
    golden: Callable[..., Any], case: str
) -> None:
    store = golden(case)
    found = inspect_directory(overlay_world(), str(store.before), Geometry())
    assert found.findings
    assert store.manifest["inspect"].get("load") is not True
    assert (found.store is None) == (case != "14-abn-size-huge")


def test_every_listed_difference_or_refusal_is_a_golden_case() -> None:
    assert set(DIFFERENT) | set(NO_LOAD) <= set(CASES)
    assert not set(DIFFERENT) & set(NO_LOAD)
