"""Loading: opens a store, or the broker around it, under the eyes of the judge.

An error of the disk excuses a failed load: the machine dies of it, as a process that cannot start. Any other failure
breaks START, or META if a file of progress is at fault.
"""

from collections.abc import Callable

from ...faults.disk.disk import Disk
from ...sim.errors import MachineDied
from ...sim.kernel import Kernel
from ...sim.machine import Machine
from ...store.config import StoreConfig
from ...store.errors import CorruptFileError
from ...store.message_store import MessageStore
from ...store.recovery.recovery import RecoveryReport
from ..claims.plan import Plan
from ..oracle import allowances
from ..oracle.evidence import place_of, tried
from ..oracle.invariants import scan
from ..oracle.judge import Judge, StopOnViolation
from ..workload.mishaps import SERVICES


def die_if_excused(kernel: Kernel, machine: Machine, disk: Disk, error: OSError) -> None:
    """Kill a machine whose store gives up because its disk failed. Without an error of the disk, return."""
    if allowances.has_met_any(disk):
        kernel.kill(machine)
        raise MachineDied(machine.name) from error


def load_judged(
    kernel: Kernel,
    plan: Plan,
    judge: Judge,
    machine: Machine,
    disk: Disk,
    config: StoreConfig,
    load: Callable[[], tuple[MessageStore, RecoveryReport | None]],
    beside: Callable[[], None] = lambda: None,
    *,
    awaits_room: bool = False,
) -> MessageStore:
    """Load a store, then what stands beside it, and judge how much of the log that read.

    load: returns the report, too: to read it from the store is a scheduling point where tasks switch at attributes.

    awaits_room: whether the run waits for the queues of a store that was loaded on a full disk. MachineDied if the disk
    excuses a failure, StopOnViolation if nothing does.
    """
    vouched = scan.vouched(disk, config) if scan.is_to_be_checked(plan) else None
    try:
        disk.strike_page_ins_of(SERVICES)
        with disk.with_page_ins():
            store, report = load()
        if report is not None and report.lacks_room is not None and not (awaits_room and allowances.is_only_full(disk)):
            raise report.lacks_room  # files fail to be made again and again: no judge knows when queues are whole
        beside()
    except Exception as error:
        if isinstance(error, OSError) and not (awaits_room and allowances.is_only_full(disk)):
            die_if_excused(kernel, machine, disk, error)
        if isinstance(error, CorruptFileError) and judge.may_refuse:
            raise StopOnViolation(f"refused by name: {error}") from error
        is_progress = isinstance(error, CorruptFileError) and error.file.startswith(config.config_directory)
        invariant, detail = "META" if is_progress else "START", f"raised in {place_of(error)}"
        summary = f"the store cannot be opened: {type(error).__name__}: {error}"
        judge.broken(invariant, summary, "load", "", "", detail=detail)
    if store.log.segments:
        tried("START")
    if vouched is not None:
        judge.report(scan.check(store, vouched))
    return store
