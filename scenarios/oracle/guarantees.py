"""Guarantees: the invariants promised on each disk, and the data that must survive a stop or crash.

The table of disks:

    yes      promised on such a disk
    intact   promised for all records before the first damage in the log; a store that refuses to open must name the
             damaged or missing file
    -        not promised, because the disk breaks a condition of the promise

A lying disk acknowledges syncs that a power cut undoes, so no data is durable there. Queues must still have an entry
for every record in the log. If the checkpoint covered a lost record, its queue keeps the entry. A dying disk loses and
changes durable bytes. The store must not increase this damage.

The data that must survive (section 14 of the format's description):

    event              data that must survive
    clean stop         every stored put, also if the power fails right after the stop
    damage after it    every put before the damage
    process kill       every answered put, because its bytes are in the page cache
    ... with the pool  all data before the committed position, and consumed messages
    power cut, SYNC    every put that asked for durability and was answered OK, and all data before the flushed position
    power cut, ASYNC   all data before the flushed position

A recovery syncs all recovered data, so its result is durable.
"""

from collections.abc import Iterable, Mapping
from enum import Enum

from ...faults.crashes.profiles import CrashProfile
from ..claims.disk_models import DISK_MODELS
from ..claims.plan import Plan
from .invariants import INVARIANTS
from .known_damage import DamagedBytes
from .ledger import Ledger
from .put_entry import ProducerKnowledge, PutEntry
from .reader import LogRecord
from .recovered import RecoveredStore
from .transaction_log import TransactionLog


def note_stop(ledger: Ledger) -> None:
    _promise_all_stored(ledger)
    for put in ledger.promised.values():
        put.is_durable = True
    for one in ledger.kept_messages:
        one.copy_is_durable = True
    ledger.transactions.note_stop()
    ledger.returned.note_stop()


def note_crash(
    ledger: Ledger,
    plan: Plan,
    profile: CrashProfile,
    flushed_where: int,
    committed_where: int | None = None,
    *,
    cache_is_whole: bool = True,
) -> None:
    """Record which data must survive a crash.

    flushed_where: the durable end of the log at the crash. committed_where: the end of the log in the page cache, if
    puts go to a buffer first. cache_is_whole: False if a failed fsync reverted pages that readers had read.
    """
    keeps_all = profile.page_cache_survives and cache_is_whole
    ledger.returned.note_crash(keeps_all=plan.sync_flush or (keeps_all and committed_where is None))
    if keeps_all:
        _promise_all_stored(ledger, committed_where)
        for put in ledger.puts_of_this_life():
            put.is_durable |= _is_acknowledged_durable(plan, put)
    else:
        _promise_durable(ledger, plan, flushed_where)
    ledger.transactions.note_crash(flushed_where, committed_where, sync_flush=plan.sync_flush, cache_survives=keeps_all)


def note_damage(ledger: Ledger, log_offset: int) -> None:
    for put in list(ledger.promised.values()):
        assert put.physical_offset is not None, put.name
        if put.physical_offset + put.record_bytes > log_offset:
            del ledger.promised[put.name]
    ledger.kept_messages = [
        one
        for one in ledger.kept_messages
        if one.put.name in ledger.promised and (one.copy_end is None or one.copy_end <= log_offset)
    ]
    ledger.transactions.note_damage(log_offset)


def note_takeover(ledger: Ledger, log_offset: int) -> None:
    """Record that a slave with the log up to an offset replaces its lost master."""
    note_damage(ledger, log_offset)
    ledger.lost_from = log_offset


def note_unreadable(ledger: Ledger, flaw: DamagedBytes, *, must_lack_entry: bool) -> None:
    """Record that a record may be unreadable and lack its queue entry. must_lack_entry: it must not have an entry."""
    put = flaw.put
    assert put.queue_offset is not None, put.name
    ledger.known_damage.record_damage(flaw, unreadable=True, must_lack_entry=must_lack_entry)
    ledger.missing_offsets.setdefault(put.place, set()).add(put.queue_offset)
    ledger.kept_messages = [one for one in ledger.kept_messages if one.put is not put]


