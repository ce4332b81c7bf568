"""Transactions: requests of producers and their answers, recorded for the TX check.

A half message is a put that is stored in the half topic.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from ...store.formats.half_message import EndTransaction
from ...store.formats.messages import AppendMessageResult
from ...store.services.transaction_service import EndTransactionStatus
from ..claims.machine import TRANSACTIONS
from .recovered import FoundRecord


@dataclass(slots=True)
class FoundTransaction:
    """The records of one transaction, each kind in log order."""

    half: FoundRecord | None = None
    put_back: list[FoundRecord] = field(default_factory=list)
    copies: list[FoundRecord] = field(default_factory=list)
    ops: list[FoundRecord] = field(default_factory=list)
    given_up: list[FoundRecord] = field(default_factory=list)
    decided: set[int] = field(default_factory=set)
    """Queue offsets of half messages that ops mark as decided."""

    @property
    def is_decided(self) -> bool:
        """Whether an op marks the first half message as decided. Later copies of this half message are decided, too."""
        return self.half is not None and self.half.record.queue_offset in self.decided

    @property
    def is_settled(self) -> bool:
        """Whether the transaction needs no more check requests after the check has passed the last half message."""
        if self.half is None or self.is_decided or self.given_up:
            return True
        return bool(self.put_back) and self.put_back[-1].record.queue_offset in self.decided


class Mistake(Enum):
    """A wrong request to end a transaction: the field that is wrong, and the status of the refusal."""

    GROUP = EndTransactionStatus.PRODUCER_GROUP_WRONG
    QUEUE_OFFSET = EndTransactionStatus.TRAN_STATE_TABLE_OFFSET_WRONG
    LOG_OFFSET = EndTransactionStatus.PREPARED_NOT_FOUND

    def wrong(self, request: EndTransaction, made: AppendMessageResult | None) -> EndTransaction:
        """Return the request with this mistake. made: the put of the message that the transaction has committed."""
        if self is Mistake.GROUP:
            return request._replace(producer_group=f"{GROUP}-2")
        if self is Mistake.QUEUE_OFFSET:
            return request._replace(tran_state_table_offset=request.tran_state_table_offset + 1)
        if made is None:
            return request._replace(commit_log_offset=request.commit_log_offset + 1)
        return EndTransaction(GROUP, made.queue_offset, made.wrote_offset)


@dataclass(frozen=True, slots=True)
class TransactionBehaviour:
    """How a producer will handle one transaction, chosen at random in advance."""

    commits: bool
    """Whether the producer commits. Every answer to a check request has this decision."""
    own_after_ms: int | None
    """The delay of the producer's decision after the half message; None: the producer waits for a check request."""
    contradicts: bool
    """Whether another task requests the opposite decision at the same time."""
    unknowns: int
    """How many check requests the producer first answers with "unknown"."""
    answer_ms: int
    immunity_s: int
    """CHECK_IMMUNITY_TIME_IN_SECONDS of the half message; 0: none."""
    repeats_ms: int = 0
    """The delay after which the producer repeats its decision, like a client's retry; 0: no repetition."""
    mistake: Mistake | None = None
    """The mistake in an additional request before and after each decision; None: no such request."""

    @property
    def properties(self) -> tuple[str, ...]:
        immunity = (f"CHECK_IMMUNITY_TIME_IN_SECONDS\1{self.immunity_s}",) if self.immunity_s else ()
        return (f"PGROUP\1{GROUP}", "TRAN_MSG\1true", *immunity)


GROUP = "sellers"


@dataclass(slots=True, eq=False)
class TransactionDecision:
    """One request to commit or to roll back, and its answer."""

    transaction: "Transaction" = field(compare=False)
    commits: bool
    asked_ns: int = field(compare=False)
    status: EndTransactionStatus | None = None
    answered_ns: int = field(default=-1, compare=False)
    """When the answer arrived, -1 without an answer."""
    copy_end: int | None = None
    is_acknowledged: bool = False
    """Whether the put of the copy was answered OK; under SYNC_FLUSH the copy is then durable."""
    half_offset: int = field(default=-1, compare=False)
    """The queue offset of the half message that the request named, the first one or a copy that was put back."""
    ops_end: int | None = field(default=None, compare=False)
    """The log offset before which all ops of this decision are; None if an op may be missing, or a crash cut one."""

    def is_void(self, before_ns: int) -> bool:
        """Return whether this request decides nothing, and reserved its half message at most before a time."""
        if self.status is EndTransactionStatus.PUT_FAILED:
            return self.answered_ns < before_ns
        return self.status not in (None, EndTransactionStatus.DECIDED)

    @property
    def may_have_copied(self) -> bool:
        return self.commits and self.status in (None, EndTransactionStatus.DECIDED)


