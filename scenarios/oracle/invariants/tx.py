"""TX: a transaction is checked until it is decided or given up, and is never lost.

After each recovery, every committed copy needs a commit request and a half message, and every copy that must survive is
present. Every op needs a request, and the op of a commit needs a copy. The store must not give up a transaction early,
or after its decision.
During a run, the service executes each decision once and accepts valid requests. The service must not ask a producer
too early, too often, or about a half message that the store put back after its decision. After all faults have ended,
every transaction must be decided or given up.

A second decision after a restart may take effect, so it is not checked. PREFIX checks bodies, properties and queues of
copies, and CQ-COMPLETE their queue entries.
"""

from collections.abc import Iterator

from ....faults.disk.disk import Disk
from ....store.formats.message import TRANSACTION_COMMIT, TRANSACTION_MASK, MessageRecord
from ....store.services.transaction_service import EndTransactionStatus
from ...claims.machine import RESERVED_HOURS, TRANSACTIONS
from .. import allowances
from ..evidence import Evidence, Violation, record_tried
from ..ledger import Ledger
from ..reader import properties_of
from ..recovered import FoundRecord, RecoveredStore
from ..transaction_log import TransactionLog
from ..transactions import FoundTransaction, Mistake, Transaction, TransactionDecision, Transactions

_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
_PUT_MS_MAX = 5_000
"""The time between the decision to check a half message and its put on a slow disk."""
_SYSTEM_ERROR = 1  # RocketMQ ResponseCode


def check_transaction_records(evidence: Evidence) -> Iterator[Violation]:
    transactions = evidence.ledger.transactions.by_name
    if not transactions:
        return
    record_tried("TX")
    log = TransactionLog.read(evidence.ledger, evidence.store)
    for found, why in log.unexplained:
        yield _transaction_violation(found, why, "record", "one of a transaction", "none")
    for name, transaction in transactions.items():
        yield from _check_copies(transaction, log.by_name[name], evidence)
        if evidence.store.min_offset == 0:  # otherwise retention may have removed the copy before the op
            yield from _check_ops(transaction, log.by_name[name], evidence)
        yield from _check_times(transaction, log.by_name[name], evidence.ledger.transactions)
        yield from _check_given_up(transaction, log.by_name[name], evidence.ledger.transactions)


def _check_copies(transaction: Transaction, found: FoundTransaction, evidence: Evidence) -> Iterator[Violation]:
    name, copies, store = transaction.name, found.copies, evidence.store
    commits = sum(decision.may_have_copied for decision in transaction.decisions)
    if len(copies) > commits:
        summary = f"{name} has more visible copies than commits"
        yield _transaction_violation(copies[-1], summary, "copies", f"<= {commits}", str(len(copies)))
    for copy in copies:
        half = found.half
        if store.min_offset == 0 and (half is None or half.record.physical_offset > copy.record.physical_offset):
            yield _transaction_violation(
                copy, f"{name} is visible without its half message", "half", "before it", "none"
            )
        if copy.record.sys_flag & TRANSACTION_MASK != TRANSACTION_COMMIT:
            summary = f"{name} is visible without the commit flag"
            yield _transaction_violation(copy, summary, "sysFlag", "8", str(copy.record.sys_flag))
        prepared = copy.record.head.prepared_transaction_offset
        halves = [each.record.physical_offset for each in (half, *found.put_back) if each is not None]
        if half is not None and prepared not in halves:
            summary = f"{name} is visible, but names another half message"
            wanted = " or ".join(map(str, halves))
            yield _transaction_violation(copy, summary, "preparedTransactionOffset", wanted, str(prepared))
    ends = {copy.record.physical_offset + copy.record.size_bytes for copy in copies}
    for end in transaction.copies.keys() - ends:
        if evidence.ledger.has_expired(end - 1, store.min_offset):
            continue
        yield Violation("TX", f"{name} was committed and is missing", "commitlog", end, "copy", "before this", "none")


