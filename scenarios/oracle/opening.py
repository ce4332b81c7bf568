"""Opening a store: one that gives up because its disk failed it may be killed, any other must open."""

from collections.abc import Callable, Iterable

from ...faults.disk.disk import Disk
from ...sim.errors import MachineDied
from ...sim.kernel import Kernel
from ...sim.machine import Machine
from ...store.errors import CorruptFileError
from ...store.message_store import MessageStore
from ..claims.machine import CONFIG
from . import allowances
from .evidence import Violation, place_of, tried
from .judge import Judge, StopOnViolation


def load(
    kernel: Kernel,
    judge: Judge,
    store: MessageStore,
    disk: Disk,
    machine: Machine,
    load_progress: Callable[[], Iterable[Violation]] = tuple,
) -> None:
    """Load a store, then what stands beside it, and report what that finds.

    MachineDied if the disk has excused it, BrokenPromise if nothing has.
    """
    if kernel.trace is not None:
        kernel.trace.emit(store)
    try:
        store.load()
        progress = list(load_progress())
    except Exception as error:
        if isinstance(error, OSError) and (allowances.errors(disk) or allowances.wants_of_space(disk)):
            kernel.kill(machine)
            raise MachineDied(machine.name) from error
        if isinstance(error, CorruptFileError) and judge.may_refuse:
            raise StopOnViolation(f"refused by name: {error}") from error
        is_progress = isinstance(error, CorruptFileError) and error.file.startswith(CONFIG)
        judge.broken(
            "META" if is_progress else "START",
            f"the store cannot be opened: {type(error).__name__}: {error}",
            "load",
            "",
            "",
            detail=f"raised in {place_of(error)}",
        )
    if store.log.segments:
        tried("START")
    judge.report(progress)


def start(kernel: Kernel, store: MessageStore, disk: Disk, machine: Machine) -> None:
    """Start a store. MachineDied if it gives up because the disk failed it."""
    try:
        store.start()
    except OSError as error:
        if not allowances.errors(disk) and not allowances.wants_of_space(disk):
            raise
        kernel.kill(machine)
        raise MachineDied(machine.name) from error
