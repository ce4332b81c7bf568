"""The judge of one run: every check at its moment, and the end of the run at the first promise that is broken."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from ...faults.disk.damage import DamagedRange
from ...faults.disk.disk import Disk
from ...sim.alarm import NoEndInSight
from ...sim.choices import Stream
from ...sim.errors import LivenessError, MachineDied, TaskFailedError
from ...sim.kernel import Kernel
from ...sim.machine import Machine
from ...store.config import StoreConfig
from ...store.message_store import MessageStore
from ...store.service import Service
from ..claims.plan import Plan
from ..workload import operators
from . import allowances, guarantees
from .damaged_log import damaged_log_offset
from .error_text import place_of, services_text
from .evidence import Evidence, Violation, tried
from .guarantee_table import PROMISED, Promise
from .invariants import CHECKERS, ckpt, clean, idx, idx_lookups, live, pos, read, stopped
from .ledger import Ledger
from .reader import Known
from .recovered import RecoveredStore, read_store

_NOWHERE = 1 << 63
_OF_LOG_AND_QUEUES = ("CQ-COMPLETE", "CQ-VALID", "IDX")
"""Checkers that need nothing but a store: it may be a slave's, whose log may be an older one of its master's."""


class StopOnViolation(Exception):
    """A violation was found; the run is over."""


class Judge:
    """Reads what a run has come to, and notes what recoveries settle. `violations` is what it found."""

    def __init__(
        self,
        plan: Plan,
        kernel: Kernel,
        ledger: Ledger,
        streams: Callable[[str], Stream],
    ) -> None:
        self.violations: list[Violation] = []
        self._plan = plan
        self._kernel = kernel
        self._ledger = ledger
        self._streams = streams
        self._promised = PROMISED[plan.disk]
        self._known: Known = {}
        self._damaged_from = _NOWHERE
        """The first log offset where the disk has ever done damage."""

    def is_promised(self, invariant: str) -> bool:
        """Return whether an invariant is promised at all on the disk of this run."""
        return self._promised[invariant] is not Promise.NONE

    @property
    def may_refuse(self) -> bool:
        """Return whether a store may refuse to open on such a disk, if it names what is damaged."""
        return self._promised["START"] is Promise.INTACT

    def report(self, violations: Iterable[Violation]) -> None:
        """End the run at the first check that yields a violation of a promise; the rest of that check's come along."""
        found = [violation for violation in violations if self.is_promised(violation.invariant)]
        if found:
            self._note(*found)
            raise StopOnViolation(str(found[0]))

    def broken(
        self, invariant: str, summary: str, field: str, expected: str, found: str, *, detail: str = ""
    ) -> NoReturn:
        """End the run with one violation that has no place in a file; on a disk where it is none, just end it."""
        if self.is_promised(invariant):
            self._note(Violation(invariant, summary, "", -1, field, expected, found, detail))
        raise StopOnViolation(summary)

    def _note(self, *violations: Violation) -> None:
        """Keep violations, and tell the trace, if there is one."""
        self.violations += violations
        for violation in violations:
            tried(violation.invariant)
        if self._kernel.trace is not None:
            for violation in violations:
                self._kernel.trace.tell(violation)

    @contextmanager
    def judged_errors(self) -> Iterator[None]:
        """Turn what the kernel reports of the store into violations."""
        try:
            yield
        except TaskFailedError as failed:
            cause = failed.__cause__
            if not isinstance(cause, StopOnViolation):
                summary = f"{failed.task} died: {type(cause).__name__}: {cause}"
                place = "" if cause is None else place_of(cause)
                self._note(Violation("LIVE", summary, field="task", detail=place and f"raised in {place}"))
            raise StopOnViolation from failed
        except LivenessError as stuck:
            self._note(Violation("LIVE", str(stuck), field="progress"))
            raise StopOnViolation from stuck
        except NoEndInSight as endless:
            summary = "no end in sight: a task loops without a world call"
            self._note(Violation("LIVE", summary, field="progress"))
            raise StopOnViolation from endless

    def recovery(self, store: MessageStore, disk: Disk) -> None:
        """Judge what a recovery has made of the last life, and note what it settles."""
        found = read_store(store, self._ledger.by_properties, self._ledger.known_damage, known=self._known)
        evidence = Evidence(self._ledger, found)
        if self._kernel.trace is not None:
            self._kernel.trace.tell(evidence)
        self.note_damage(store.config, ())
        for check in CHECKERS.values():
            self.report(check(evidence))
        if self._plan.seekers:
            self.report(idx_lookups.check_lookups(store, found))
        self.claims(store, disk)
        # What a failed sync dropped, a process that is killed leaves in a page cache that calls it clean.
        durable = not allowances.sync_errors(disk) and not disk.fired["lying sync"]
        guarantees.note_recovery(self._ledger, found, durable=durable)
        self.note_damage(store.config, disk.damage)

    def note_damage(self, config: StoreConfig, damage: Iterable[DamagedRange]) -> None:
        """Note where the disk has damaged the log without telling anybody: nothing is promised from there on, ever."""
        log_offset = damaged_log_offset(config, damage)
        if log_offset is not None:
            self._damaged_from = min(self._damaged_from, log_offset)
        if self._damaged_from != _NOWHERE and self._promised["DUR"] is Promise.INTACT:
            guarantees.note_damage(self._ledger, self._damaged_from)

    def claims(self, store: MessageStore, disk: Disk) -> None:
        """Ask the disk whether what the store takes for durable is."""
        self._claims(store, disk, self._ledger)

    def claims_of_all(self, store: MessageStore, disk: Disk) -> None:
        """Ask that of a store that retention takes nothing from, be it a slave's or a broker's."""
        self._claims(store, disk, None)

    def _claims(self, store: MessageStore, disk: Disk, ledger: Ledger | None) -> None:
        self.report(pos.check(store, disk, ledger))
        self.report(ckpt.check(store, disk, ledger))

    def recovery_alone(self, store: MessageStore, disk: Disk) -> RecoveredStore:
        """Judge a recovery by nothing but its store and disk, and return what it found; nothing is settled by it."""
        found = read_store(store, known=self._known)
        evidence = Evidence(self._ledger, found)
        for name in _OF_LOG_AND_QUEUES:
            self.report(CHECKERS[name](evidence))
        self.claims_of_all(store, disk)
        return found

    def services(self, store: MessageStore, machine: Machine, *others: Service | None) -> None:
        """Look for services of a store that runs, and of others beside it, which have ended without a word."""
        running = {task.name for task in machine.live_tasks.values()}
        for service in (*store.services, *others):
            if service is None or f"{machine.name}/{service.name}" in running:
                continue
            if service.name not in store.flags.failures or store.flags.is_writeable:
                summary = f"{service.name} has ended, and the store does not say so"
                self.broken("LIVE", summary, "service", "running, or among failedServices", "neither")

    def catch_up(self, store: MessageStore, disk: Disk) -> None:
        """Wait until all that is durable is visible, then judge what consumers were given."""
        tried("LIVE")
        must_recover = allowances.must_recover(self._plan, disk)
        limit_ms = live.dispatch_ms_max(self._plan) + (live.RETRY_MS_MAX if must_recover else 0)
        deadline_ns = self._kernel.now_ns + limit_ms * 1_000_000
        if store.commit is not None:
            self._await_commit(store, disk, deadline_ns)
        end = store.dispatch.readable_limit()
        while store.dispatch.reput_from.get() < end:
            if self._kernel.now_ns > deadline_ns:
                if not must_recover and (allowances.errors(disk) or allowances.wants_of_space(disk)):
                    return  # it is tried again and again, and meets the next error
                behind = f"{store.dispatch.behind_bytes} bytes"
                self.broken(
                    "LIVE",
                    "dispatch does not catch up",
                    "behind",
                    "0 bytes",
                    behind,
                    detail=services_text(store, "dispatch"),
                )
            store.world.tasks.sleep(5)
            if not self._plan.delay_chance:  # else the store itself goes on putting
                end = store.dispatch.readable_limit()
        if allowances.has_reverted(disk):
            return  # nobody knows all that there is to be read
        removes = self._plan.retention and self._plan.queues_removed
        if (self._ledger.pulls and self.is_promised("READ")) or removes:
            found = read_store(store, known_damage=self._ledger.known_damage, known=self._known)
            if found.damage is not None:
                return
            self.report(read.check(self._ledger, found))
            if removes:  # a restart would find what is hidden from everybody now
                self.report(self._unreachable(store, found))

    def _unreachable(self, store: MessageStore, found: RecoveredStore) -> Iterable[Violation]:
        """Return records of a store that runs which no queue leads to, but for what may be going, or is yet to come."""
        begin, end = self._ledger.expired_to, store.dispatch.reput_from.get()
        found.records = [each for each in found.records if begin <= each.record.physical_offset < end]
        return CHECKERS["CQ-COMPLETE"](Evidence(self._ledger, found))

    def _await_commit(self, store: MessageStore, disk: Disk, deadline_ns: int) -> None:
        """Wait until what has been put is in the page cache."""
        end = store.log.put_offset
        must_recover = allowances.must_recover(self._plan, disk)
        while store.log.max_offset < end and (must_recover or not allowances.errors(disk)):
            if self._kernel.now_ns > deadline_ns:
                behind = f"{end - store.log.max_offset} bytes"
                detail = services_text(store, "commit-real-time")
                self.broken("LIVE", "puts are not committed", "behind", "0 bytes", behind, detail=detail)
            store.world.tasks.sleep(5)

    def flushing(self, store: MessageStore) -> None:
        """Wait until what has been put is durable, in the time that the settings give under ASYNC_FLUSH too.

        A store that has failed does not sync again, and takes no more puts.
        """
        limit_ms = live.durable_ms_max(self._plan) + live.pauses_ms_max(self._plan)
        deadline_ns = self._kernel.now_ns + limit_ms * 1_000_000
        end = self._stored_to() if self._plan.sync_flush else store.log.max_offset
        while store.log.flushed_where.get() < end:
            if store.flags.has_failed:
                if store.flags.is_writeable:
                    self.broken(
                        "STATUS", "puts are taken after a failed sync", "flags", "refusing", "writeable"
                    )
                return
            if self._kernel.now_ns > deadline_ns:
                behind = f"{end - store.log.flushed_where.get()} bytes"
                summary, detail = (
                    "what was put does not become durable",
                    services_text(store, store.flush.name),
                )
                self.broken("LIVE", summary, "behind", "0 bytes", behind, detail=detail)
            store.world.tasks.sleep(50)

    def _stored_to(self) -> int:
        """Return a log offset up to which users of this life know the log to go: blanks of refused puts may be behind.

        Those wait for the next put under SYNC_FLUSH, for nobody waits for them.
        """
        stored = [put.physical_offset for put in self._ledger.puts_of_this_life()]
        return max((at + 1 for at in stored if at is not None), default=0)

    def cleaning(self, store: MessageStore, disk: Disk, number: int) -> None:
        """Wait until what expired is gone and queues begin where the log does; see what is said of what is gone.

        After a failed sync nothing expires that rests upon it.
        """
        must_recover = allowances.must_recover(self._plan, disk) and not allowances.sync_errors(disk)
        deadline_ns = self._kernel.now_ns + clean.passes_ms_max(store) * 1_000_000
        while violations := self._uncleaned(store, disk):
            if self._kernel.now_ns > deadline_ns:
                if must_recover or not allowances.errors(disk):
                    self.report(violations)
                break
            store.world.tasks.sleep(200)
        self.report(clean.check_answers(store, self._ledger))
        log_min_offset = store.log.min_offset
        try:
            removed = operators.queue_operator(store, self._streams(f"life-{number}/queue operator"))
        except OSError:
            if not allowances.errors(disk):
                raise
            return
        if removed:
            self.report(clean.check_queues_removed(store, log_min_offset))

    def _uncleaned(self, store: MessageStore, disk: Disk) -> list[Violation]:
        with disk.with_faults(failed_lookup_chance=0.0):  # who judges sees well
            return [*clean.check_expired(store), *clean.check_queues(store)]

    def stop(
        self, store: MessageStore, disk: Disk, machine: Machine, *, clean: bool, has_room: bool = True
    ) -> None:
        """See whether a stop was what it says. One that was not clean must have a reason, and is taken for a crash.

        has_room: whether the disk has had room again since before the stop began.
        """
        if not clean:
            had_room = has_room and self._plan.heals  # but for what has none now and then
            is_short = disk.fired["failed extend"] if had_room else allowances.wants_of_space(disk)
            if not allowances.errors(disk) and not is_short:
                summary, detail = "a stop without a fault was not clean", services_text(store)
                self.broken("LIVE", summary, "exit", "clean", "unclean", detail=detail)
            self._kernel.kill(machine)  # what an unclean stop leaves is judged as what a crash leaves
            raise MachineDied(machine.name)
        self.claims(store, disk)
        self.report(idx.check_stopped(store, disk))
        self.report(stopped.check(store, disk))
        self._check_all_tasks_ended(machine)

    def _check_all_tasks_ended(self, machine: Machine) -> None:
        """Find services that a stop has left running."""
        running = [task.name for task in machine.live_tasks.values() if task is not self._kernel.current]
        if running:
            self.broken("LIVE", "a stop left tasks running", "tasks", "none", ", ".join(running))