def _check_ops(transaction: Transaction, found: FoundTransaction, evidence: Evidence) -> Iterator[Violation]:
    name, counted = transaction.name, (None, EndTransactionStatus.DECIDED)
    for decision in transaction.decisions:
        if found.half is None or decision.ops_end is None or decision.ops_end > evidence.store.max_offset:
            continue
        # After a crash has lost its progress, a check begins at an earlier record of the half message.
        missing = {decision.half_offset, found.half.record.queue_offset} - found.decided
        if missing and not evidence.ledger.tears:
            summary = f"{name} was decided, but a record of its half message has no op"
            yield _transaction_violation(found.half, summary, "op", f"for half message {min(missing)}", "none")
    if not found.ops:
        return
    asked = [decision for decision in transaction.decisions if decision.status in counted]
    if not asked:
        yield _transaction_violation(found.ops[0], f"{name} has an op without a decision", "op", "none", "one")
    elif all(decision.commits for decision in asked) and not found.copies:
        summary = f"{name} was committed and has ended, but is not visible"
        yield _transaction_violation(found.ops[0], summary, "copy", "at least one", "none")


def _check_given_up(
    transaction: Transaction, found: FoundTransaction, transactions: Transactions
) -> Iterator[Violation]:
    """Yield a transaction that was given up twice, or after its decision.

    After a loss of progress, and after an operator's request, each copy of a half message may be given up.
    """
    if len(found.given_up) > 1 and not transaction.may_be_asked_again and not transactions.resumed:
        summary, count = f"{transaction.name} was given up again", len(found.given_up)
        yield _transaction_violation(found.given_up[-1], summary, "copies", "1", str(count))
    if transactions.resumed:  # after a restart, an operator may resume a decided transaction
        return
    if found.half is None:  # retention removes a half message before its ops, so only the answers are known
        ends = [each.ops_end for each in transaction.decisions if each.ops_end is not None]
    else:
        first = str(found.half.record.queue_offset).encode()
        ends = [op.record.physical_offset for op in found.ops if op.body == first]
    for half in found.given_up:
        at = half.record.physical_offset
        if any(end <= at for end in ends):
            summary = f"{transaction.name} was given up after its decision"
            yield _transaction_violation(half, summary, "op", "none before it", "one")


def _check_times(transaction: Transaction, found: FoundTransaction, all_: Transactions) -> Iterator[Violation]:
    name, times_max, asked = transaction.name, all_.check_max, len(transaction.check_numbers)
    is_old = any(_reserved_ms_left(half) < 0 for half in found.given_up)
    if found.given_up and not is_old and all_.hears_all and not transaction.may_be_asked_again and asked != times_max:
        summary = f"{name} was given up after a wrong number of check requests"
        yield _transaction_violation(found.given_up[0], summary, "questions", str(times_max), str(asked))
    for half in found.put_back:
        if _check_times_of(half) > times_max:
            summary = f"{name} is checked too many times"
            yield _transaction_violation(half, summary, _CHECK_TIMES, f"<= {times_max}", str(_check_times_of(half)))
        if _reserved_ms_left(half) < -_PUT_MS_MAX:
            summary = f"{name} is checked although its messages may expire"
            yield _transaction_violation(half, summary, "age", f"<= {RESERVED_HOURS} hours", "more")
    for half in found.given_up:
        if _check_times_of(half) != times_max and _reserved_ms_left(half) >= 0:
            summary = f"{name} was given up too early"
            yield _transaction_violation(half, summary, _CHECK_TIMES, str(times_max), str(_check_times_of(half)))


def _reserved_ms_left(half: FoundRecord) -> int:
    """Return for how long retention keeps messages born with a half message; the check gives up older ones."""
    age_ms = half.record.store_timestamp_ms - half.record.head.born_timestamp_ms
    return RESERVED_HOURS * 3_600_000 - age_ms


def check_check_progress(
    ledger: Ledger, store: RecoveredStore, half_offset: int, op_offset: int
) -> Iterator[Violation]:
    """After a recovery, yield each record that the check still needs, although its stored progress has passed it.

    The check needs the newest record of an undecided half message, and the op of each half message that it will read.
    half_offset, op_offset: the progress in the queues of half messages and ops; -1: none. After retention removed
    records, the check is skipped.
    """
    if store.min_offset:
        return
    record_tried("TX")
    for name, found in TransactionLog.read(ledger, store).by_name.items():
        if found.half is None or ledger.transactions.by_name[name].may_be_forgotten:
            continue
        newest = found.put_back[-1] if found.put_back else found.half
        if not found.is_settled and newest.record.queue_offset < half_offset:
            summary, field = f"{name} is undecided, and the check has passed it", "offset of the check"
            yield _transaction_violation(newest, summary, field, f"<= {newest.record.queue_offset}", str(half_offset))
        for op in found.ops:
            at = op.record.queue_offset
            if at < op_offset and int(op.body) >= half_offset:
                summary, field = f"the check has passed an op of {name} that it needs", "offset of ops"
                yield _transaction_violation(op, summary, field, f"<= {at}", str(op_offset))


