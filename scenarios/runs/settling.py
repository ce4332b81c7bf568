"""Settling: waits for a bounded time until a store has completed its work, then stops it.

This module waits, runs operators and kills machines. The judge checks the result.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from ...faults.disk.disk import Disk
from ...sim.choices import Stream
from ...sim.errors import MachineDied
from ...sim.kernel import Kernel
from ...sim.machine import Machine
from ...store.message_store import MessageStore
from ...store.retention.cleaning import MANUAL_PASSES, SEGMENTS_PER_PASS
from ..claims.plan import Plan
from ..oracle import allowances
from ..oracle.evidence import record_tried
from ..oracle.invariants import clean, live, quiescence
from ..oracle.invariants.quiescence import Cursor
from ..oracle.judge import Judge
from ..oracle.ledger import Ledger
from ..oracle.progress import GroupProgress
from ..workload import operators

_LOOK_MS_MIN, _LOOK_MS_MAX, _CLEAN_LOOK_MS = 5, 2_000, 200


@dataclass(frozen=True, slots=True)
class Settling:
    """Waits for the services of one store, and stops it."""

    plan: Plan
    kernel: Kernel
    ledger: Ledger
    judge: Judge
    streams: Callable[[str], Stream]
    paused_ns: Callable[[int], int] = lambda _: 0
    """Returns the sum of all pauses since a given time, by which time limits are extended."""

    def for_other_store(self) -> "Settling":
        ledger = Ledger(tears=self.ledger.tears)
        return replace(self, ledger=ledger, judge=self.judge.for_other_ledger(ledger))

    def await_visible(self, store: MessageStore, disk: Disk) -> None:
        """Wait until all durable records are visible, then check what consumers have read."""
        delays = self.plan.delay.chance  # the store continues to put delivered messages
        put_end, readable_end = store.log.put_offset, store.dispatch.readable_limit()

        def cursors() -> Iterable[Cursor]:
            end = readable_end if delays else store.dispatch.readable_limit()
            return quiescence.reading_cursors(store, self.plan, put_end=put_end, readable_end=end)

        def gives_up() -> bool:
            """Return whether the store had an error from which it need not recover. A sync error may occur late."""
            has_failed = allowances.count_errors(disk) or allowances.count_out_of_space(disk)
            return bool(has_failed) and not allowances.must_recover_without_restart(self.plan, disk)

        if not self._await_cursors(store, disk, cursors, self._held_up_ms(disk), gives_up):
            return
        if not allowances.has_reverted_data(disk):  # after a revert it is unknown which records are readable
            self.judge.judge_pulls(store)

    def flush(self, store: MessageStore, disk: Disk) -> None:
        """Wait until all puts are durable. After a failure the store neither syncs nor accepts puts."""
        has_failed = partial(getattr, store.flags, "has_failed")
        cursors = partial(quiescence.flushing_cursors, store, self.plan, self.judge.readings)
        if (
            not self._await_cursors(store, disk, cursors, self._held_up_ms(disk), has_failed)
            and store.flags.is_writeable
        ):
            self.judge.report_and_stop("STATUS", "puts succeed after a failed sync", "flags", "refusing", "writeable")

    def await_refusal(self, store: MessageStore, disk: Disk) -> None:
        """Wait until a store refuses puts because a write to its log failed, except for lack of space.

        Later messages may never become visible, because the failed write comes first.
        """
        if disk.failed_writes.isdisjoint(segment.file.path for segment in store.log.segments):
            return
        limit_ms = live.commit_ms_max(self.plan) + live.held_up_ms_max(self.plan)
        deadline_ns = self.kernel.now_ns - self.paused_ns(0) + limit_ms * 1_000_000
        record_tried("STATUS")
        while not store.flags.has_failed:
            if self.kernel.now_ns - self.paused_ns(0) > deadline_ns:
                summary = "puts succeed after a failed write to the log"
                self.judge.report_and_stop("STATUS", summary, "flags", "refusing", "writeable")
            store.world.tasks.sleep(_LOOK_MS_MIN)

    def await_deliveries(self, store: MessageStore, disk: Disk, progress: GroupProgress) -> None:
        """Wait until all delayed messages are delivered and all progress is durable. No producer puts meanwhile.

        An earlier sync may report an error late. The store then refuses all puts, also those of delivery.
        """

        def has_failed() -> bool:
            return allowances.count_sync_errors(disk) > 0

        cursors, held_up_ms = partial(progress.cursors, store, disk), self._held_up_ms(disk)
        self._await_cursors(store, disk, cursors, held_up_ms, has_failed, known=progress.last_error_text)

    def await_idle(
        self,
        store: MessageStore,
        disk: Disk,
        more_cursors: Callable[[], Iterable[Cursor]] = tuple,
        *,
        sleep: Callable[[int], None] | None = None,
        gives_up: Callable[[], bool] = bool,
        known: Callable[[], str] = str,
    ) -> None:
        """Wait until every cursor of a healthy store, and every one of `more_cursors`, has reached its target.

        sleep: the function of the waiting machine, if another machine waits. For other arguments see `_await_cursors`.
        """

        def cursors() -> Iterator[Cursor]:
            yield from more_cursors()
            put_end, readable_end = store.log.put_offset, store.dispatch.readable_limit()
            yield from quiescence.reading_cursors(store, self.plan, put_end=put_end, readable_end=readable_end)
            yield from quiescence.flushing_cursors(store, self.plan, self.judge.readings)
            yield from quiescence.derived_file_cursors(store, self.plan, disk, self.judge.readings)
            yield from quiescence.memory_cursors(store, self.plan, disk)

        # A slave's client requests no sync while it is paused, and the pause may have begun during a fault.
        self._await_cursors(
            store, disk, cursors, live.paused_ms_max(self.plan), gives_up=gives_up, known=known, sleep=sleep
        )

    def _await_cursors(
        self,
        store: MessageStore,
        disk: Disk,
        cursors: Callable[[], Iterable[Cursor]],
        held_up_ms: int = 0,
        gives_up: Callable[[], bool] = bool,
        known: Callable[[], str] = str,
        sleep: Callable[[int], None] | None = None,
    ) -> bool:
        """Wait until all cursors reach their targets, and return True. A cursor that exceeds its limit violates QUIET.

        held_up_ms: added to every limit. gives_up: whether a disk fault permits failure, after which the result is
        False. known: returns details for the violation.
        """
        since: dict[str, tuple[object, int]] = {}
        """Cursor -> its target, and the time of the target's last change, without pauses."""
        look_ms, sleep = _LOOK_MS_MIN, sleep or store.world.tasks.sleep
        while late := [cursor for cursor in cursors() if cursor.is_lagging]:
            if gives_up():
                return False
            now_ns = self.kernel.now_ns - self.paused_ns(0)
            for cursor in late:
                end, since_ns = since.get(cursor.name, (None, 0))
                if end != cursor.end:  # there is more work, so the limit counts from now
                    end, since_ns = since[cursor.name] = cursor.end, now_ns
                if (now_ns - since_ns) // 1_000_000 - held_up_ms > cursor.within_ms:
                    self.judge.judge_positions(store, disk)  # a wrong position is a cause, and a late cursor its effect
                    self.judge.report(quiescence.check_cursor(cursor, store, known()))
            sleep(look_ms)
            look_ms = min(2 * look_ms, _LOOK_MS_MAX)
        return True

    def _held_up_ms(self, disk: Disk) -> int:
        must_recover_without_restart = allowances.must_recover_without_restart(self.plan, disk)
        return live.held_up_ms_max(self.plan) + (live.RETRY_MS_MAX if must_recover_without_restart else 0)

    def await_retention(self, store: MessageStore, disk: Disk) -> None:
        """Wait until expired segments are removed and no queue begins with removed messages.

        Segments that depend on a failed sync do not expire. A request to delete is valid for some passes. If no pass
        had an effect, for example while queues were not durable, the request is repeated once.
        """
        if self.plan.retention.hours_off:
            self._await_passes(store)
        asks_again = not self.plan.retention.delete_when
        must_recover_without_restart = allowances.must_recover_without_restart(
            self.plan, disk
        ) and not allowances.count_sync_errors(disk)
        limit_ms = clean.passes_ms_max(store, live.work_ms_max(self.plan, store)) + self._held_up_ms(disk)
        if not asks_again and not clean.is_delete_hour(store):
            store.world.tasks.sleep(limit_ms)  # passes must remove no segment
            return
        deadline_ns = self.kernel.now_ns + limit_ms * 1_000_000 - self.paused_ns(0)
        while violations := self.judge.leftover_violations(store, disk):
            if disk.has_transient_faults and allowances.count_errors(disk):
                break  # the next removal may fail, too
            if self.kernel.now_ns - self.paused_ns(0) > deadline_ns:
                passes_ms = MANUAL_PASSES * store.config.clean_resource_interval_ms
                if asks_again and self.kernel.now_ns > passes_ms * 1_000_000:
                    asks_again = False
                    store.execute_delete_files_manually()
                    deadline_ns += limit_ms * 1_000_000
                    continue
                if must_recover_without_restart or not allowances.count_errors(disk):
                    self.judge.judge_positions(store, disk)
                    self.judge.report(violations)
                break
            store.world.tasks.sleep(_CLEAN_LOOK_MS)
        self.judge.judge_answers_about_removed(store)

    def _await_passes(self, store: MessageStore) -> None:
        """Request deletion, and wait for two passes: the first one may only make the queues durable.

        A segment that was put to after days off is then no longer the last one, so a pass may remove it too early.
        """
        store.execute_delete_files_manually()
        pauses_ms = SEGMENTS_PER_PASS * store.config.delete_commit_log_files_interval_ms
        store.world.tasks.sleep(store.config.clean_resource_interval_ms + 2 * pauses_ms)

    def remove_queues(self, store: MessageStore, disk: Disk, number: int) -> None:
        log_min_offset = store.log.min_offset
        try:
            removed = operators.queue_operator(store, self.streams(f"life-{number}/queue operator"))
        except OSError:
            if not allowances.count_errors(disk):
                raise
            return
        if removed and not disk.is_stopped:
            self.judge.judge_queue_removal(store, disk, log_min_offset)

    def stop(self, store: MessageStore, disk: Disk, machine: Machine, *, clean: bool, has_room: bool = True) -> None:
        """Stop the store and check the stop. After an unclean stop, kill the machine, which counts as a crash.

        has_room: whether the disk had free space again before the stop began.
        """
        if clean:
            self.judge.judge_clean_stop(store, disk, machine)
            return
        self.judge.judge_unclean_stop(store, disk, has_room=has_room)
        self.kernel.kill(machine)  # an unclean stop is checked like a crash
        raise MachineDied(machine.name)
