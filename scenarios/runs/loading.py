"""Loading: opens a store, or the broker around it, and checks the result.

If a disk error permits a failed load, the machine dies. Any other failure violates START, or META if a progress file is
the cause.
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
from ..oracle.evidence import frames_of, record_tried
from ..oracle.invariants import files, scan
from ..oracle.judge import Judge, StopOnViolation
from ..workload.store_faults import SERVICES


def die_if_excused(kernel: Kernel, machine: Machine, disk: Disk, error: OSError) -> None:
    """Kill the machine of a store that cannot start because of a disk fault; otherwise return."""
    if allowances.has_any_fault(disk):
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
    load_more: Callable[[], None] = lambda: None,
    *,
    awaits_room: bool = False,
) -> MessageStore:
    """Load a store, then its progress files, and check how much of the log was read.

    load: also returns the report, because in attribute-point runs a read of the store's attribute is a scheduling
    point. awaits_room: whether the run waits for the queues of a store that was loaded on a full disk. Raises
    MachineDied if the disk permits a failure, else StopOnViolation.
    """
    scan_bounds = scan.read_scan_bounds(disk, config) if scan.can_check_scan(plan) else None
    judge.killed_load, judge.is_loading = judge.is_loading, True
    judge.times_before_load = files.read_times(disk, config) if plan.is_alone else {}
    try:
        disk.limit_page_ins_to(SERVICES)
        with disk.with_page_ins():
            store, report = load()
        if (
            report is not None
            and report.lacks_room is not None
            and not (awaits_room and allowances.has_only_space_errors(disk))
        ):
            raise report.lacks_room  # file creation keeps failing, so the queues may never be complete
        load_more()
    except Exception as error:
        if isinstance(error, OSError) and not (awaits_room and allowances.has_only_space_errors(disk)):
            die_if_excused(kernel, machine, disk, error)
        if isinstance(error, CorruptFileError) and judge.may_refuse_to_open:
            raise StopOnViolation(f"refused by name: {error}") from error
        is_progress = isinstance(error, CorruptFileError) and error.file.startswith(config.config_directory)
        invariant, detail = "META" if is_progress else "START", f"raised in {frames_of(error)}"
        summary = f"the store cannot be opened: {type(error).__name__}: {error}"
        judge.report_and_stop(invariant, summary, "load", "", "", detail=detail)
    judge.is_loading = False
    if store.log.segments:
        record_tried("START")
    judge.changed_by_load = []
    if scan_bounds is not None:
        judge.report(scan.check_scan_start(store, scan_bounds))
        # A slave's dispatch passes over a record with a flipped bit, and its next load repairs the queue.
        if not plan.cluster.flipped_bit_chance:
            judge.changed_by_load = list(scan.check_entries_kept(disk, scan_bounds))
    return store