@dataclass(slots=True, eq=False)
class Transaction:
    """One transaction over all starts of the store."""

    name: str
    behaviour: TransactionBehaviour
    decisions: list[TransactionDecision] = field(default_factory=list)
    questions: int = 0
    must_be_decided: bool = False
    """Whether the half message was put after all faults had ended. The store must not give it up."""
    check_numbers: set[str] = field(default_factory=set)
    check_times_ms: list[int] = field(default_factory=list, compare=False)
    """The store times of the half message when it was put back for check requests."""
    may_be_asked_again: bool = False
    """Whether the check has lost progress since the half message was put."""
    copies: dict[int, bool] = field(default_factory=dict)
    """Log offset after each copy that must be present -> whether the copy must survive a power cut."""
    settled_at: int | None = None
    """From this log offset on the store must not ask about the transaction; None if the store may ask."""
    may_be_forgotten: bool = False
    """Whether damage may have removed the record that causes a check request."""

    def is_claimed(self, since: int) -> bool:
        return len(self.decisions) > since


@dataclass(slots=True, eq=False)
class Transactions:
    """All transactions, and their copies that must survive by the rules of `guarantees`."""

    by_name: dict[str, Transaction] = field(default_factory=dict)
    decisions: list[TransactionDecision] = field(default_factory=list, compare=False)
    check_max: int = field(default=TRANSACTIONS.transaction_check_max, compare=False)
    """The number of check requests before the store gives up a transaction."""
    resumed: int = field(default=0, compare=False)
    """How often an operator resumed the check of a transaction that was given up."""
    hears_all: bool = field(default=False, compare=False)
    """Whether each check request reaches the oracle: no network and no disk changes it."""

    def begin_life(self) -> None:
        self.decisions = []

    def record_lost_progress(self) -> None:
        for transaction in self.by_name.values():
            transaction.may_be_asked_again = True

    def add_transaction(self, name: str, behaviour: TransactionBehaviour) -> Transaction:
        assert name not in self.by_name, f"{name}: expected a new transaction, found a prepared one"
        transaction = self.by_name[name] = Transaction(name, behaviour)
        return transaction

    def record_decision(self, transaction: Transaction, *, commits: bool, now_ns: int) -> TransactionDecision:
        assert self.by_name.get(transaction.name) is transaction, f"{transaction.name}: expected a prepared transaction"
        decision = TransactionDecision(transaction, commits, now_ns)
        transaction.decisions.append(decision)
        self.decisions.append(decision)
        return decision

    def note_stop(self) -> None:
        self._keep_all()
        for transaction in self.by_name.values():
            transaction.copies = dict.fromkeys(transaction.copies, True)

    def note_crash(
        self, flushed_where: int, committed_where: int | None, *, sync_flush: bool, cache_survives: bool
    ) -> None:
        """cache_survives: whether the page cache is kept. For the positions see `guarantees.note_crash`."""
        if cache_survives:
            self._keep_all(committed_where)
            return
        for decision in self.decisions:
            end = decision.copy_end
            if end is not None and (end <= flushed_where or (sync_flush and decision.is_acknowledged)):
                decision.transaction.copies[end] = True
        for transaction in self.by_name.values():
            transaction.copies = {end: True for end, durable in transaction.copies.items() if durable}

    def _keep_all(self, below: int | None = None) -> None:
        for decision in self.decisions:
            end = decision.copy_end
            if end is not None and (below is None or end <= below):
                decision.transaction.copies.setdefault(end, False)

    def note_damage(self, log_offset: int) -> None:
        """Record that the log may have lost all records after an offset, but the check's progress is kept."""
        self.record_lost_progress()
        for transaction in self.by_name.values():
            transaction.may_be_forgotten = True
            transaction.copies = {end: kept for end, kept in transaction.copies.items() if end <= log_offset}

    def note_recovery(self, log: Mapping[str, FoundTransaction], log_end: int, *, durable: bool) -> None:
        """Record a recovery: copies and ops that it found must stay.

        log_end: the end of the recovered log. durable: whether the copies must survive a power cut.
        """
        for name, transaction in self.by_name.items():
            for decision in transaction.decisions:
                if decision.ops_end is not None and decision.ops_end > log_end:
                    decision.ops_end = None
            found, before = log[name], transaction.copies
            assert not (found.is_decided and found.half is None), name
            ends = [copy.record.physical_offset + copy.record.size_bytes for copy in found.copies]
            transaction.copies = {end: durable or before.get(end, False) for end in ends}
            transaction.settled_at = 0 if found.is_decided else None