def _check_times_of(found: FoundRecord) -> int:
    text = properties_of(found.record.properties).get(_CHECK_TIMES, "0")
    return int(text) if text.isdecimal() else 0  # a disk may have changed the text


def _transaction_violation(found: FoundRecord, summary: str, field: str, expected: str, seen: str) -> Violation:
    return Violation("TX", summary, found.file, found.position, field, expected, seen)


# -- during the run --------------------------------------------------------------------------------


def check_check_request(
    transaction: Transaction | None,
    record: MessageRecord,
    *,
    now_ms: int,
    began_ms: int = 0,
    late_ms_max: int | None = None,
    may_be_early: bool = False,
    asks_once: bool = True,
    hears_all: bool = False,
    may_come_late: bool = False,
    timeout_ms: int = TRANSACTIONS.transaction_timeout_ms,
    interval_ms: int = 0,
) -> Iterator[Violation]:
    """Yield each error in a check request to a producer. record: the half message, put back for the request.

    Runs of a single store set all limits. In broker runs the network may lose and repeat the request or its answer, so
    asks_once is False. Another client may decide while the request is in flight, so may_come_late is True.

    now_ms: the clock that decides when the request is due. Store times never decrease and may be ahead of it. began_ms:
    the store time at which the check began after the last start. late_ms_max: the limit for the lateness of the first
    request, None for no check; later requests may wait for younger half messages. may_be_early: whether the clock was
    set back, so that the request may have been due before. asks_once: whether no two requests have the same number;
    False on a disk that may change the number. hears_all: whether the oracle has seen each earlier request, so that the
    numbers leave out none. timeout_ms: the required age of a half message without its own
    CHECK_IMMUNITY_TIME_IN_SECONDS. interval_ms: the least time between two requests, 0 if clocks step or operators
    resume checks.
    """
    record_tried("TX")
    at = record.physical_offset
    if transaction is None:
        yield _check_request_violation(
            "a check request for an unknown half message", at, "message", "a half message", record.properties
        )
        return
    name, settled_at = transaction.name, transaction.settled_at
    if settled_at is not None and at >= settled_at and not may_come_late:
        summary = f"{name} was decided, but is checked again"
        yield _check_request_violation(summary, at, "question", f"before {settled_at}", str(at))
    wanted_ms = transaction.behaviour.immunity_s * 1000 or timeout_ms
    age_ms = min(record.store_timestamp_ms, now_ms) - record.born_timestamp_ms
    if age_ms < wanted_ms and not may_be_early:
        yield _check_request_violation(f"{name} is checked too early", at, "age", f">= {wanted_ms} ms", f"{age_ms} ms")
    late_ms = min(age_ms - wanted_ms, record.store_timestamp_ms - began_ms)
    if transaction.behaviour.immunity_s:  # the store put the half message back, where it may wait for younger ones
        late_ms -= TRANSACTIONS.transaction_timeout_ms
    times = properties_of(record.properties.encode(errors="surrogateescape")).get(_CHECK_TIMES)
    if asks_once and times in transaction.check_numbers and not transaction.may_be_asked_again:
        summary = f"{name} is checked again although a clean stop keeps the progress of the check"
        yield _check_request_violation(summary, at, _CHECK_TIMES, "another number", str(times))
    if hears_all and not transaction.may_be_asked_again and times != str(len(transaction.check_numbers) + 1):
        summary = f"{name} is checked with a number that skips earlier check requests"
        wanted = str(len(transaction.check_numbers) + 1)
        yield _check_request_violation(summary, at, _CHECK_TIMES, wanted, str(times))
    transaction.check_numbers |= {times} if times else set()
    apart_ms = min(
        (abs(record.store_timestamp_ms - other_ms) for other_ms in transaction.check_times_ms), default=interval_ms
    )
    transaction.check_times_ms.append(record.store_timestamp_ms)
    # After a loss of progress a pass may read several copies of a half message. Store times are whole ms.
    if apart_ms < interval_ms - 1 and not transaction.may_be_asked_again:
        summary = f"{name} is checked too often"
        yield _check_request_violation(summary, at, "interval", f">= {interval_ms} ms", f"{apart_ms} ms")
    if times == "1" and late_ms_max is not None and late_ms > late_ms_max:
        yield _check_request_violation(
            f"{name} is checked too late", at, "lateness", f"<= {late_ms_max} ms", f"{late_ms} ms"
        )


