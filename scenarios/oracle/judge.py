"""The judge of one run: runs the checks, and ends the run at the first violation."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import NoReturn

from ...faults.crashes.profiles import CrashProfile
from ...faults.disk.disk import Disk
from ...faults.disk.image import DamagedRange
from ...sim.errors import LivenessError, TaskFailedError
from ...sim.kernel import Kernel
from ...sim.machine import Machine
from ...sim.process import CpuLimitReached
from ...store.config import StoreConfig
from ...store.log.transient_pool import BufferedSegmentQueue
from ...store.message_store import MessageStore
from ...store.service import Service
from ..claims.plan import Plan
from . import allowances, guarantees
from .evidence import Evidence, Violation, frames_of, record_tried, services_text
from .guarantees import PROMISED, Promise
from .invariants import CHECKERS, clean, consumers, delivery, files, idx, live, pos, scan, side_files, status, units
from .known_damage import damaged_log_offset
from .ledger import Ledger
from .misfiled import note_misfiled
from .reader import Known
from .recovered import RecoveredStore, read_store

_NOWHERE = 1 << 63
_OF_LOG_AND_QUEUES = ("CQ-COMPLETE", "CQ-VALID", "IDX")
"""These checks need only a store, also a slave's with an older log than its master's."""


class StopOnViolation(Exception):
    """Raised at a violation, to end the run."""


class Judge:
    """Compares stores with the ledger, and records crashes and recoveries there. Never changes a store."""

    def __init__(self, plan: Plan, kernel: Kernel, ledger: Ledger) -> None:
        self.violations: list[Violation] = []
        self._plan = plan
        self._kernel = kernel
        self._ledger = ledger
        self._promised = PROMISED[plan.disk]
        self.readings: Known = {}
        """Decoded records, reused when a log is read again."""
        self.times_before_load: dict[str, int | None] = {}
        """The modification times of a single store's segment files before its last load."""
        self.is_loading = False
        """Whether a load has begun and not ended; stays True if it was killed."""
        self.killed_load = False
        """Whether the load before the last one was killed."""
        self.changed_by_load: list[Violation] = []
        """Queue entries that the last load changed after a clean stop, reported after violations nearer to a cause."""
        self._damaged_from = _NOWHERE

    def for_other_ledger(self, ledger: Ledger) -> "Judge":
        """Return a judge of another store in the same run, with another ledger and the same violations."""
        other = copy(self)
        other._ledger = ledger
        return other

    def is_promised(self, invariant: str) -> bool:
        return self._promised[invariant] is not Promise.NONE

    @property
    def may_refuse_to_open(self) -> bool:
        """Whether a store on this disk may refuse to open with an error that names the damaged file."""
        return self._promised["START"] is Promise.INTACT

    def report(self, violations: Iterable[Violation]) -> None:
        """Keep the violations that break a promise, and end the run if there is any."""
        found = [violation for violation in violations if self.is_promised(violation.invariant)]
        if found:
            self._record_violations(*found)
            raise StopOnViolation(str(found[0]))

    def report_and_stop(
        self, invariant: str, summary: str, field: str, expected: str, found: str, *, detail: str = ""
    ) -> NoReturn:
        """Report one violation without a file, and end the run even if the disk permits the violation."""
        if self.is_promised(invariant):
            self._record_violations(Violation(invariant, summary, "", -1, field, expected, found, detail))
        raise StopOnViolation(summary)

    def _record_violations(self, *violations: Violation) -> None:
        self.violations += violations
        for violation in violations:
            record_tried(violation.invariant)
        if self._kernel.trace is not None:
            for violation in violations:
                self._kernel.trace.emit(violation)

    @contextmanager
    def judged_errors(self) -> Iterator[None]:
        """Report errors of the kernel as violations."""
        try:
            yield
        except TaskFailedError as failed:
            cause = failed.__cause__
            if not isinstance(cause, StopOnViolation):
                summary = f"{failed.task} died: {type(cause).__name__}: {cause}"
                place = "" if cause is None else frames_of(cause)
                self._record_violations(Violation("LIVE", summary, field="task", detail=place and f"raised in {place}"))
            raise StopOnViolation from failed
        except LivenessError as stuck:
            self._record_violations(Violation("LIVE", str(stuck), field="progress"))
            raise StopOnViolation from stuck
        except CpuLimitReached as endless:
            summary = "endless loop: a task computes without a call of clock, tasks, files or network"
            self._record_violations(Violation("LIVE", summary, field="progress"))
            raise StopOnViolation from endless

    @contextmanager
    def timed_step(
        self, name: str, store: MessageStore, *, after_faults: bool = False, requests_ms: int = 0
    ) -> Iterator[None]:
        """Check the time of a load, start or stop in a `with` block: each file is synced, and a put may be in flight.

        after_faults: whether all faults have ended. Otherwise only plans without slow operations are checked.
        requests_ms: the additional time of requests that a stop answers first.
        """
        plan, began_ns = self._plan, self._kernel.now_ns
        if not after_faults and (not live.is_calm(plan) or plan.capacity_bytes):
            yield
            return
        with self._kernel.without_scheduling_points():
            work_ms = live.work_ms_max(plan, store)
        yield
        with self._kernel.without_scheduling_points():
            work_ms = max(work_ms, live.work_ms_max(plan, store))
        took_ms = (self._kernel.now_ns - began_ns) // 1_000_000
        limit_ms = work_ms + live.calm_answer_ms_max(plan) + live.buffered_copies_ms_max(plan) + requests_ms
        limit_ms += plan.messages.backlog * plan.sync_ms_max  # a load removes at most one file of queues per message
        self.report(live.check_time(f"{name} takes too long", took_ms, limit_ms, "time"))

    def judge_recovery(self, store: MessageStore, disk: Disk) -> RecoveredStore:
        """Check the latest recovery, and record its result in the ledger."""
        found = read_store(store, self._ledger.by_properties, self._ledger.known_damage, known=self.readings)
        note_misfiled(self._ledger, found)
        evidence = Evidence(self._ledger, found)
        if self._kernel.trace is not None:
            self._kernel.trace.emit(evidence)
        self.note_damage(store.config, ())
        for check in CHECKERS.values():
            self.report(check(evidence))
        if self._plan.index.seekers:
            self.report(idx.check_lookups(store, found))
        self.judge_positions(store, disk)
        self.report(pos.check_truncated_bytes(store, disk))
        self.report(pos.check_log_names(store, disk))
        self.report(scan.check_reported_damage(self._plan, store.last_recovery, self.killed_load))
        self.report(self.changed_by_load)
        # After a failed fsync and a process kill, dropped data is in the page cache in clean pages.
        durable = not allowances.count_sync_errors(disk) and not disk.injected["lying sync"]
        guarantees.note_recovery(self._ledger, found, durable=durable, sync_flush=self._plan.sync_flush)
        self.note_damage(store.config, disk.damage)
        return found

    def note_damage(self, config: StoreConfig, damage: Iterable[DamagedRange]) -> None:
        """Record that no record after the first damaged log offset is promised any more."""
        log_offset = damaged_log_offset(config, damage)
        if log_offset is not None:
            self._damaged_from = min(self._damaged_from, log_offset)
        if self._damaged_from != _NOWHERE and self._promised["DUR"] is Promise.INTACT:
            guarantees.note_damage(self._ledger, self._damaged_from)

    def judge_positions(self, store: MessageStore, disk: Disk) -> None:
        self._judge_positions(store, disk, self._ledger)

    def judge_positions_without_retention(self, store: MessageStore, disk: Disk) -> None:
        self._judge_positions(store, disk, None)

    def _judge_positions(self, store: MessageStore, disk: Disk, ledger: Ledger | None) -> None:
        with self._kernel.without_scheduling_points():  # retention may run at the same time
            found = [*pos.check_positions(store, disk, ledger), *side_files.check_checkpoint(store, disk, ledger)]
        self.report(found)

    def watch_queue_flushes(self, store: MessageStore, disk: Disk) -> None:
        """Check the checkpoint after each advance of its queue time, if a flushed queue file has an unsynced name.

        A later flush may hide the error.
        """
        flush, checkpoint = store.flush_queues, store.checkpoint
        take_sample, checked_ms = flush.on_interval, checkpoint.logics_msg_timestamp_ms

        def on_interval() -> None:
            nonlocal checked_ms
            take_sample()
            with self._kernel.without_scheduling_points():
                if checkpoint.logics_msg_timestamp_ms == checked_ms:
                    return
                checked_ms = checkpoint.logics_msg_timestamp_ms
                paths = [segment.file.path for each in store.queues.all_queues() for segment in each.queue.segments]
                new = [disk.content(path)[:8] for path in paths if not disk.is_file_durable(path, 0, 0)]
                if not any(int.from_bytes(first_offset) < flush.durable_to.get() for first_offset in new):
                    return
                found = list(side_files.check_checkpoint(store, disk, self._ledger))
            self.report(found)

        flush.on_interval = on_interval

    def judge_delivery_progress(self, store: MessageStore, disk: Disk, content: bytes) -> None:
        """Check the progress of delayed delivery before the store writes it."""
        with self._kernel.without_scheduling_points():
            found = list(delivery.check_written_progress(store, disk, self._ledger, content, self.readings))
        self.report(found)

    def judge_recovery_alone(self, store: MessageStore, disk: Disk) -> RecoveredStore:
        """Check a recovery without a change of the ledger."""
        found = read_store(store, known=self.readings)
        note_misfiled(self._ledger, found)
        evidence = Evidence(self._ledger, found)
        for name in _OF_LOG_AND_QUEUES:
            self.report(CHECKERS[name](evidence))
        self.judge_positions_without_retention(store, disk)
        self.report(pos.check_truncated_bytes(store, disk))
        self.report(pos.check_log_names(store, disk))
        self.report(self.changed_by_load)
        return found

    def judge_services(self, store: MessageStore, machine: Machine, *others: Service | None) -> None:
        running = {task.name for task in machine.live_tasks.values()}
        for service in (*store.services, *others):
            if service is None or f"{machine.name}/{service.name}" in running:
                continue
            if service.name not in store.flags.failures or store.flags.is_writeable:
                summary = f"{service.name} has ended, but the store does not report it"
                self.report_and_stop("LIVE", summary, "service", "running, or among failedServices", "neither")

    def judge_pulls(self, store: MessageStore) -> None:
        """Check the pulls of consumers after all durable records were dispatched."""
        removes = self._plan.retention.deletes_segments and self._plan.retention.deletes_queues
        if (self._ledger.pulls and self.is_promised("READ")) or removes:
            dispatched = store.dispatch.reput_from.get()  # read first, because it may grow during the read
            found = read_store(store, known_damage=self._ledger.known_damage, known=self.readings)
            if found.damage is not None:
                return
            self.report(consumers.check_queue_reads(self._ledger, found))
            self.report(self._check_running_queues(found, dispatched))

    def _check_running_queues(self, found: RecoveredStore, dispatched: int) -> Iterator[Violation]:
        """Yield dispatched records that the queues of a running store lack, except expiring ones.

        The next start would find these records, because a load rebuilds the queues from the log.
        """
        found.min_offset = begin = max(self._ledger.expired_to, found.min_offset)
        found.records = [each for each in found.records if begin <= each.record.physical_offset < dispatched]
        evidence = Evidence(self._ledger, found)
        yield from CHECKERS["CQ-COMPLETE"](evidence)
        yield from clean.check_queue_starts(evidence)

    def leftover_violations(self, store: MessageStore, disk: Disk) -> list[Violation]:
        """Return violations for expired files that still exist, and for queues that begin with removed messages.

        After a shutdown of the file system, which refuses removals, return no violation.
        """

        def look() -> Iterator[Violation]:
            yield from clean.check_expired_segments(store)
            yield from clean.check_queues(store)
            yield from clean.check_leading_files(store)

        return self._without_lookup_faults(disk, look)

    def judge_queue_removal(self, store: MessageStore, disk: Disk, log_min_offset: int) -> None:
        self.report(self._without_lookup_faults(disk, lambda: clean.check_queues_removed(store, log_min_offset)))

    def _without_lookup_faults(self, disk: Disk, look: Callable[[], Iterable[Violation]]) -> list[Violation]:
        """Run a check without look-up faults. After a shutdown of the file system, return no violation."""
        try:
            with disk.with_faults(failed_lookup_chance=0.0):
                return list(look())
        except OSError:
            if not disk.is_stopped:
                raise
            return []

    def judge_answers_about_removed(self, store: MessageStore) -> None:
        self.report(clean.check_answers(store, self._ledger))

    def judge_clean_stop(self, store: MessageStore, disk: Disk, machine: Machine) -> None:
        self.judge_positions(store, disk)
        self.report(idx.check_stopped_index(store, disk))
        self.report(status.check_stopped_store(store, disk, machine))
        self.report(status.check_disk_refusal(store, disk))
        self._check_all_tasks_ended(machine)
        self.report(side_files.check_stopped_checkpoint(store, disk))
        self._judge_files(store, disk, is_stopped=True)

    def judge_loaded_files(self, store: MessageStore, disk: Disk) -> None:
        """Check the files of a single store after `judge_recovery`, before its services start."""
        self.report(files.check_times(self.times_before_load, disk, store))
        self._judge_files(store, disk)

    def _judge_files(self, store: MessageStore, disk: Disk, *, is_stopped: bool = False) -> None:
        """Check the files of a store without running services, and the report of its load."""
        if files.can_check_files(self._plan) and not allowances.has_any_fault(disk):
            self.report(files.check_files(store, disk, is_stopped=is_stopped))
            self.report(files.check_first_segment(store, self._ledger.expired_to))
            for versions in (self._ledger.delay_progress, self._ledger.group_progress):
                self.report(side_files.check_backup(versions, disk))
            self.report(units.check_units(store, disk) if is_stopped else files.check_report(store))

    def judge_crash(self, store: MessageStore | None, disk: Disk, profile: CrashProfile) -> None:
        """Check a store at a crash, and record which data must survive. store: None if none was open."""
        flushed_where, committed_where = 0, None
        if store is not None:
            self.judge_positions(store, disk)
            self.report(status.check_permanent_refusal(store, disk))
            self.report(status.check_disk_refusal(store, disk))
            flushed_where = store.log.flushed_where.get()
            if isinstance(store.log, BufferedSegmentQueue):
                committed_where = store.log.committed_where
        cache_is_whole = not allowances.has_reverted_data(disk)
        ends = flushed_where, committed_where
        guarantees.note_crash(self._ledger, self._plan, profile, *ends, cache_is_whole=cache_is_whole)

    def judge_unclean_stop(self, store: MessageStore, disk: Disk, *, has_room: bool) -> None:
        """Check an unclean stop, which needs a fault as a reason.

        has_room: whether the disk had free space again before the stop began.
        """
        had_room = has_room and self._plan.heals  # single extensions of a file may still have failed
        is_short = disk.injected["failed extend"] if had_room else allowances.count_out_of_space(disk)
        if not allowances.count_errors(disk) and not is_short:
            summary, detail = "a stop without a fault was not clean", services_text(store)
            self.report_and_stop("LIVE", summary, "exit", "clean", "unclean", detail=detail)

    def _check_all_tasks_ended(self, machine: Machine) -> None:
        running = [task.name for task in machine.live_tasks.values() if task is not self._kernel.current]
        if running:
            self.report_and_stop("LIVE", "a stop left tasks running", "tasks", "none", ", ".join(running))
