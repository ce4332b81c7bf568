"""Recovery times of store directories of some size, as a stop or a crash leaves them: measured in turns, by parts."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

from ....faults.devices.storage import BLOCK_BYTES
from ....sim.choices import Choices
from ....store.config import StoreConfig
from ....store.errors import CorruptFileError
from ....store.formats.checkpoint import CheckpointValues, encode_checkpoint
from ....store.formats.columns import PlainRecords
from ....store.formats.message import decode_record
from ....store.formats.scan import scan_records
from ....store.log.checkpoint import SAFETY_MARGIN_MS
from ....store.log.segment_queue import SegmentQueue
from ....store.message_store import MessageStore
from ....store.real.world import real_world
from ....store.recovery.recovery import RecoveryReport
from ...bench.workplace import BATCH_MESSAGES, QUEUES, TOPIC, SteppingClock, batch
from ..topics.grid import DEVICES

ALL = 1 << 62
"""More than any log has: nothing of it is vouched for."""
SEGMENT_BYTES = 16 << 20
_BODY_BYTES = 1024
_BATCH_BYTES_MAX = 2 * _BODY_BYTES * BATCH_MESSAGES
_INDEX_SLOTS, _INDEX_ENTRIES = 20_000, 60_000
HEADER = (
    *("exit", "recover_whole_log", "log_bytes", "behind_checkpoint_bytes", "scanned_bytes", "records"),
    *("total_s", "scan_s", "queues_s", "durable_s", "index_s"),
    *(f"cold_read_{disk.replace('-', '_')}_s" for disk in DEVICES),
)
"""One row for each case. `RecoveryTime` says what the parts are; cold_read is what a model of a
disk takes to read what was scanned, which was in memory here."""
TableRow = Sequence[Any]


@dataclass(frozen=True, slots=True)
class FilledStore:
    """A directory with messages of 1 KiB, each with a key, in four queues."""

    directory: str
    log_bytes: int
    first_ms: tuple[int, ...]
    """The store time of each segment's first message."""

    def config(self, *, recover_whole_log: bool, index: bool) -> StoreConfig:
        """Return the settings to recover it with."""
        return replace(_config_of(self.directory), recover_whole_log=recover_whole_log, message_index_enable=index)

    def leave_clean(self) -> None:
        """Let it be as after a clean exit."""
        Path(_config_of(self.directory).abort_path).unlink(missing_ok=True)
        self._write_checkpoint(self.first_ms[-1])

    def leave_crashed(self, behind_bytes: int) -> None:
        """Let it be as after a crash, with so much of the log, in whole segments, behind the checkpoint."""
        Path(_config_of(self.directory).abort_path).touch()
        behind = -(-behind_bytes // SEGMENT_BYTES)
        trusted = len(self.first_ms) - min(behind, len(self.first_ms))
        self._write_checkpoint(self.first_ms[trusted] if trusted > 0 else 0)

    def _write_checkpoint(self, vouched_ms: int) -> None:
        """Let log, queues and full index files be vouched for up to a store time."""
        time_ms = vouched_ms + SAFETY_MARGIN_MS if vouched_ms else 0
        values = CheckpointValues(time_ms, time_ms, vouched_ms)
        path = Path(_config_of(self.directory).checkpoint_path)
        path.write_bytes(encode_checkpoint(values).ljust(path.stat().st_size, b"\0"))


def fill(directory: str, log_bytes: int) -> FilledStore:
    """Put messages into a new directory while its log has room for more within log_bytes, and stop."""
    store = MessageStore(replace(real_world(), clock=SteppingClock()), _config_of(directory))
    store.load()
    store.start()
    number = 0
    try:
        while store.max_phy_offset + _BATCH_BYTES_MAX <= log_bytes:
            store.put_messages(batch(_BODY_BYTES, number, keyed=True))
            number += 1
        end_offset = store.max_phy_offset
        first_ms = tuple(
            decode_record(bytes(segment.file.view(0, 2 * _BODY_BYTES)), 0, file="log").store_timestamp_ms
            for segment in store.log.segments
        )
    finally:
        store.shutdown()
    return FilledStore(directory, end_offset, first_ms)


def _config_of(directory: str) -> StoreConfig:
    return StoreConfig(
        directory,
        mapped_file_size_commit_log=SEGMENT_BYTES,
        max_hash_slot_num=_INDEX_SLOTS,
        max_index_num=_INDEX_ENTRIES,
    )


@dataclass(frozen=True, slots=True)
class RecoveryCase:
    """What a start finds, and with which setting."""

    clean_exit: bool
    recover_whole_log: bool
    behind_bytes: int = SEGMENT_BYTES
    """After a crash, how much of the log lies behind the checkpoint."""


class RecoveryTime(NamedTuple):
    """One case of one directory; seconds, the median of all turns."""

    case: RecoveryCase
    log_bytes: int
    scanned_bytes: int
    """Of the log, with an index, which may want more than the queues do."""
    records: int
    total_s: float
    scan_s: float
    """Of walking, with every check and CRC, over what is scanned for the queues."""
    queues_s: float
    """Of laying that over the queues, and all else."""
    durable_s: float
    """Of the syncs of what nobody vouches for."""
    index_s: float
    """Of what an index adds, further scanning included."""


def cases_by_size() -> list[RecoveryCase]:
    """Return what is measured with every size."""
    return [RecoveryCase(clean, whole) for clean in (False, True) for whole in (True, False)]


def cases_by_distance(log_bytes: int) -> list[RecoveryCase]:
    """Return what is measured besides with the greatest size: crashes, ever more of the log behind the checkpoint."""
    distances = [log_bytes // share for share in (4, 2) if log_bytes // share > SEGMENT_BYTES]
    return [RecoveryCase(False, False, distance) for distance in distances] + [
        RecoveryCase(False, whole, ALL) for whole in (True, False)
    ]


def measure_recovery(directory: str, sizes: Sequence[int], turns: int) -> Iterator[RecoveryTime]:
    """Fill directories below one, and yield how long their recoveries take, case by case."""
    for size in sizes:
        filled = fill(f"{directory}/{size}", size)
        cases = cases_by_size()
        if size == max(sizes):
            cases += cases_by_distance(size)
        for case in cases:
            yield _measure(filled, case, turns)


def _measure(filled: FilledStore, case: RecoveryCase, turns: int) -> RecoveryTime:
    found = [_turn(filled, case) for _ in range(turns)]
    first = found[0]
    seconds = (median(column) for column in zip(*(one[4:] for one in found), strict=True))
    return RecoveryTime(case, first.log_bytes, first.scanned_bytes, first.records, *seconds)


def _turn(filled: FilledStore, case: RecoveryCase) -> RecoveryTime:
    """Recover with an index and without, and walk over the log alone."""
    bare_s, durable_s, bare_report = _recover(filled, case, index=False)
    scan_s = _scan(filled, bare_report.start_offset)
    total_s, _, report = _recover(filled, case, index=True)
    queues_s = max(bare_s - durable_s - scan_s, 0.0)
    index_s = max(total_s - bare_s, 0.0)
    scanned_bytes = report.end_offset - report.start_offset
    return RecoveryTime(
        case, filled.log_bytes, scanned_bytes, report.records, total_s, scan_s, queues_s, durable_s, index_s
    )


def _recover(filled: FilledStore, case: RecoveryCase, *, index: bool) -> tuple[float, float, RecoveryReport]:
    """Return how long a load took, how long of that for making the log durable, and what it reports."""
    if case.clean_exit:
        filled.leave_clean()
    else:
        filled.leave_crashed(case.behind_bytes)
    store = MessageStore(real_world(), filled.config(recover_whole_log=case.recover_whole_log, index=index))
    with _timed_syncs() as durable_s:
        begun = perf_counter()
        report = store.load()
        took_s = perf_counter() - begun
    store.close()
    if report.findings:
        raise RuntimeError(f"a recovery found damage: {report.findings[0]}")
    return took_s, sum(durable_s), report


@contextmanager
def _timed_syncs() -> Iterator[list[float]]:
    """Note how long rows of files take to be made durable inside a `with` block."""
    seconds: list[float] = []
    make_durable = SegmentQueue.make_durable

    def timed(row: SegmentQueue, first: int) -> None:
        begun = perf_counter()
        make_durable(row, first)
        seconds.append(perf_counter() - begun)

    SegmentQueue.make_durable = timed  # type: ignore[method-assign, assignment]
    try:
        yield seconds
    finally:
        SegmentQueue.make_durable = make_durable  # type: ignore[method-assign]


def _scan(filled: FilledStore, start_offset: int) -> float:
    """Walk over the log from an offset on, with every check, up to its end; return how long that takes."""
    world = real_world()
    files, plain = world.files, None if world.core is None else PlainRecords(world.core)
    if plain is not None:
        for queue_id in range(QUEUES):
            plain.know(TOPIC, queue_id)
    directory = filled.config(recover_whole_log=True, index=False).commit_log_directory
    took_s = 0.0
    for name in files.list_directory(directory):
        if int(name) < start_offset:
            continue
        mapped = files.map(f"{directory}/{name}", SEGMENT_BYTES)
        view = mapped.view(0, SEGMENT_BYTES)
        begun, at = perf_counter(), 0
        while plain is not None and plain.scan(view, at, int(name), check_crc=True):
            at = plain.end
        with suppress(CorruptFileError):  # zeros behind the last record
            for _ in scan_records(view, at, len(view), file=name, base_offset=int(name), check_crc=True):
                pass
        took_s += perf_counter() - begun
        view.release()
        mapped.close()
    return took_s


def recovery_rows(found: Iterable[RecoveryTime]) -> list[TableRow]:
    """Return a row for each case. After a clean exit nothing is behind the checkpoint."""
    return [
        (
            "clean" if one.case.clean_exit else "crash",
            one.case.recover_whole_log,
            one.log_bytes,
            0 if one.case.clean_exit else min(one.case.behind_bytes, one.log_bytes),
            one.scanned_bytes,
            one.records,
            *(round(seconds, 4) for seconds in one[4:]),
            *(round(cold_read_s(disk, one.scanned_bytes), 4) for disk in DEVICES),
        )
        for one in found
    ]


def cold_read_s(disk: str, size_bytes: int) -> float:
    """Return the seconds that the model of a disk takes to read so many bytes that lie side by side."""
    device = DEVICES[disk](Choices("cold read").stream("storage"))
    return device.read(0, (0, -(-size_bytes // BLOCK_BYTES))) / 1e9
