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
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from types import FrameType
from typing import TYPE_CHECKING, Any

from ....faults.disk.aftermath import Aftermath, PageFate
from ....faults.disk.disk import Disk
from ....faults.disk.fault_injector import InjectedFault
from ....faults.simulation.simulation import WorldTrace
from ....sim.machine import Machine
from ....store.marks import MARKS
from ....store.message_store import MessageStore
from ....store.recovery.recovery import RecoveryReport
from ...oracle.evidence import Evidence, FoundInRequest, Violation, error_text, refusals_until_restart
from ...runs.marks import ReachedMark
from .exchanges import Exchange

if TYPE_CHECKING:
    from .request_texts import RequestTexts

_PACKAGE = __name__.partition(".")[0]
_CODE = f"{_PACKAGE}.store."
"""The code under test. Bugs that replace its functions are not named: a finding must lead to them by itself."""
_NOT_NAMED = (f"{_PACKAGE}.store.marks", f"{_PACKAGE}.store.service")
_CALLERS_MAX = 4
_CLIENT_TASK = "/client of "
_ERRORS = ("last_error", "passed_over")
_FINDINGS_SHOWN = 2
_RANGES_SHOWN = 3


class RunObserver(WorldTrace):
    """Records one run."""

    def __init__(self, *, is_alone: bool, requests: "RequestTexts | None" = None) -> None:
        """is_alone: whether the run has one store, with one disk after another. requests: reads the data on simulated
        connections."""
        super().__init__()
        self._is_alone = is_alone
        self._disk: Disk | None = None
        self._after_crash: dict[str, bytes] | None = None
        """The files after the last power cut; None after the next machine has mounted them."""
        self._store: MessageStore | None = None
        self._known: dict[tuple[str, str], object] = {}
        """Service and attribute -> last known error."""
        self._reported: RecoveryReport | None = None
        self._requests = requests
        self._found: Sequence[Violation] = ()
        """The violations that a server's task found first in a request, and the exchange with this request."""
        self._found_in: Exchange | None = None
        self.judged: Exchange | None = None
        """The exchange in which the first violation was found, if known."""

    @property
    def exchanges(self) -> Sequence[Exchange]:
        return () if self._requests is None else self._requests.exchanges

    def text_of_data(self, kind: str, label: str, data: bytes) -> str:
        text = self._requests.text_of_sent(label, data) if self._requests is not None and kind == "send" else ""
        return text or super().text_of_data(kind, label, data)

    def code_place(self) -> str:
        return code_place(sys._getframe(2), _CALLERS_MAX)

    def add_event(self, kind: str, text: str) -> None:
        self._record_errors()
        if kind in ("kill", "start"):  # a store starts its services after the load
            self._record_recovery()
        super().add_event(kind, text)
        if self._requests is not None and kind == "send":
            assert self._kernel is not None, "a trace belongs to a kernel"
            with self._kernel.without_scheduling_points():
                self._requests.note_event(len(self._events) - 1, sys._getframe(1))

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
        elif isinstance(fact, FoundInRequest):
            if self._requests is not None and not self._found:
                assert self._kernel is not None, "a trace belongs to a kernel"
                self._found, self._found_in = fact.violations, self._requests.in_process(sys._getframe(1))
                if self._found_in is not None:
                    self._found_in.checked = self._kernel.current.name, self._kernel.now_ns
        elif isinstance(fact, Evidence | Violation):
            self._record_errors()
            self._record_recovery()
            if isinstance(fact, Violation):
                if not any(event.kind == "violated" for event in self._events):
                    self.judged = self._judged_exchange(fact)
                super().add_event("violated", f"{fact.invariant}")

    def _judged_exchange(self, violation: Violation) -> Exchange | None:
        """Return the last exchange of the task that reports a violation, or the request in which a server found it.

        A client's task for answers sends no request: then it is the last answered exchange of its machine.
        """
        requests = self._requests
        if requests is None:
            return None
        if violation in self._found:
            return self._found_in
        assert self._kernel is not None, "a trace belongs to a kernel"
        task = self._kernel.current.name
        machine, is_of_answers, _ = task.partition(_CLIENT_TASK)
        answered = [each for each in requests.exchanges if each.asked is not None and each.answered is not None]
        if is_of_answers:
            of_machine = [each for each in answered if self._task_of(each).startswith(f"{machine}/")]
            return max(of_machine, key=lambda each: each.answered or 0, default=None)
        own = [each for each in answered if self._task_of(each) == task]
        return own[-1] if own else None

    def _task_of(self, exchange: Exchange) -> str:
        return self._events[exchange.asked or 0].task

    def watch(self, machine: Machine, disk: Disk, tasks: Any, files: Any) -> tuple[Any, Any]:
        if self._is_alone and disk is not self._disk:
            before = self._after_crash
            if before is None and self._disk is not None:
                before = _contents_of(self._disk)
            for kind, text in () if before is None else _differences(before, _contents_of(disk)):
                self._add_disk_event(kind, text)
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


def code_place(frame: FrameType | None, files_max: int = 2) -> str:
    """Return the innermost lines of the code under test in a number of files, or ""."""
    places: dict[str, int] = {}
    while frame is not None and len(places) < files_max:
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


def _differences(before: dict[str, bytes], after: dict[str, bytes]) -> Iterator[tuple[str, str]]:
    """Yield kind and text of the events for the first ranges that differ in each file."""
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if old is None or new is None:
            yield f"damaged while off, {'new' if old is None else 'removed'}:", path
        elif old != new:
            size = max(len(old), len(new))
            differs = [at for at in range(size) if old[at : at + 1] != new[at : at + 1]]
            # consecutive offsets have the same difference to their rank
            ranges = [list(each) for _, each in groupby(enumerate(differs), lambda pair: pair[1] - pair[0])]
            yield from (("damaged", f"{path} [{each[0][1]}, {each[-1][1] + 1})") for each in ranges[:_RANGES_SHOWN])