def _check_request_violation(summary: str, at: int, field: str, expected: str, found: str) -> Violation:
    return Violation("TX", summary, "commitlog", at, field, expected, found)


def check_decision_answer(
    decision: TransactionDecision,
    by_this_service: list[TransactionDecision],
    disk: Disk,
    *,
    can_be_found: bool,
    may_refuse: bool = False,
) -> Iterator[Violation]:
    """Yield each error in the answer to a commit or rollback request.

    can_be_found: whether the half message was readable in the log at the request. may_refuse: whether the store may
    refuse the put, because it is slow or the message is too long for now.
    """
    record_tried("TX")
    name, status = decision.transaction.name, decision.status
    assert status is not None, name
    done = EndTransactionStatus.DECIDED
    if status is done:
        others = [one for one in by_this_service if one.transaction is decision.transaction and one is not decision]
        if any(one.status is done for one in others):
            yield _decision_answer_violation(f"{name} was decided twice", "decisions", "1", "2")
    elif status is EndTransactionStatus.PUT_FAILED:
        if not (allowances.count_errors(disk) or allowances.count_out_of_space(disk) or may_refuse):
            yield _decision_answer_violation(
                f"{name} could not be committed, without a fault", "status", done.name, status.name
            )
    elif status is EndTransactionStatus.ALREADY_DECIDED:
        others = [one for one in decision.transaction.decisions if one is not decision]
        if can_be_found and all(one.is_void(decision.asked_ns) for one in others):
            summary = f"{name} counts as decided, and no request has decided it"
            yield _decision_answer_violation(summary, "status", done.name, status.name)
    elif can_be_found:
        yield _decision_answer_violation(
            f"a sound decision about {name} was turned away", "status", done.name, status.name
        )


def check_mistaken_request(
    name: str, mistake: Mistake, status: EndTransactionStatus, *, can_be_found: bool
) -> Iterator[Violation]:
    """Yield the answer to a wrong request, unless it is the right refusal.

    can_be_found: whether the half message was readable in the log at the request.
    """
    record_tried("TX")
    if status is not mistake.value and (can_be_found or status is not EndTransactionStatus.PREPARED_NOT_FOUND):
        summary = f"a request about {name} with a wrong {mistake.name} gets a wrong answer"
        yield _decision_answer_violation(summary, "status", mistake.value.name, status.name)


def check_decision_accepted(name: str, code: int, remark: str | None) -> Iterator[Violation]:
    """Yield a broker's refusal of a decision that it has asked for, also if the producer repeats the decision.

    code, remark: of the answer. The broker may be busy or stop, so that the commit cannot be stored.
    """
    record_tried("TX")
    if code == _SYSTEM_ERROR and remark != EndTransactionStatus.PUT_FAILED.value:
        yield _decision_answer_violation(
            f"a sound decision about {name} was turned away", "code", "SUCCESS", str(remark)
        )


def _decision_answer_violation(summary: str, field: str, expected: str, found: str) -> Violation:
    return Violation("TX", summary, "", -1, field, expected, found)


# -- after the last request ------------------------------------------------------------------------


def unsettled_transactions(ledger: Ledger, store: RecoveredStore) -> list[str]:
    log, transactions = TransactionLog.read(ledger, store), ledger.transactions.by_name
    return [
        name for name, found in log.by_name.items() if not found.is_settled and not transactions[name].may_be_forgotten
    ]


def unsettled_violations(names: list[str], waited_ms: int) -> Iterator[Violation]:
    """Yield transactions that are neither decided nor given up in time."""
    for name in names:
        summary, found = f"{name} stays undecided", f"neither after {waited_ms} ms"
        yield Violation("TX", summary, field="transaction", expected="decided, or given up", found=found)


def check_committed(evidence: Evidence, *, resumed: bool) -> Iterator[Violation]:
    """Yield each transaction without a committed copy at the end, although its producer commits.

    A transaction that was given up may lack its copy, unless its check was resumed. resumed: whether all checks were.
    """
    log = TransactionLog.read(evidence.ledger, evidence.store)
    for name, transaction in evidence.ledger.transactions.by_name.items():
        found = log.by_name[name]
        if found.half is None:
            continue
        record_tried("TX")
        is_excused = bool(found.given_up) and not transaction.must_be_decided and not resumed
        if transaction.behaviour.commits and not found.copies and not is_excused:
            state = "given up" if found.given_up else "undecided"
            yield _transaction_violation(found.half, f"{name} was not committed", "decision", "committed", state)
