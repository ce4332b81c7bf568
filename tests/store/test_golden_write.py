"""For the same puts and clock, the store writes the same bytes as RocketMQ."""

import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tornlog.store.config import StoreConfig
from tornlog.store.formats.batch import BatchUnit, encode_batch
from tornlog.store.formats.host import Host
from tornlog.store.formats.messages import Message, MessageBatch, PutMessageResult
from tornlog.store.message_store import MessageStore
from tornlog.store.real.files import RealFiles
from tornlog.store.real.world import ThreadTasks
from tornlog.store.world import World

GOLDEN = Path(__file__).parents[1] / "golden"

NOT_SINGLE_THREADED = {
    "05b-delay-abrupt": "no clean end to compare with: it was cut off in the middle of deliveries",
    "09-kill9-async": "four producers, killed",
    "09b-kill9-async-nopace": "two producers, killed",
    "10-kill9-sync": "four producers, killed",
    "11-kill9-transientpool": "four producers, killed",
}
MAIN_CASES = sorted(
    path.parent.name for path in GOLDEN.glob("*/manifest.json") if not path.parent.name.startswith("14-")
)
EXPIRY_BEFORE = {"13-head-deleted": 920}
"""Case -> number of the put before which RocketMQ deleted expired segments and empty queues."""

CASES = [case for case in MAIN_CASES if case not in NOT_SINGLE_THREADED]


class SetClock:
    """A clock that the test sets. Once it follows a log, it returns the time of the log's next record."""

    def __init__(self) -> None:
        self.wall_ms = 0
        self._store: MessageStore | None = None
        self._times_ms: dict[int, int] = {}

    def follow(self, store: MessageStore, records: list[dict[str, Any]]) -> None:
        self._times_ms = {record["offset"]: record["storeTimestamp"] for record in records}
        self._store = store

    def now_ms(self) -> int:
        if self._store is not None:
            self.wall_ms = self._times_ms.get(self._store.max_phy_offset, self.wall_ms)
        return self.wall_ms

    def monotonic_ns(self) -> int:
        return self.wall_ms * 1_000_000

    def utc_offset_ms(self) -> int:
        return 0


def body_of(part: dict[str, Any]) -> bytes:
    """Return a body, given as hex or by a seed."""
    if part.get("bodyNull"):
        return b""
    if "bodyHex" in part:
        return bytes.fromhex(part["bodyHex"])
    body, x = bytearray(), part["bodyLcgSeed"]
    for _ in range(part["bodyLen"]):
        x = (x * 1103515245 + 12345) & 0x7FFFFFFF
        body.append(97 + ((x >> 16) % 16))
    assert sha256(body).hexdigest() == part["bodySha256"]
    return bytes(body)


def message_of(put: dict[str, Any]) -> Message:
    return Message(
        put["topic"],
        b"" if put["op"] == "putBatch" else body_of(put),
        put["queueId"],
        put["propertiesString"],
        put["flag"],
        put["sysFlag"],
        put["bornTimestamp"],
        Host.parse(put["bornHost"]),
        Host.parse(put["storeHost"]),
        put["reconsumeTimes"],
        put["preparedTransactionOffset"],
    )


def repeat(store: MessageStore, put: dict[str, Any]) -> PutMessageResult:
    if put["op"] == "put":
        return store.put_message(message_of(put))
    units = [BatchUnit(part["flag"], body_of(part), part["propertiesString"].encode()) for part in put["messages"]]
    encoded = encode_batch(units)
    assert sha256(encoded).hexdigest() == put["batchBodySha256"]
    return store.put_messages(MessageBatch(message_of(put), encoded))


