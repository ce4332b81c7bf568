"""The judge of one run: every check at its moment, and the end of the run at the first promise that is broken."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from ...faults.disk import Disk
from ...sim.choices import Stream
from ...sim.errors import LivenessError, MachineDied, TaskFailedError
from ...sim.kernel import Kernel
from ...sim.machine import Machine
from ...store.message_store import MessageStore
from ..invariants import CHECKERS, ckpt, clean, idx, idx_lookups, live, pos, read
from ..plan import Plan
from ..users import operators
from . import promises
from .evidence import Evidence, Violation
from .ledger import Ledger
from .recovered import read_store


class BrokenPromise(Exception):
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

    def report(self, violations: Iterable[Violation]) -> None:
        """End the run at the first check that yields a violation; the rest of that check's come along."""
        found = list(violations)
        if found:
            self.violations += found
            raise BrokenPromise(str(found[0]))

    def broken(self, invariant: str, summary: str, field: str, expected: str, found: str) -> NoReturn:
        """End the run with one violation that has no place in a file."""
        self.violations.append(Violation(invariant, summary, "", -1, field, expected, found))
        raise BrokenPromise(summary)

    @contextmanager
    def judged_errors(self) -> Iterator[None]:
        """Turn what the kernel reports of the store into violations."""
        try:
            yield
        except TaskFailedError as failed:
            cause = failed.__cause__
            if not isinstance(cause, BrokenPromise):
                self.violations.append(
                    Violation("LIVE", f"{failed.task} died: {type(cause).__name__}: {cause}", field="task")
                )
            raise BrokenPromise from failed
        except LivenessError as stuck:
            self.violations.append(Violation("LIVE", str(stuck), field="progress"))
            raise BrokenPromise from stuck

    def recovery(self, store: MessageStore, disk: Disk) -> None:
        """Judge what a recovery has made of the last life, and note what it settles."""
        found = read_store(store)
        evidence = Evidence(self._ledger, found)
        for check in CHECKERS.values():
            self.report(check(evidence))
        if self._plan.seekers:
            self.report(idx_lookups.check_lookups(store, found))
        self.claims(store, disk)
        # What a failed sync dropped, a process that is killed leaves in a page cache that calls it clean.
        promises.note_recovery(self._ledger, found, durable=not disk.fired["failed sync"])

    def claims(self, store: MessageStore, disk: Disk) -> None:
        """Ask the disk whether what the store takes for durable is."""
        self.report(pos.check(store, disk, self._ledger))
        self.report(ckpt.check(store, disk, self._ledger))

    def catch_up(self, store: MessageStore, disk: Disk) -> None:
        """Wait until all that is durable is visible, then judge what consumers were given."""
        deadline_ns = self._kernel.now_ns + live.dispatch_ms_max(self._plan) * 1_000_000
        if store.commit is not None:
            self._await_commit(store, deadline_ns)
        end = store.dispatch.readable_limit()
        while store.dispatch.reput_from.get() < end:
            if self._kernel.now_ns > deadline_ns:
                behind = f"{store.dispatch.behind_bytes} bytes"
                self.broken("LIVE", "dispatch does not catch up", "behind", "0 bytes", behind)
            store.world.tasks.sleep(5)
            if not self._plan.delay_chance:  # else the store itself goes on putting
                end = store.dispatch.readable_limit()
        if self._ledger.pulls:
            self.report(read.check(self._ledger, read_store(store)))

    def _await_commit(self, store: MessageStore, deadline_ns: int) -> None:
        """Wait until what has been put is in the page cache."""
        last = store.log.last()
        end = 0 if last is None else last.base_offset + last.wrote.get()
        while store.log.max_offset < end:
            if self._kernel.now_ns > deadline_ns:
                behind = f"{end - store.log.max_offset} bytes"
                self.broken("LIVE", "puts are not committed", "behind", "0 bytes", behind)
            store.world.tasks.sleep(5)

    def cleaning(self, store: MessageStore, number: int) -> None:
        """Wait until queues begin where the log does, and see what becomes of questions for what is gone."""
        deadline_ns = self._kernel.now_ns + clean.PASS_MS_MAX * 1_000_000
        while violations := list(clean.check_queues(store)):
            if self._kernel.now_ns > deadline_ns:
                self.report(violations)
            store.world.tasks.sleep(200)
        self.report(clean.check_answers(store, self._ledger))
        operators.queue_operator(store, self._streams(f"life-{number}/queue operator"))

    def stop(self, store: MessageStore, disk: Disk, machine: Machine, *, clean: bool) -> None:
        """See whether a stop was what it says. One that was not clean must have a reason, and is taken for a crash."""
        if not clean:
            if not disk.fired["failed sync"] and not disk.fired["failed write"]:
                self.broken("LIVE", "a stop without a fault was not clean", "exit", "clean", "unclean")
            self._kernel.kill(machine)  # what an unclean stop leaves is judged as what a crash leaves
            raise MachineDied(machine.name)
        self.claims(store, disk)
        self.report(idx.check_stopped(store, disk))
        self._check_all_tasks_ended(machine)

    def _check_all_tasks_ended(self, machine: Machine) -> None:
        """Find services that a stop has left running."""
        running = [task.name for task in machine.live_tasks.values() if task is not self._kernel.current]
        if running:
            self.broken("LIVE", "a stop left tasks running", "tasks", "none", ", ".join(running))
