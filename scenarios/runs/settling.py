"""Settling: the end of a life. A run waits, within bounds, until its store has done what it owes, and stops it.

Here a run acts: it lets time pass, runs operators, kills machines. What it comes to is judged by the judge.
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
from ...store.retention.cleaning import MANUAL_PASSES
from ..claims.plan import Plan
from ..oracle import allowances
from ..oracle.invariants import clean, live, quiescence
from ..oracle.invariants.quiescence import Cursor
from ..oracle.judge import Judge
from ..oracle.ledger import Ledger
from ..oracle.progress import GroupProgress
from ..workload import operators

_LOOK_MS_MIN, _LOOK_MS_MAX, _CLEAN_LOOK_MS = 5, 2_000, 200


@dataclass(frozen=True, slots=True)
class Settling:
    """Waits for the services of a store, and ends its life."""

    plan: Plan
    kernel: Kernel
    ledger: Ledger
    judge: Judge
    streams: Callable[[str], Stream]
    paused_ns: Callable[[int], int] = lambda _: 0
    """Returns how long all pauses together are that have begun, as far as they are later than some moment: what is
    awaited may have stood still for as long."""

    def beside(self) -> "Settling":
        """Return one for another store in the same run, which has a ledger and a judge of its own."""
        ledger = Ledger(self.ledger.tears)
        return replace(self, ledger=ledger, judge=self.judge.beside(ledger))

    def catch_up(self, store: MessageStore, disk: Disk) -> None:
        """Wait until all that is durable is visible, then have it judged what consumers were given."""
        delays = self.plan.delay.chance  # the store itself goes on putting
        put_end, readable_end = store.log.put_offset, store.dispatch.readable_limit()

        def cursors() -> Iterable[Cursor]:
            end = readable_end if delays else store.dispatch.readable_limit()
            return quiescence.reading(store, self.plan, put_end=put_end, readable_end=end)

        def gives_up() -> bool:
            """Return whether it has met an error that it need not get over; one of an earlier sync may come late."""
            has_failed = allowances.errors(disk) or allowances.wants_of_space(disk)
            return bool(has_failed) and not allowances.must_recover(self.plan, disk)

        if not self._await(store, cursors, self._held_up_ms(disk), gives_up):
            return
        if not allowances.has_reverted(disk):  # else nobody knows all that there is to be read
            self.judge.visible(store)

    def flush(self, store: MessageStore, disk: Disk) -> None:
        """Wait until what has been put is durable. A store that has failed does not sync again, and takes no puts."""
        has_failed = partial(getattr, store.flags, "has_failed")
        cursors = partial(quiescence.flushing, store, self.plan, self.judge.readings)
        if not self._await(store, cursors, self._held_up_ms(disk), has_failed) and store.flags.is_writeable:
            self.judge.broken("STATUS", "puts are taken after a failed sync", "flags", "refusing", "writeable")

    def deliver(self, store: MessageStore, disk: Disk, progress: GroupProgress) -> None:
        """Wait until all that is delayed is delivered and all progress durable. Nothing is put meanwhile.

        An error of an earlier sync may come late, and ends all puts then, those of delivery too.
        """

        def has_failed() -> bool:
            return allowances.sync_errors(disk) > 0

        cursors, held_up_ms = partial(progress.cursors, store, disk), self._held_up_ms(disk)
        self._await(store, cursors, held_up_ms, has_failed, known=progress.trouble)

    def come_to_rest(
        self,
        store: MessageStore,
        disk: Disk,
        beside: Callable[[], Iterable[Cursor]] = tuple,
        *,
        sleep: Callable[[int], None] | None = None,
        gives_up: Callable[[], bool] = bool,
        known: Callable[[], str] = str,
    ) -> None:
        """Wait until every cursor of a store that nothing is wrong with is at its end, and those beside it.

        sleep: lets time pass for who waits on another machine. The rest is as `_await` has it.
        """

        def cursors() -> Iterator[Cursor]:
            yield from beside()
            put_end, readable_end = store.log.put_offset, store.dispatch.readable_limit()
            yield from quiescence.reading(store, self.plan, put_end=put_end, readable_end=readable_end)
            yield from quiescence.flushing(store, self.plan, self.judge.readings)
            yield from quiescence.leading(store, self.plan, disk, self.judge.readings)

        # A slave's client asks for no sync while it is paused, which may have begun in the midst of the trouble.
        self._await(store, cursors, live.paused_ms_max(self.plan), gives_up=gives_up, known=known, sleep=sleep)

    def _await(
        self,
        store: MessageStore,
        cursors: Callable[[], Iterable[Cursor]],
        held_up_ms: int = 0,
        gives_up: Callable[[], bool] = bool,
        known: Callable[[], str] = str,
        sleep: Callable[[int], None] | None = None,
    ) -> bool:
        """Wait until cursors are at their ends; QUIET is broken by one that takes held_up_ms longer than it may.

        gives_up: whether the disk has excused the store by now; the answer is then False. known: says more of causes.
        """
        since: dict[str, tuple[object, int]] = {}
        """The end of each cursor, and the time since when it has been that, pauses left out."""
        look_ms, sleep = _LOOK_MS_MIN, sleep or store.world.tasks.sleep
        while behind := [cursor for cursor in cursors() if cursor.is_behind]:
            if gives_up():
                return False
            now_ns = self.kernel.now_ns - self.paused_ns(0)
            for cursor in behind:
                end, since_ns = since.get(cursor.name, (None, 0))
                if end != cursor.end:  # there is more to do, and the time begins anew
                    end, since_ns = since[cursor.name] = cursor.end, now_ns
                if (now_ns - since_ns) // 1_000_000 - held_up_ms > cursor.within_ms:
                    self.judge.report(quiescence.check(cursor, store, known()))
            sleep(look_ms)
            look_ms = min(2 * look_ms, _LOOK_MS_MAX)
        return True

    def _held_up_ms(self, disk: Disk) -> int:
        """Return how much longer anything may take after what the disk has done, and what is paused."""
        must_recover = allowances.must_recover(self.plan, disk)
        return live.held_up_ms_max(self.plan) + (live.RETRY_MS_MAX if must_recover else 0)

    def clean(self, store: MessageStore, disk: Disk) -> None:
        """Wait until what expired is gone and queues begin where the log does.

        After a failed sync nothing expires that rests upon it. A request to delete lasts for some passes, which may all
        have been in vain, as while queues were not durable; then it is made again.
        """
        asks_again = True
        must_recover = allowances.must_recover(self.plan, disk) and not allowances.sync_errors(disk)
        limit_ms = clean.passes_ms_max(store, live.work_ms_max(self.plan, store)) + self._held_up_ms(disk)
        deadline_ns = self.kernel.now_ns + limit_ms * 1_000_000 - self.paused_ns(0)
        while violations := self.judge.uncleaned(store, disk):
            if self.kernel.now_ns - self.paused_ns(0) > deadline_ns:
                passes_ms = MANUAL_PASSES * store.config.clean_resource_interval_ms
                if asks_again and self.kernel.now_ns > passes_ms * 1_000_000:
                    asks_again = False
                    store.execute_delete_files_manually()
                    deadline_ns += limit_ms * 1_000_000
                    continue
                if must_recover or not allowances.errors(disk):
                    self.judge.report(violations)
                break
            store.world.tasks.sleep(_CLEAN_LOOK_MS)
        self.judge.answers_of_the_removed(store)

    def remove_queues(self, store: MessageStore, disk: Disk, number: int) -> None:
        """Remove by hand the queues that lead nowhere, if somebody cares to."""
        log_min_offset = store.log.min_offset
        try:
            removed = operators.queue_operator(store, self.streams(f"life-{number}/queue operator"))
        except OSError:
            if not allowances.errors(disk):
                raise
            return
        if removed and not disk.is_stopped:
            self.judge.queues_removed(store, disk, log_min_offset)

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