def note_missing(ledger: Ledger, begin: int, end: int, records: Iterable[LogRecord]) -> None:
    """Record that the log range [begin, end) is missing. The records of this range must not reappear."""
    ledger.known_damage.missing.append((begin, end))
    for record in records:
        ledger.missing_offsets.setdefault((record.topic, record.queue_id), set()).add(record.queue_offset)
    for put in ledger.puts:
        if put.physical_offset is not None and begin <= put.physical_offset < end:
            ledger.lost_puts[put.name] = put
            ledger.promised.pop(put.name, None)
    ledger.kept_messages = [one for one in ledger.kept_messages if one.put.name not in ledger.lost_puts]


def note_damaged_copies(ledger: Ledger, offsets: Mapping[int, int]) -> None:
    """Record that delayed copies may be damaged. The store does not deliver these messages again.

    offsets: delay level -> queue offset of the next message to deliver at the stop.
    """
    for put in ledger.puts:
        if put.delay_ms is not None and put.queue_offset is not None:
            _, queue_id = put.place
            if put.queue_offset < offsets.get(queue_id + 1, 0):
                ledger.delivered_into_damage.add(put.name)


def _promise_all_stored(ledger: Ledger, committed_where: int | None = None) -> None:
    for put in ledger.puts_of_this_life():
        if put.physical_offset is not None and (
            committed_where is None or put.physical_offset + put.record_bytes <= committed_where
        ):
            ledger.promise(put)
    ledger.kept_messages += ledger.consumed


def _promise_durable(ledger: Ledger, plan: Plan, flushed_where: int) -> None:
    for put in ledger.puts_of_this_life():
        if put.physical_offset is None:
            continue
        if put.physical_offset + put.record_bytes <= flushed_where or _is_acknowledged_durable(plan, put):
            put.is_durable = True
            ledger.promise(put)
    ledger.promised = {name: put for name, put in ledger.promised.items() if put.is_durable}
    seen = ledger.kept_messages + ledger.consumed
    for one in seen:
        one.copy_is_durable |= one.copy_end is not None and one.copy_end <= flushed_where
    ledger.kept_messages = [one for one in seen if one.is_durable or plan.sync_flush]


def _is_acknowledged_durable(plan: Plan, put: PutEntry) -> bool:
    return plan.sync_flush and put.wait and put.knowledge is ProducerKnowledge.ACKNOWLEDGED


def note_recovery(ledger: Ledger, store: RecoveredStore, *, durable: bool, sync_flush: bool = False) -> None:
    """Record the result of a recovery. durable: whether the result is final."""
    here, returned = set(), set[str]()
    put_of, promised = ledger.by_properties.get, ledger.promised
    for found in store.records:
        physical_offset, size_bytes, _, _, queue_offset, _, stored_ms, properties, _ = found.record
        put = put_of(properties) or ledger.put_of(found.record)
        if put is not None:
            here.add(put.name)
            if not put.knows_port:
                put.set_born_port(found.record)
            put.wrote_bytes = size_bytes
            put.physical_offset = physical_offset
            put.queue_offset = queue_offset if put.is_queued else None
            put.stored_ms = stored_ms
            put.is_durable |= durable
            promised[put.name] = put
        elif (again := ledger.put_returned_in(found.record)) is not None:
            returned.add(again.name)
    ledger.returned.note_recovery(returned, durable=durable, sync_flush=sync_flush)
    for one in ledger.kept_messages:
        one.copy_is_durable |= durable
    if ledger.transactions.by_name:
        log = TransactionLog.read(ledger, store).by_name
        ledger.transactions.note_recovery(log, store.max_offset, durable=durable)
    for put in ledger.puts:
        if put.name in here:
            continue
        ledger.promised.pop(put.name, None)
        if ledger.may_still_be_stored(put):
            # the client still waits, so the restarted store may store the lost put elsewhere
            put.physical_offset = put.queue_offset = put.stored_ms = None
            continue
        if not ledger.has_expired(put.physical_offset, store.min_offset):  # an expired segment may reappear
            ledger.lost_puts[put.name] = put


