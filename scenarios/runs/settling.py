"""Settling: the end of a life. A run waits, within bounds, until its store has done what it owes, and stops it.

Here a run acts: it lets time pass, runs operators, kills machines. What it comes to is judged by the judge.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ...faults.disk.disk import Disk
from ...sim.choices import Stream
from ...sim.errors import MachineDied
from ...sim.kernel import Kernel
from ...sim.machine import Machine
from ...store.message_store import MessageStore
from ..claims.plan import Plan
from ..oracle import allowances
from ..oracle.evidence import services_text, tried
from ..oracle.invariants import clean, live
from ..oracle.judge import Judge
from ..oracle.ledger import Ledger
from ..workload import operators

_DISPATCH_LOOK_MS, _FLUSH_LOOK_MS, _CLEAN_LOOK_MS = 5, 50, 200


@dataclass(frozen=True, slots=True)
class Settling:
    """Waits for the services of a store, and ends its life."""

    plan: Plan
    kernel: Kernel
    ledger: Ledger
    judge: Judge
    streams: Callable[[str], Stream]

    def catch_up(self, store: MessageStore, disk: Disk) -> None:
        """Wait until all that is durable is visible, then have it judged what consumers were given."""
        tried("LIVE")
        must_recover = allowances.must_recover(self.plan, disk)
        limit_ms = live.dispatch_ms_max(self.plan) + (live.RETRY_MS_MAX if must_recover else 0)
        deadline_ns = self.kernel.now_ns + limit_ms * 1_000_000
        if store.commit is not None:
            self._await_commit(store, disk, deadline_ns)
        end = store.dispatch.readable_limit()
        while store.dispatch.reput_from.get() < end:
            if self.kernel.now_ns > deadline_ns:
                if not must_recover and (allowances.errors(disk) or allowances.wants_of_space(disk)):
                    return  # it is tried again and again, and meets the next error
                self._late("dispatch does not catch up", store.dispatch.behind_bytes, store, "dispatch")
            store.world.tasks.sleep(_DISPATCH_LOOK_MS)
            if not self.plan.delay.chance:  # else the store itself goes on putting
                end = store.dispatch.readable_limit()
        if not allowances.has_reverted(disk):  # else nobody knows all that there is to be read
            self.judge.visible(store)

    def _await_commit(self, store: MessageStore, disk: Disk, deadline_ns: int) -> None:
        """Wait until what has been put is in the page cache."""
        end = store.log.put_offset
        must_recover = allowances.must_recover(self.plan, disk)
        while store.log.max_offset < end and (must_recover or not allowances.errors(disk)):
            if self.kernel.now_ns > deadline_ns:
                self._late("puts are not committed", end - store.log.max_offset, store, "commit-real-time")
            store.world.tasks.sleep(_DISPATCH_LOOK_MS)

    def flush(self, store: MessageStore) -> None:
        """Wait until what has been put is durable, in the time that the settings give under ASYNC_FLUSH too.

        A store that has failed does not sync again, and takes no more puts.
        """
        limit_ms = live.durable_ms_max(self.plan) + live.pauses_ms_max(self.plan)
        deadline_ns = self.kernel.now_ns + limit_ms * 1_000_000
        end = self._stored_to() if self.plan.sync_flush else store.log.max_offset
        while store.log.flushed_where.get() < end:
            if store.flags.has_failed:
                if store.flags.is_writeable:
                    self.judge.broken("STATUS", "puts are taken after a failed sync", "flags", "refusing", "writeable")
                return
            if self.kernel.now_ns > deadline_ns:
                behind_bytes = end - store.log.flushed_where.get()
                self._late("what was put does not become durable", behind_bytes, store, store.flush.name)
            store.world.tasks.sleep(_FLUSH_LOOK_MS)

    def _late(self, summary: str, behind_bytes: int, store: MessageStore, service: str) -> None:
        """End the run for a service that is later than it may be."""
        detail = services_text(store, service)
        self.judge.broken("LIVE", summary, "behind", "0 bytes", f"{behind_bytes} bytes", detail=detail)

    def _stored_to(self) -> int:
        """Return a log offset up to which users of this life know the log to go: blanks of refused puts may be behind.

        Those wait for the next put under SYNC_FLUSH, for nobody waits for them.
        """
        stored = [put.physical_offset for put in self.ledger.puts_of_this_life()]
        return max((at + 1 for at in stored if at is not None), default=0)

    def clean(self, store: MessageStore, disk: Disk, number: int) -> None:
        """Wait until what expired is gone and queues begin where the log does; then remove queues by hand.

        After a failed sync nothing expires that rests upon it.
        """
        must_recover = allowances.must_recover(self.plan, disk) and not allowances.sync_errors(disk)
        deadline_ns = self.kernel.now_ns + clean.passes_ms_max(store) * 1_000_000
        while violations := self.judge.uncleaned(store, disk):
            if self.kernel.now_ns > deadline_ns:
                if must_recover or not allowances.errors(disk):
                    self.judge.report(violations)
                break
            store.world.tasks.sleep(_CLEAN_LOOK_MS)
        self.judge.answers_of_the_removed(store)
        log_min_offset = store.log.min_offset
        try:
            removed = operators.queue_operator(store, self.streams(f"life-{number}/queue operator"))
        except OSError:
            if not allowances.errors(disk):
                raise
            return
        if removed:
            self.judge.queues_removed(store, log_min_offset)

    def stop(self, store: MessageStore, disk: Disk, machine: Machine, *, clean: bool, has_room: bool = True) -> None:
        """End a life whose store was stopped. One that was not clean is taken for a crash, and the machine is killed.

        has_room: whether the disk has had room again since before the stop began.
        """
        if clean:
            self.judge.clean_stop(store, disk, machine)
            return
        self.judge.unclean_stop(store, disk, has_room=has_room)
        self.kernel.kill(machine)  # what an unclean stop leaves is judged as what a crash leaves
        raise MachineDied(machine.name)
