"""Target: recovery of a mutated store directory.

Recovery must open the store, or raise an error that names the file and the fault. Each message that the store returns
must equal an intact record at the same log offset. Recovery must keep all records before the first damage. A second
recovery must not change the data.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ....faults.disk.image import Image
from ....sim.process import collect_garbage_at_end
from ....store.errors import CorruptFileError
from ....store.formats.message import MessageRecord
from ....store.marks import marks_collected
from ....store.message_store import MessageStore
from ....store.recovery.recovery import RecoveryReport
from ....store.world import World
from ...claims.machine import ROOT
from ...oracle.reader import is_blank, valid_record_at_position
from ...oracle.recovered import Content, content_of, first_difference, rows_of
from ..container import HAS_EXTENSIONS, DirectoryContent, entry_parts, pack_directory, unpack_directory
from ..material import BORN_MS, KEYS
from ..mutation import Draw
from ..shape import Shape
from ..stores import LOG_FILE_BYTES, base_offset_of, draw_store, mutated_directory, run_on_image, settings_of
from ..target import InputOutcome, Target, TargetViolation, field_in_error

_PULLED_AT_ONCE = 7
_NEVER_MS = 1 << 62
_LOG = "commitlog/"


class DirectoryTarget(Target):
    """Fuzzes all files below a store's root, and its settings."""

    name = "directory"
    children = 8
    size_bytes_max = 1 << 18
    cpu_seconds_max = 10.0
    memory_bytes_max = 32 << 20
    inputs_between_measurements = 32
    keeps_length = True

    def valid_input(self, draw: Draw) -> bytes:
        return pack_directory(draw_store(draw))

    def shape(self, raw: bytes) -> Shape:
        return Shape((), tuple(entry_parts(raw)))

    def mutate(self, raw: bytes, shape: Shape, draw: Draw, others: Sequence[bytes]) -> bytes:
        directory = unpack_directory(raw)
        return raw if directory is None else pack_directory(mutated_directory(directory, draw, others))

    def check(self, raw: bytes) -> InputOutcome:
        directory = unpack_directory(raw)
        if directory is None:
            return InputOutcome(False, "no directory")
        with collect_garbage_at_end(), marks_collected() as hits:
            try:
                before = directory.image(ROOT, BORN_MS)
                found, image = run_on_image(before, lambda world: _recover_directory(world, directory))
            except (CorruptFileError, IsADirectoryError, NotADirectoryError) as error:
                return InputOutcome(False, f"refused {_kind_and_field(error, directory)}")
            _check_second_recovery(image, directory, found)
        return InputOutcome(not found.ways, f"{' '.join(found.ways)} {' '.join(sorted(hits))}")


class _Contents(NamedTuple):
    """The data that a second recovery must not change."""

    rows: Content
    everything: Content


def _contents_of(store: MessageStore) -> _Contents:
    return _Contents(rows_of(store), content_of(store))


@dataclass(frozen=True, slots=True)
class _RecoveredDirectory:
    ways: list[str]
    """Kinds of damaged files, with the damaged fields."""
    contents: _Contents
    rows_may_change: bool
    """Whether a second recovery may change queues and log, for one of three reasons.

    First, recovery truncated the log after a clean stop, so the clean exit covers less of the log afterwards. Second,
    recovery kept damage in the log. Then queue entries for damaged records may refer to a queue extension that lost its
    units. Third, the scan started after the beginning of the log. The next scan may start at another record and find
    more.
    """
    index_may_change: bool
    """Whether recovery kept index files unread. A rebuilt index can differ from the kept files."""


def _recover_directory(world: World, directory: DirectoryContent) -> _RecoveredDirectory:
    store, report = _load_store(world, directory)
    contents, given, log_end = _contents_of(store), LogBeforeRecovery(directory.entries, report), store.max_phy_offset
    if log_end < given.intact_end():
        raise TargetViolation("lost", f"a log up to {given.intact_end()} at least", log_end)
    check_returned_messages(store, given)
    ways = sorted({_kind_and_field(finding, directory) for finding in report.findings})
    in_log = [
        base_offset_of(finding.file) + finding.offset for finding in report.findings if f"/{_LOG}" in finding.file
    ]
    indexes = () if store.index is None else store.index.table.files
    is_cut, passes_over = any(at >= log_end for at in in_log), any(at < log_end for at in in_log)
    return _RecoveredDirectory(
        ways,
        contents,
        (report.clean_exit and is_cut)
        or (passes_over and bool(directory.settings & HAS_EXTENSIONS))
        or report.start_offset > max(store.min_phy_offset, 0),
        any(f"index/{file.name}" in directory.entries for file in indexes),
    )


def _load_store(world: World, directory: DirectoryContent) -> tuple[MessageStore, RecoveryReport]:
    store = MessageStore(world, settings_of(directory.settings))
    return store, store.load()


def _check_second_recovery(image: Image, directory: DirectoryContent, found: _RecoveredDirectory) -> None:
    """Recover a second time. The store must open, and its data may change only for the reasons in `found`."""
    try:
        again, _ = run_on_image(image, lambda world: _contents_of(_load_store(world, directory)[0]))
    except (CorruptFileError, IsADirectoryError, NotADirectoryError) as error:
        raise TargetViolation("recovered-again", "a store that opens", error) from error
    which = "rows" if found.index_may_change else "everything"
    different = first_difference(getattr(found.contents, which), getattr(again, which))
    if different is not None and not found.rows_may_change:
        place = f"{different.file} @ {different.offset}"
        raise TargetViolation("recovered-again", f"{different.expected} in {place}", different.found)


