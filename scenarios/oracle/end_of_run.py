"""The end of a life in a crash: what the store claims in that moment is judged, and what it promised is noted."""

from ...faults.crashes.profiles import CrashProfile
from ...faults.disk.disk import Disk
from ...store.log.transient_pool import BufferedSegmentQueue
from ...store.message_store import MessageStore
from ..claims.plan import Plan
from . import allowances, guarantees
from .judge import Judge
from .ledger import Ledger


def note_crash(
    plan: Plan, judge: Judge, ledger: Ledger, store: MessageStore | None, disk: Disk, profile: CrashProfile
) -> None:
    """Judge what the store claims in the moment of a crash, and note what the crash may not take. None: not opened."""
    flushed_where, committed_where = 0, None
    if store is not None:
        judge.claims(store, disk)
        flushed_where = store.log.flushed_where.get()
        if isinstance(store.log, BufferedSegmentQueue):
            committed_where = store.log.committed_where
    guarantees.note_crash(
        ledger,
        plan,
        profile,
        flushed_where,
        committed_where,
        cache_is_whole=not allowances.has_reverted(disk),
    )
