"""Run observer: a trace that also has faults, losses, errors of the store, and its lines of code.

    kind             text
    fault ...        the place of a fault that the disk injected
    damaged          the range of a file that the disk damaged, or that changed while the machine was off
    power cut: ...   the range of a page that a power cut changed, or the name, size or removal of a file that it lost
    error ...        an error that a service of the store recorded, with the line that raised it; or a reason to refuse
                     puts until a restart
    recovered        the report of a recovery: the range of the log that it read, its findings, and where it cut the log
    mark             a mark that the store reached: a rare branch of its code
    violated         the invariant that the run violated

The observer only reads, so the digest stays the same.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from types import FrameType
from typing import Any

from ....faults.disk.aftermath import Aftermath, PageFate
from ....faults.disk.disk import Disk
from ....faults.disk.fault_injector import InjectedFault
from ....faults.simulation.simulation import WorldTrace
from ....sim.machine import Machine
from ....store.marks import MARKS
from ....store.message_store import MessageStore
from ....store.recovery.recovery import RecoveryReport
from ...oracle.evidence import Evidence, Violation, error_text, refusals_until_restart
from ...runs.marks import ReachedMark

_PACKAGE = __name__.partition(".")[0]
_CODE = (f"{_PACKAGE}.store.", f"{_PACKAGE}.scenarios.mutants.bugs.")
"""The code under test: the store, and bugs that replace its functions."""
_NOT_NAMED = (f"{_PACKAGE}.store.marks", f"{_PACKAGE}.store.service")
_ERRORS = ("last_error", "passed_over")
_FINDINGS_SHOWN = 2
_RANGES_SHOWN = 3


class RunObserver(WorldTrace):
    """Records one run."""

    def __init__(self, *, is_alone: bool, text_of_sent: Callable[[str, bytes], str] | None = None) -> None:
        """is_alone: whether the run has one store, with one disk after another. text_of_sent: returns a description of
        data on the connection "sender>receiver", or an empty string."""
        super().__init__()
        self._is_alone = is_alone
        self._disk: Disk | None = None
        self._after_crash: dict[str, bytes] | None = None
        """The files after the last power cut; None after the next machine has mounted them."""
        self._store: MessageStore | None = None
        self._known: dict[tuple[str, str], object] = {}
        """Service and attribute -> last known error."""
        self._reported: RecoveryReport | None = None
        self._text_of_sent = text_of_sent

    def text_of_data(self, kind: str, label: str, data: bytes) -> str:
        text = self._text_of_sent(label, data) if self._text_of_sent is not None and kind == "send" else ""
        return text or super().text_of_data(kind, label, data)

    def code_place(self) -> str:
        return code_place(sys._getframe(2))

    def add_event(self, kind: str, text: str) -> None:
        self._record_errors()
        if kind in ("kill", "start"):  # a store starts its services after the load
            self._record_recovery()
        super().add_event(kind, text)

    def emit(self, fact: object) -> None:
        if isinstance(fact, InjectedFault):
            super().add_event(f"fault {fact.kind}:", fact.place)
            self._record_damage(f"{one.path} [{one.start}, {one.end})" for one in fact.damage)
        elif isinstance(fact, ReachedMark):
            super().add_event("mark:", MARKS[fact.name])
        elif isinstance(fact, Aftermath):
            self._record_aftermath(fact)
        elif isinstance(fact, MessageStore):
            self._store, self._known = fact, {}
        elif isinstance(fact, Evidence | Violation):
            self._record_errors()
            self._record_recovery()
            if isinstance(fact, Violation):
                super().add_event("violated", f"{fact.invariant}")

    def watch(self, machine: Machine, disk: Disk, tasks: Any, files: Any) -> tuple[Any, Any]:
        if self._is_alone and disk is not self._disk:
            before = self._after_crash
            if before is None and self._disk is not None:
                before = _contents_of(self._disk)
            self._record_damage(() if before is None else _differences(before, _contents_of(disk)))
            self._record_damage(f"{one.path} [{one.start}, {one.end})" for one in disk.bad_sectors)
            self._disk, self._after_crash = disk, None
        return tasks, files

    def _record_aftermath(self, after: Aftermath) -> None:
        page_bytes = 0 if self._disk is None else self._disk.content_state().page_bytes
        for label in after.lost:
            loss, _, change = label.partition(": ")
            self._add_disk_event(f"power cut: {loss}:", change)
        for page in after.pages:
            if page.ending is not PageFate.KEPT and page_bytes:
                start = page.page * page_bytes
                self._add_disk_event(f"power cut: page {page.ending}:", f"{page.path} [{start}, {start + page_bytes})")
        self._after_crash = {path: bytes(file.content) for path, file in after.image.files.items()}

    def _record_damage(self, ranges: Iterable[str]) -> None:
        for text in ranges:
            self._add_disk_event("damaged", text)

    def _add_disk_event(self, kind: str, text: str) -> None:
        """Add an event that no task caused."""
        self._add_fact(kind, text)
        self._events[-1] = self._events[-1]._replace(task="disk")

    def _add_fact(self, kind: str, text: str) -> None:
        """Add an event without a line of code, because the event happened earlier than the line that now runs."""
        super().add_event(kind, text)
        self._events[-1] = self._events[-1]._replace(place="")

    def _record_errors(self) -> None:
        """Record each error that a service of the store has stored since the last call."""
        if self._store is None:
            return
        assert self._kernel is not None, "a trace belongs to a kernel"
        with self._kernel.without_scheduling_points():
            found = list(_kept_errors(self._store))
        for name, attribute, value in found:
            known = self._known.get((name, attribute))
            if known is not value and not (known and isinstance(value, str)):  # a text is recorded once
                self._known[name, attribute] = value
                what = error_text(value) if isinstance(value, BaseException) else str(value)
                words = f"{name} passed over:" if attribute == "passed_over" else f"{name}:"
                self._add_fact("error", f"{words} {what}")

    def _record_recovery(self) -> None:
        """Record the report of a recovery once, after the load, when the report is complete."""
        if self._store is None:
            return
        assert self._kernel is not None, "a trace belongs to a kernel"
        with self._kernel.without_scheduling_points():
            report = self._store.last_recovery
        if report is not None and report is not self._reported:
            self._reported = report
            if report.end_offset or report.findings:  # otherwise the store was new
                self._add_fact("recovered", recovery_text(report))
                self._events[-1] = self._events[-1]._replace(task=self._kernel.current.machine.name)


def recovery_text(report: RecoveryReport) -> str:
    parts = [
        f"after {'a clean stop' if report.clean_exit else 'a crash'}: read the log from {report.start_offset} to"
        f" {report.end_offset}, {report.records} records, {report.changed_entries} queue entries changed"
    ]
    if report.cut_at is not None:
        parts.append(f"truncated the log at {report.cut_at}")
    if report.lacks_room is not None:
        parts.append(f"lacks space: {report.lacks_room}")
    parts += [f"found {finding}" for finding in report.findings[:_FINDINGS_SHOWN] if finding is not report.cut_at]
    return "; ".join(parts)


def code_place(frame: FrameType | None) -> str:
    """Return the innermost lines of the code under test in two files, or ""."""
    places: dict[str, int] = {}
    while frame is not None and len(places) < 2:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith(_CODE) and module not in _NOT_NAMED:
            file = module.partition(".")[2].removeprefix("store.").replace(".", "/")
            places.setdefault(f"{file}.py", frame.f_lineno)
        frame = frame.f_back
    return " < ".join(f"{file}:{line}" for file, line in places.items())


def _kept_errors(store: MessageStore) -> Iterator[tuple[str, str, object]]:
    """Yield (service, attribute, error) for each stored error, and for each count of skipped entries."""
    for name, part in vars(store).items():
        for attribute in _ERRORS:
            value = getattr(part, attribute, None)
            if value:
                yield name, attribute, value
    for name, text in store.flags.failures.items():
        yield name, "failure", text
    for reason, text in refusals_until_restart(store).items():
        yield "store", reason.name or "", text


def _contents_of(disk: Disk) -> dict[str, bytes]:
    return {path: bytes(file.cache) for path, file in disk.content_state().files.items()}


def _differences(before: dict[str, bytes], after: dict[str, bytes]) -> Iterator[str]:
    """Yield the first ranges that differ in each file."""
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if old is None or new is None:
            yield f"{path} {'appeared' if old is None else 'is missing'}"
        elif old != new:
            size = max(len(old), len(new))
            differs = [at for at in range(size) if old[at : at + 1] != new[at : at + 1]]
            # consecutive offsets have the same difference to their rank
            ranges = [list(each) for _, each in groupby(enumerate(differs), lambda pair: pair[1] - pair[0])]
            yield from (f"{path} [{each[0][1]}, {each[-1][1] + 1})" for each in ranges[:_RANGES_SHOWN])
