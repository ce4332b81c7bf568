"""Events of a failure: prepares the events of a run for its story.

Repeated reports are merged, losses get the last change and sync of their file, and the answers to users are added.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from operator import itemgetter

from ....faults.simulation import story
from ....sim.trace import TraceEvent
from ....store.directories import directory_of
from ....store.formats.messages import PutMessageStatus
from ...oracle.ledger import Ledger
from .exchanges import REQUEST

_LOST, _LOST_PAGE = "power cut:", "power cut: page"
_TIMES = re.compile(r" \(\d+ times until \d+\.\d+ ms\)$")
_SYNCS = ("sync", "msync", "fdatasync", "sync directory")
_NAMINGS = ("create", "rename", "link", "unlink", "make directory", "extend", "write")
_WRITES = ("store", "pwrite", "write", "zero range", "extend")


def events_to_violation(events: Iterable[TraceEvent]) -> Iterator[TraceEvent]:
    """Yield the events up to the verdict, which counts if the store's code led to it. Afterwards tasks only unwind."""
    for event in events:
        if event.kind != "violated" or event.place:
            yield event
        if event.kind == "violated":
            return


def count_to_violation(events: Sequence[TraceEvent]) -> int:
    """Return the number of events up to the verdict."""
    return next((number for number, event in enumerate(events) if event.kind == "violated"), len(events))


def merged(events: Iterable[TraceEvent], answers: Iterable[TraceEvent]) -> list[TraceEvent]:
    """Merge events and answers by time. An answer is after the operations of its time, and before a kill."""
    answered = ((event.now_ns, 1, event) for event in answers)
    return [event for *_, event in merge(_ranked(events), answered, key=itemgetter(0, 1))]


def _ranked(events: Iterable[TraceEvent]) -> Iterator[tuple[int, int, TraceEvent]]:
    """Yield time, rank and event: an answer of rank 1 is after operations of its time, and before a kill."""
    ended_ns = -1
    for event in events:
        if event.kind in ("kill", "violated"):
            ended_ns = event.now_ns
        yield event.now_ns, 2 if event.now_ns == ended_ns else 0, event


def without_repetitions(events: Iterable[TraceEvent]) -> list[TraceEvent]:
    """Merge reports and requests of a task with the same text into the first one, with their number and the last time.

    A request is merged only if its task has made no other since, and no other task has made one of the same kind: in
    LOCK, UNLOCK, LOCK, and in locks of two clients, the order matters.
    """
    shown: list[TraceEvent] = []
    seen: dict[tuple[str, str, str], tuple[int, int]] = {}
    first: dict[tuple[str, str, str], TraceEvent] = {}
    last_requests: dict[str, tuple[str, str, str]] = {}
    """Task, or name of a request -> the last request."""
    for event in events:
        key = event.task, event.kind, event.text
        if event.kind == REQUEST:
            senders = event.task, event.text.partition(" ")[0]
            if any(last_requests.get(one) != key for one in senders):
                seen.pop(key, None)
            last_requests |= dict.fromkeys(senders, key)
        if (story.is_report(event) or event.kind == REQUEST) and key in seen:
            number, times = seen[key]
            seen[key] = number, times + 1
            until = f" ({times + 1} times until {event.now_ns / 1e6:.3f} ms)"
            shown[number] = first[key]._replace(text=event.text + until)
            continue
        seen[key], first[key] = (len(shown), 1), event
        shown.append(event)
    return shown


def without_times(text: str) -> str:
    """Remove the number of repetitions from the text of an event."""
    return _TIMES.sub("", text)


def with_last_syncs(events: Iterable[TraceEvent], place: tuple[str, int]) -> Iterator[TraceEvent]:
    """Add to each page and name that a power cut lost: its last change, and whether a sync followed.

    The same follows at the end about `place`, a file and an offset.
    """
    event: TraceEvent | None = None
    changes = _LastChanges()
    for event in events:
        changes.note(event)
        added = ""
        if event.kind.startswith(_LOST_PAGE):
            added = changes.text_of_bytes(*story.path_and_range(event.text))
        elif event.kind.startswith(_LOST):
            added = changes.text_of_name(event.text)
        yield event._replace(text=f"{event.text}, {added}") if added else event
    file, offset = place
    added = changes.text_of_bytes(file, offset, offset + 1)
    if event is not None and added:
        yield event._replace(task="disk", kind="state", text=f"{file} [{offset}, {offset + 1}), {added}", place="")


class _LastChanges:
    """The last changes and syncs of each file."""

    def __init__(self) -> None:
        self._names: dict[str, TraceEvent] = {}
        self._writes: dict[str, list[tuple[int, int, TraceEvent]]] = {}
        self._syncs: dict[str, TraceEvent] = {}

    def note(self, event: TraceEvent) -> None:
        path, start, stop = story.path_and_range(event.text)
        if event.kind in _SYNCS:
            self._syncs[path] = event
        elif event.kind in _WRITES and stop > start:
            self._writes.setdefault(path, []).append((start, stop, event))
        elif event.kind in _NAMINGS:
            self._names[f"{event.kind} {event.text}"] = event

    def text_of_bytes(self, path: str, start: int, stop: int) -> str:
        """Describe the first and the last write of a range and the last sync of its file; "" without a write."""
        writes = [event for begin, end, event in self._writes.get(path, ()) if begin < stop and start < end]
        if not writes:
            return ""
        text = _sync_text("written", writes[-1], "file", self._syncs.get(path))
        return text if len(writes) == 1 else f"first {_change_text('written', writes[0])}, last {text}"

    def text_of_name(self, lost: str) -> str:
        """Describe the last event of a lost change, such as "create /a", and the last sync that could keep it."""
        kind, _, path = lost.partition(" /")
        if kind == "extend":
            change = self._names.get(lost) or self._names.get(f"write /{path}")
            return "" if change is None else _sync_text("made", change, "file", self._syncs.get(change.text))
        change = self._names.get(lost)
        if change is None:
            return ""
        return _sync_text("made", change, "directory", self._syncs.get(directory_of(change.text)))


def _sync_text(done: str, change: TraceEvent, what: str, sync: TraceEvent | None) -> str:
    changed = _change_text(done, change)
    if sync is None or sync.step < change.step:
        return f"{changed}, its {what} was not synced since"
    return f"{changed}, the last sync of its {what} began at {sync.now_ns / 1e6:.3f} ms"


def _change_text(done: str, change: TraceEvent) -> str:
    return f"{done} at {change.now_ns / 1e6:.3f} ms by {change.task}"


def answers_of(ledger: Ledger, names: Sequence[str]) -> Iterator[TraceEvent]:
    """Yield the answers to the named puts, and the refusals of other puts, as events, the oldest first."""
    answered = [put for put in ledger.puts if put.answered_ns is not None and put.status is not None]
    for put in sorted(answered, key=lambda put: put.answered_ns or 0):
        assert put.status is not None
        assert put.answered_ns is not None
        if put.name in names:
            at = f", log offset {put.physical_offset}, queue offset {put.queue_offset} of {put.place[0]}/{put.place[1]}"
            text = f"{put.name}: {put.status.value}{at if put.physical_offset is not None else ''}"
            if put.refused_because:
                text += f", to be refused: {put.refused_because}"
            yield TraceEvent(put.answered_ns, 0, "producer", "answered", text)
        elif put.status is not PutMessageStatus.PUT_OK and not put.status.is_final:  # an illegal message is refused
            text = f"{put.status.value}, a put to {put.place[0]}/{put.place[1]}"
            yield TraceEvent(put.answered_ns, 0, "producer", "put refused", text)