def answer_fields(result: PutMessageResult) -> dict[str, Any]:
    """Return the result of a put in the form of the manifests."""
    if result.append is None:
        return {"putStatus": result.status.value, "append": None}
    return {
        "putStatus": result.status.value,
        "appendStatus": "PUT_OK",
        "wroteOffset": result.append.wrote_offset,
        "wroteBytes": result.append.wrote_bytes,
        "queueOffset": result.append.queue_offset,
        "storeTimestamp": result.append.store_timestamp_ms,
        "msgNum": result.append.message_count,
        "msgId": result.append.message_id,
    }


def repeat_puts(
    start: Callable[..., MessageStore], config: StoreConfig, manifest: dict[str, Any]
) -> list[dict[str, Any]]:
    """Repeat the puts of a manifest in a new store, each at its time, and return the answers.

    Wait for copies that the store delivers itself.
    """
    clock = SetClock()
    store = start(config, World(clock, ThreadTasks(), RealFiles()))
    answers = []
    for number, put in enumerate(manifest["puts"]):
        if number == EXPIRY_BEFORE.get(manifest["case"]):
            expire_first_segments(store, manifest["inspect"]["observed"]["minPhyOffset"])
        clock.wall_ms = put["result"].get("storeTimestamp", clock.wall_ms)
        answers.append(answer_fields(repeat(store, put)))
    observed, end = manifest["inspect"]["observed"], store.max_phy_offset
    clock.follow(store, [record for record in observed["commitLogRecords"] if record["offset"] >= end])
    store.schedule.wake()
    wait_until(lambda: store.max_phy_offset >= observed["maxPhyOffset"])
    assert store.shutdown()
    return answers


def expire_first_segments(store: MessageStore, log_begin: int) -> None:
    """Delete the segments before log_begin as expired, and queues without messages."""
    store.flush.flush_to(store.max_phy_offset)
    wait_until(lambda: store.dispatch.behind_bytes == 0)
    store.flush_queues.request_full_flush()
    wait_until(lambda: store.flush_queues.durable_to.get() == store.max_phy_offset)
    for segment in store.log.segments:
        if segment.base_offset < log_begin:
            store.world.files.set_mtime_ms(segment.file.path, 0)
    store.execute_delete_files_manually()
    wait_until(lambda: store.min_phy_offset == log_begin)
    store.clean_expired_consumer_queue()


def wait_until(is_so: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it never was"
        time.sleep(0.001)


def segments_below(root: Path) -> dict[str, bytes]:
    """Return log and queue segments by path. Other files depend on the time of the run."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for part in ("commitlog", "consumequeue")
        for path in sorted((root / part).rglob("*"))
        if path.is_file()
    }


def index_files_of(root: Path) -> list[bytes]:
    """Return the contents of the index files, the oldest first. Their names depend on the time of the run."""
    return [path.read_bytes() for path in sorted(root.glob("index/*"))]


@pytest.mark.parametrize("case", CASES)
def test_repeating_the_puts_of_rocketmq_writes_the_same_bytes_and_returns_the_same_answers(
    golden: Callable[..., Any], started: Callable[..., MessageStore], tmp_path: Path, case: str
) -> None:
    written = golden(case)
    root = tmp_path / "own"
    answers = repeat_puts(started, written.config(root), written.manifest)

    assert answers == [put["result"] for put in written.manifest["puts"]]
    ours, theirs = segments_below(root), segments_below(written.before)
    assert ours.keys() == theirs.keys()
    assert [path for path in ours if ours[path] != theirs[path]] == []
    assert index_files_of(root) == index_files_of(written.before)
    side_file = "config/delayOffset.json"
    assert (root / side_file).read_bytes() == (written.before / side_file).read_bytes()


def test_every_main_golden_case_is_rewritten_or_listed_with_its_reason() -> None:
    assert set(NOT_SINGLE_THREADED) < set(MAIN_CASES)
    assert set(CASES) >= {"01-simple", "02-multi-rollover", "03-props", "04-batch", "07-ipv6"}
    assert set(CASES) >= {"08-clean-shutdown", "12-index-roll", "13-head-deleted"}
