"""Evidence: the input of checkers, their violations, and service states as text.

    dispatch: at 4096 of 8192; last error: OSError: [Errno 5] ... (store/queues/dispatch.py:132 in _dispatch_segment)

Replays ignore such texts, because their line numbers change with the code.
"""

import dataclasses
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from traceback import walk_tb
from typing import Any, NamedTuple, Protocol

from ...store.message_store import MessageStore
from ...store.running_flags import RefusalReason
from .ledger import Ledger
from .reader import ENTRY
from .recovered import RecoveredStore

_LOG = "commitlog"
"""The file of a violation at a log offset."""
_IN_QUEUE = re.compile(r"\bconsumequeue/(?P<queue>[^/]+/\d+)(?:/(?P<base>\d{20}))?$")
"""A consume queue, or one of its files. A file is named by the offset of its first byte in the queue."""
_NO_NAME = re.compile(r"[ /\\:]")


@dataclass(frozen=True, slots=True)
class Violation:
    """One violated invariant."""

    invariant: str
    summary: str
    file: str = ""
    offset: int = -1
    field: str = ""
    expected: str = ""
    found: str = ""
    detail: str = dataclasses.field(default="", compare=False)
    """Text for people: service states, and the source line of a store error."""

    def __str__(self) -> str:
        place = f" ({self.place_text})" if self.file else ""
        facts = ", ".join(f"{name} {text}" for name, text in self.facts)
        return f"{self.invariant}: {self.summary}{place}" + (f": {self.field}: {facts}" if facts else "")

    @property
    def place_text(self) -> str:
        """File and offset, with the kind of the offset: of a byte in a file, or in the whole log or queue."""
        if self.offset < 0:
            return self.file
        if self.file == _LOG:
            return f"{self.file} @ log offset {self.offset}"
        place = f"{self.file} @ byte {self.offset}"
        queue = _IN_QUEUE.search(self.file)
        if queue is None:
            return place
        return f"{place}, queue offset {(int(queue['base'] or 0) + self.offset) // ENTRY.size} of {queue['queue']}"

    @property
    def facts(self) -> list[tuple[str, str]]:
        return [(name, text) for name, text in (("expected", self.expected), ("found", self.found)) if text]

    @property
    def signature(self) -> str:
        """Return invariant and kind of the violation, without characters that file names do not allow.

        Failures with equal signatures probably have the same cause.
        """
        return _NO_NAME.sub("-", f"{self.invariant}-{self.field or 'broken'}".lower())

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


class FoundInRequest(NamedTuple):
    """Violations that a server's task found in the request that it processes. Another task reports them."""

    violations: Sequence[Violation]


@dataclass(slots=True)
class Evidence:
    """A store after recovery, and the ledger."""

    ledger: Ledger
    store: RecoveredStore


_collecting: list[set[str]] = []


def record_tried(invariant: str) -> None:
    """Record that an invariant was checked on data that could violate it.

    Only runs that record an invariant count as its tests.
    """
    if _collecting:
        _collecting[-1].add(invariant)


@contextmanager
def tries_collected() -> Iterator[set[str]]:
    """Collect the invariants that `record_tried` records. If blocks are nested, only the innermost collects."""
    names: set[str] = set()
    _collecting.append(names)
    try:
        yield names
    finally:
        closed = _collecting.pop()
        assert closed is names, "blocks are nested"


class Invariant(Protocol):
    """Reads the evidence and yields violations."""

    def __call__(self, evidence: Evidence) -> Iterator[Violation]: ...


_STORE = f"{__name__.partition('.')[0]}.store."


def _store_frames(error: BaseException) -> list[tuple[str, int, str]]:
    """Return file, line and function of each store frame in a traceback, the innermost first."""
    frames = []
    for frame, line in walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith(_STORE):
            file = module.partition(".")[2].replace(".", "/")
            frames.append((f"{file}.py", line, frame.f_code.co_name))
    return frames[::-1]


def frames_of(error: BaseException) -> str:
    """Return the store's frames in a traceback, the innermost first, or "".

    store/log/segment_queue.py:197 create < store/queues/consume_queue.py:229 _segment_for < :208 overwrite_entries
    """
    texts, last = [], ""
    for file, line, function in _store_frames(error):
        texts.append(f"{'' if file == last else file}:{line} {function}")
        last = file
    return " < ".join(texts)


def place_of(error: BaseException) -> str:
    """Return file, line and function of the innermost store frame in a traceback, or ""."""
    return next((f"{file}:{line} in {function}" for file, line, function in _store_frames(error)), "")


def error_text(error: BaseException) -> str:
    place = place_of(error)
    return f"{type(error).__name__}: {error}" + (f" ({place})" if place else "")


def services_text(store: MessageStore, named: str = "") -> str:
    """Describe progress and last error of the late service and of each failed service, one per line.

    named: the task name of the late service, or "".
    """
    lines = []
    for name, progress, error in _services_with_time_limit(store):
        if name == named or error is not None:
            last = "none" if error is None else error if isinstance(error, str) else error_text(error)
            lines.append(f"{name}: {progress}; last error: {last}" if progress else f"{name}: last error: {last}")
    lasting = refusals_until_restart(store)
    lines += lasting.values()
    if not lasting and not store.flags.is_writeable:
        lines.append(f"no puts now: {RefusalReason(store.flags.bits).name}")
    return "\n".join(lines)


def refusals_until_restart(store: MessageStore) -> dict[RefusalReason, str]:
    """Describe each reason to refuse puts until a restart, with the count of failures at which a service gave up."""
    texts = {reason: f"no puts until a restart: {reason.name}" for reason in store.flags.lasting}
    dispatch, index = store.dispatch, store.index
    if RefusalReason.WRITE_LOGICS_QUEUE_ERROR in texts:
        count = f", dispatch gave up at a count of {dispatch.failures} failures, at log offset {dispatch.failed_at}"
        texts[RefusalReason.WRITE_LOGICS_QUEUE_ERROR] += count
    if RefusalReason.WRITE_INDEX_FILE_ERROR in texts and index is not None:
        count = f", the index gave up at a count of {index.failures} failed creations"
        texts[RefusalReason.WRITE_INDEX_FILE_ERROR] += count
    return texts


def _services_with_time_limit(store: MessageStore) -> Iterator[tuple[str, str, BaseException | str | None]]:
    log, end = store.log, store.log.max_offset
    schedule, index = store.schedule, store.index
    yield (
        "dispatch",
        f"at {store.dispatch.reput_from.get()} of {store.dispatch.readable_limit()}",
        store.dispatch.last_error,
    )
    yield store.flush.name, f"flushed to {log.flushed_where.get()} of {end}", None
    if store.commit is not None:
        last = log.last_segment()
        wrote = end if last is None else last.base_offset + last.wrote.get()
        yield store.commit.name, f"committed to {end} of {wrote}", store.commit.last_error
    yield store.flush_queues.name, "", store.flush_queues.last_error
    if index is not None:
        yield "index", f"at {index.last_update[1]}", index.last_error
    delivered = ", ".join(f"level {level} at {offset}" for level, offset in sorted(schedule.offsets.items()))
    answer = schedule.last_error or (None if schedule.last_answer.value == "PUT_OK" else schedule.last_answer.value)
    yield schedule.name, delivered, answer
