"""Transactions: requests of producers and their answers, kept for TX.

A half message is a put with its place in the half topic. For each, the ledger adds the planned behaviour of its
producer, each requested decision, and the copies that commits have made.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

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
    """Queue offsets in the half topic that ops name."""

    @property
    def is_decided(self) -> bool:
        """Return whether an op names the first half message. No other one may then be treated as undecided."""
        return self.half is not None and self.half.record.queue_offset in self.decided

    @property
    def is_settled(self) -> bool:
        """Return whether it needs no more questions, once the check has reached its end."""
        if self.half is None or self.is_decided or self.given_up:
            return True
        return bool(self.put_back) and self.put_back[-1].record.queue_offset in self.decided


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How a producer will handle one transaction, drawn in advance."""

    commits: bool
    """Its decision. Every answer to a check says the same."""
    own_after_ms: int | None
    """How long after the half message it decides by itself; None: it waits for a check."""
    contradicts: bool
    """Whether the opposite is requested at the same moment."""
    unknowns: int
    """How many checks it answers with "unknown" first."""
    answer_ms: int
    immunity_s: int
    """The immunity that it asks for; 0: none."""
    repeats_ms: int = 0
    """How long after its own decision it repeats it, as a client whose request is sent twice; 0: never."""

    @property
    def properties(self) -> tuple[str, ...]:
        """Return the properties of the half message."""
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
    copy_end: int | None = None
    """The log offset after the copy that it made."""
    is_acknowledged: bool = False
    """Whether the copy was answered OK, under SYNC_FLUSH after its flush."""

    @property
    def may_have_copied(self) -> bool:
        """Return whether it may have made a copy."""
        return self.commits and self.status in (None, EndTransactionStatus.DECIDED)


@dataclass(slots=True, eq=False)
class Transaction:
    """One transaction over all lives of the store."""

    name: str
    behaviour: Behaviour
    decisions: list[TransactionDecision] = field(default_factory=list)
    questions: int = 0
    is_insisted_on: bool = False
    """Whether it was prepared after all faults had ended. Giving it up is then a violation."""
    asked_times: set[str] = field(default_factory=set)
    may_be_asked_again: bool = False
    """Whether the check has lost progress since the prepare. Each of its copies may then be asked about."""
    copies: dict[int, bool] = field(default_factory=dict)
    """The log offset after each copy that must be present -> whether it must also survive a power cut."""
    settled_at: int | None = None
    """The log offset from which on it must not be asked about; None if it may be."""
    may_be_forgotten: bool = False
    """Whether damage may have removed the record that causes a question."""

    def is_claimed(self, since: int) -> bool:
        """Return whether more than `since` decisions have been requested."""
        return len(self.decisions) > since


@dataclass(slots=True, eq=False)
class Transactions:
    """All transactions and their copies that must not be lost; `guarantees` says when."""

    by_name: dict[str, Transaction] = field(default_factory=dict)
    decisions: list[TransactionDecision] = field(default_factory=list, compare=False)
    check_max: int = field(default=TRANSACTIONS.transaction_check_max, compare=False)
    """How often the producer group is asked before a transaction is given up."""

    def begin_life(self) -> None:
        """Begin another life of the store."""
        self.decisions = []

    def progress_fell_back(self) -> None:
        """Note that the check may restart before its last pass and ask again."""
        for transaction in self.by_name.values():
            transaction.may_be_asked_again = True

    def prepare(self, name: str, behaviour: Behaviour) -> Transaction:
        """Note a half message that is about to be put."""
        assert name not in self.by_name, f"{name} is prepared already"
        transaction = self.by_name[name] = Transaction(name, behaviour)
        return transaction

    def ask(self, transaction: Transaction, *, commits: bool, now_ns: int) -> TransactionDecision:
        """Note a decision before it is requested."""
        assert self.by_name.get(transaction.name) is transaction, f"{transaction.name}: nobody has prepared it"
        decision = TransactionDecision(transaction, commits, now_ns)
        transaction.decisions.append(decision)
        self.decisions.append(decision)
        return decision

    def note_stop(self) -> None:
        """Note that a clean stop makes every copy durable."""
        self._keep_all()
        for transaction in self.by_name.values():
            transaction.copies = dict.fromkeys(transaction.copies, True)

    def note_crash(
        self, flushed_where: int, committed_where: int | None, *, sync_flush: bool, cache_survives: bool
    ) -> None:
        """Note which copies must survive a crash. The positions are those of `guarantees.note_crash`.

        cache_survives: whether everything that readers had seen is kept.
        """
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
        """Note that the log may have lost everything after an offset, while the progress is kept."""
        self.progress_fell_back()
        for transaction in self.by_name.values():
            transaction.may_be_forgotten = True
            transaction.copies = {end: kept for end, kept in transaction.copies.items() if end <= log_offset}

    def note_recovery(self, log: Mapping[str, FoundTransaction], *, durable: bool) -> None:
        """Note the records that a recovery found, which must stay. durable: also after a power cut."""
        for name, transaction in self.by_name.items():
            found, before = log[name], transaction.copies
            assert not (found.is_decided and found.half is None), name
            ends = [copy.record.physical_offset + copy.record.size_bytes for copy in found.copies]
            transaction.copies = {end: durable or before.get(end, False) for end in ends}
            transaction.settled_at = 0 if found.is_decided else None