class Promise(Enum):
    """The records for which an invariant is promised."""

    KEPT = "yes"
    INTACT = "intact"
    NONE = "-"


_TABLE = """
              nothing-lost process-kill ext4-ordered ext4-data xfs btrfs strict-posix full-disk lying-disk dying-disk
DUR           yes          yes          yes          yes       yes yes   yes          yes       -          intact
PREFIX        yes          yes          yes          yes       yes yes   yes          yes       -          -
VIS           yes          yes          yes          yes       yes yes   yes          yes       -          -
CQ-COMPLETE   yes          yes          yes          yes       yes yes   yes          yes       yes        -
CQ-VALID      yes          yes          yes          yes       yes yes   yes          yes       -          -
QOFF          yes          yes          yes          yes       yes yes   yes          yes       -          -
IDX           yes          yes          yes          yes       yes yes   yes          yes       -          -
POS           yes          yes          yes          yes       yes yes   yes          yes       -          -
CKPT          yes          yes          yes          yes       yes yes   yes          yes       -          -
STATUS        yes          yes          yes          yes       yes yes   yes          yes       -          -
ISO           yes          yes          yes          yes       yes yes   yes          yes       yes        yes
START         yes          yes          yes          yes       yes yes   yes          yes       intact     intact
LIVE          yes          yes          yes          yes       yes yes   yes          yes       yes        yes
QUIET         yes          yes          yes          yes       yes yes   yes          yes       yes        yes
READ          yes          yes          yes          yes       yes yes   yes          yes       yes        -
META          yes          yes          yes          yes       yes yes   yes          yes       -          -
SCAN          yes          yes          yes          yes       yes yes   yes          yes       -          -
FILES         yes          yes          yes          yes       yes yes   yes          yes       -          -
SCHED         yes          yes          yes          yes       yes yes   yes          yes       -          -
REDEL         yes          yes          yes          yes       yes yes   yes          yes       -          -
CLEAN         yes          yes          yes          yes       yes yes   yes          yes       -          -
LOCK          yes          yes          yes          yes       yes yes   yes          yes       yes        yes
TX            yes          yes          yes          yes       yes yes   yes          yes       -          -
REP           yes          yes          yes          yes       yes yes   yes          yes       -          -
IDEMPOTENT    yes          yes          yes          yes       yes yes   yes          yes       yes        -
"""


def _read_promise_table(table: str) -> dict[str, dict[str, Promise]]:
    """Raises ValueError if a row or column is missing or unknown."""
    header, *rows = (line.split() for line in table.strip().splitlines())
    promises = {row[0]: row[1:] for row in rows}
    for kind, expected, found in (("disks", DISK_MODELS, header), ("invariants", INVARIANTS, promises)):
        if set(found) != set(expected):
            raise ValueError(f"promises: {kind}: expected {', '.join(expected)}, found {', '.join(found)}")
    return {
        disk: {invariant: Promise(promises[invariant][column]) for invariant in INVARIANTS}
        for column, disk in enumerate(header)
    }


PROMISED: dict[str, dict[str, Promise]] = _read_promise_table(_TABLE)


def describe_promises(disk: str) -> str:
    """Describe the invariants that hold on a disk: all of them, or the missing ones."""
    promises = PROMISED[disk]
    missing = [invariant for invariant, promise in promises.items() if promise is Promise.NONE]
    intact = [invariant for invariant, promise in promises.items() if promise is Promise.INTACT]
    if not missing and not intact:
        return "every invariant"
    kept = len(promises) - len(missing) - len(intact)
    some = f"{', '.join(intact)} only before the first damage"
    return f"{kept} of {len(promises)} invariants; {some}; not {', '.join(missing)}"