def _kind_and_field(error: CorruptFileError | OSError, directory: DirectoryContent) -> str:
    """Return the file kind and field that an error names. Raises TargetViolation if the named file does not exist."""
    file = error.file if isinstance(error, CorruptFileError) else str(error.filename)
    if not file.startswith(f"{ROOT}/"):
        raise TargetViolation("error-file", f"a path below {ROOT}", f"{file}: {error}")
    path = file.removeprefix(f"{ROOT}/")
    kind = path.partition("/")[0]
    if not isinstance(error, CorruptFileError):
        return f"{kind}.{error.strerror}"
    return f"{kind}.{field_in_error(error, file, len(directory.entries.get(path) or b''))}"


class LogBeforeRecovery:
    """The log files before recovery, and the findings of recovery.

    In the part of the log that a clean exit or the checkpoint covers, recovery reports damage but does not truncate the
    log. With a trusted checkpoint, recovery does not scan the covered part. A message from a damaged or unscanned part
    only has to equal the bytes in the file.
    """

    def __init__(self, entries: Mapping[str, bytes | None], report: RecoveryReport) -> None:
        files = {path: content for path, content in entries.items() if path.startswith(_LOG)}
        self._files = {base_offset_of(path): content for path, content in files.items() if content is not None}
        self._is_whole_scanned = report.start_offset <= min(self._files, default=0)
        self._reported = {base_offset_of(finding.file) for finding in report.findings if f"/{_LOG}" in finding.file}

    def check(self, raw: bytes, physical_offset: int, topic: str) -> None:
        """Raise TargetViolation if a returned record equals no intact record of the topic in the log."""
        base = physical_offset - physical_offset % LOG_FILE_BYTES
        content, at = self._files.get(base, b""), physical_offset % LOG_FILE_BYTES
        if content[at : at + len(raw)] != raw:
            raise TargetViolation("served-unknown", f"the record at {physical_offset}", raw.hex()[:300])
        if base in self._reported or not self._is_whole_scanned:
            return
        whole = valid_record_at_position(content, at, len(content), physical_offset)
        if whole is None or whole.record.size_bytes != len(raw):
            raise TargetViolation("served-incomplete", f"a complete record at {physical_offset}", raw.hex()[:300])
        if whole.record.topic != topic:
            raise TargetViolation("served-foreign", topic, whole.record.topic)

    def check_looked_up(self, physical_offset: int, found: MessageRecord | None) -> None:
        """Raise TargetViolation if a look-up does not return the intact record at an offset."""
        base = physical_offset - physical_offset % LOG_FILE_BYTES
        content, at = self._files[base], physical_offset - base
        whole = valid_record_at_position(content, at, len(content), physical_offset)
        if whole is not None and (found is None or found.body != whole.body):
            raise TargetViolation("look-up", f"the record at {physical_offset}", found)

    def intact_end(self) -> int:
        """Return the end of the consecutive intact records at the start of the log."""
        base, end = min(self._files, default=0), 0
        while (content := self._files.get(base)) is not None and len(content) == LOG_FILE_BYTES:
            at = 0
            while (whole := valid_record_at_position(content, at, len(content), base + at)) is not None:
                at += whole.record.size_bytes
                end = base + at
            if at < LOG_FILE_BYTES and not is_blank(content, at, LOG_FILE_BYTES):
                break
            base += LOG_FILE_BYTES
            assert end <= base, (end, base)
        return end


def check_returned_messages(store: MessageStore, given: LogBeforeRecovery) -> int:
    """Check pulled messages. Return their number."""
    pulled = 0
    for queue in store.queues.all_queues():
        topic, queue_id = queue.topic, queue.queue_id
        for raw, physical_offset in _pull_messages(store, topic, queue_id):
            given.check(raw, physical_offset, topic)
            given.check_looked_up(physical_offset, store.look_message_by_offset(physical_offset))
            pulled += 1
        for key in KEYS[:1] + KEYS[3:]:
            answer = store.query_message(topic, key, 32, 0, _NEVER_MS)
            for raw, physical_offset in zip(answer.records, answer.physical_offsets, strict=True):
                given.check(raw, physical_offset, topic)
        at_time = store.get_offset_in_queue_by_time(topic, queue_id, BORN_MS + 1000)
        if not 0 <= at_time <= max(queue.max_offset, 0):
            raise TargetViolation("offset-by-time", f"0 to {queue.max_offset}", at_time)
    return pulled


def _pull_messages(store: MessageStore, topic: str, queue_id: int) -> Iterator[tuple[bytes, int]]:
    offset = max(store.get_min_offset_in_queue(topic, queue_id), 0)
    end = store.get_max_offset_in_queue(topic, queue_id)
    while offset < end:
        answer = store.get_message(topic, queue_id, offset, _PULLED_AT_ONCE)
        yield from zip(answer.records, answer.physical_offsets, strict=True)
        if answer.next_begin_offset <= offset:
            found = f"{answer.next_begin_offset}, {answer.status.value}"
            raise TargetViolation("pull", f"to continue after {offset} of {end}", found)
        offset = answer.next_begin_offset
