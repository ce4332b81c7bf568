"""Transaction traffic: producers of half messages, and the group that answers the store's check requests.

The producer of a half message decides at once, later, or never. If never, the store sends check requests to the
producer group, which may answer after a while or never. This behaviour is chosen before the put, so it does not depend
on the schedule. After a restart of the store, the group answers for earlier transactions, too, and decides some of them
without a request.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial

from ...sim.choices import Stream
from ...store.errors import StoreError
from ...store.formats.half_message import EndTransaction, HalfMessage
from ...store.formats.message import BLANK_BYTES, TRANSACTION_PREPARED, MessageRecord
from ...store.formats.messages import AppendMessageResult, PutMessageResult, PutMessageStatus
from ...store.formats.properties import decode_properties
from ...store.services.consumer_offsets import ConsumerOffsetManager
from ...store.services.transaction_service import EndTransactionStatus, TransactionalMessageService
from ...store.world import Task
from ..claims.machine import TRANSACTIONS
from ..claims.plan import Plan
from ..oracle import allowances
from ..oracle.evidence import Violation
from ..oracle.invariants import live, quiescence, status, tx
from ..oracle.invariants.quiescence import Cursor
from ..oracle.ledger import GIVEN_UP_TOPIC, HALF_TOPIC
from ..oracle.put_entry import PutEntry
from ..oracle.recovered import read_store
from ..oracle.transactions import GROUP, Mistake, Transaction, TransactionBehaviour, TransactionDecision
from .options import StoreUser, message_of

_PUT_BACK_BYTES = len("\2TRANSACTION_CHECK_TIMES\1") + 10 + len("\2TRAN_PREPARED_QUEUE_OFFSET\1") + 19
_NEVER = 1_000
"""Greater than the number of check requests that the store ever sends."""
_COMES_BACK_CHANCE = 0.4
_STAYS_MS_MAX = (1, 600, 2_500)
_IMMUNITY_S = 1
_REPEATS_MS = (0, 0, 0, 1, 100, 400)
_MISTAKES = (None,) * 7 + tuple(Mistake)
_POLL_MS = 200
_SETTLED_MS_MAX = 20_000


def draw_behaviour(stream: Stream) -> TransactionBehaviour:
    timeout_ms = TRANSACTIONS.transaction_timeout_ms
    own_after_ms = stream.choice((0, timeout_ms, 3 * timeout_ms, None, None), "decides")
    if own_after_ms:
        own_after_ms = stream.randint(1, own_after_ms, "decides after ms")
    return TransactionBehaviour(
        not stream.chance(0.4, "rolls back"),
        own_after_ms,
        stream.chance(0.2, "contradicts"),
        stream.choice((0, 0, 0, 1, 2, _NEVER), "unknowns"),
        stream.choice((0, 1, 20), "answer ms"),
        stream.choice((0, _IMMUNITY_S, _IMMUNITY_S), "immunity s"),
        stream.choice(_REPEATS_MS, "repeats after ms"),
        stream.choice(_MISTAKES, "mistake"),
    )


def fits_segment(put: PutEntry, plan: Plan) -> bool:
    """Return whether every record that the store makes of a half message fits into a segment."""
    longer_topic = max(len(GIVEN_UP_TOPIC), len(put.topic.encode())) - len(HALF_TOPIC)
    return put.record_bytes + longer_topic + _PUT_BACK_BYTES + BLANK_BYTES <= plan.commit_log_bytes


@dataclass(slots=True, eq=False)
class TransactionTraffic(StoreUser):
    """The transaction service between a start and a stop, and its users."""

    offsets: ConsumerOffsetManager
    is_calm: bool = False
    service: TransactionalMessageService = field(init=False)
    _earlier: dict[str, int] = field(init=False)
    """Transaction -> number of decisions before the last start, for transactions that still exist."""
    _others: int = field(init=False)
    """The number of decisions since the last start that another service of the same store executed."""
    _owed: list[Transaction] = field(default_factory=list, init=False)
    """Decided transactions without a stored op. Only this service's memory has the decision."""
    _answers: list[Task] = field(default_factory=list, init=False)
    _began_ms: int = field(default=0, init=False)
    """The time at which the transaction check began after the last start."""
    _newest_stored_ms: int = field(default=0, init=False)
    """The newest store time at `_began_ms`. Later records have no earlier store time, even if the clock steps back."""
    _is_over: bool = field(default=False, init=False)
    """Whether the store is stopping, so that it may refuse requests."""

    def __post_init__(self) -> None:
        transactions, gone = self.ledger.transactions.by_name, self.ledger.lost_puts
        self.ledger.transactions.hears_all = not self.plan.rot.is_possible
        self._others = len(self.ledger.transactions.decisions)
        self._earlier = {name: len(one.decisions) for name, one in transactions.items() if name not in gone}
        if not self.ledger.progress_is_final:
            self.ledger.transactions.record_lost_progress()
        self.service = TransactionalMessageService(self.store.world, self.store, self.offsets, TRANSACTIONS)
        self.service.on_check = self._on_check_request

    def start(self) -> None:
        self._began_ms = self.store.world.clock.now_ms()
        self._newest_stored_ms = self.store.commit_log.last_store_timestamp_ms
        self.service.start()

    def shutdown(self) -> None:
        self._is_over = True
        self.service.shutdown()
        for answer in self._answers:
            answer.join(None)
        for transaction in self._owed:
            transaction.settled_at = None  # the next service may ask again, before or after a restart of the store

    # -- producers ---------------------------------------------------------------------------------

    def prepare(self, put: PutEntry, behaviour: TransactionBehaviour) -> PutMessageResult:
        self.ledger.transactions.add_transaction(put.name, behaviour)
        place, properties = (put.topic, put.body, put.queue_id), put.properties.decode()
        flag = TRANSACTION_PREPARED
        return self.service.prepare(message_of(*place, properties, put.content, wait=put.wait, sys_flag=flag))

    def decide(self, put: PutEntry) -> None:
        """Decide a half message after the answer to its put, unless the producer waits for a check request."""
        transaction = self.ledger.transactions.by_name[put.name]
        behaviour = transaction.behaviour
        if put.physical_offset is None or behaviour.own_after_ms is None:
            return
        if behaviour.own_after_ms:
            self.store.world.tasks.sleep(behaviour.own_after_ms)
        if not transaction.is_claimed(0):  # otherwise the group has answered a check request
            self._decide_on_own(transaction, put)

    def _decide_on_own(self, transaction: Transaction, put: PutEntry) -> None:
        assert put.queue_offset is not None
        assert put.physical_offset is not None
        request = EndTransaction(GROUP, put.queue_offset, put.physical_offset)
        behaviour = transaction.behaviour
        found = self._must_find_half_message(put)
        if behaviour.contradicts and not self._is_over:  # during a stop no task waits for the decision
            otherwise = partial(
                self._request_decision, transaction, put, request, commits=not behaviour.commits, found=found
            )
            self._spawn_task("contradiction", otherwise)
        self._request_decision(transaction, put, request, commits=behaviour.commits, found=found)
        if behaviour.repeats_ms and not self._is_over:
            self._spawn_task("repetition", partial(self._repeat_decision, transaction, put, request))

    def _repeat_decision(self, transaction: Transaction, put: PutEntry, request: EndTransaction) -> None:
        self.store.world.tasks.sleep(transaction.behaviour.repeats_ms)
        self._request_decision(
            transaction, put, request, commits=transaction.behaviour.commits, found=self._must_find_half_message(put)
        )

    def _must_find_half_message(self, put: PutEntry) -> bool:
        assert put.physical_offset is not None
        answered_for_all = put.status is PutMessageStatus.PUT_OK and (put.wait or not self.plan.sync_flush)
        is_visible = put.is_durable or answered_for_all
        end = put.physical_offset + put.record_bytes
        return self._must_be_found(end, is_visible=is_visible, in_buffer=self.plan.may_use_transient_pool)

    def decide_earlier(self, stream: Stream, *, healing: bool) -> None:
        """Decide some transactions from before the last start without a request, then answer check requests for a
        while.

        healing: whether all faults have ended, so that no wait is needed.
        """
        ledger = self.ledger
        for name, decisions in self._earlier.items():
            transaction, put = ledger.transactions.by_name[name], ledger.by_name[name]
            about = stream.with_subject(name)
            if about.chance(_COMES_BACK_CHANCE, "comes back"):
                self.store.world.tasks.sleep(about.randbelow(_POLL_MS, "comes back after ms"))
                knows = any(one.status is EndTransactionStatus.DECIDED for one in transaction.decisions)
                if not knows and not transaction.is_claimed(decisions) and put.physical_offset is not None:
                    self._decide_on_own(transaction, put)
        if not healing:
            self.store.world.tasks.sleep(stream.randint(1, stream.choice(_STAYS_MS_MAX, "stays"), "stays ms"))

    # -- the producer group ------------------------------------------------------------------------

    def _on_check_request(self, record: MessageRecord) -> None:
        ledger = self.ledger
        name = decode_properties(record.properties).get("KEYS", "").lstrip(" ").partition(" ")[0]
        transaction = ledger.transactions.by_name.get(name)
        late_ms_max = None
        if self.is_calm:  # each check request may wait for a flush
            others_ms = len(ledger.transactions.by_name) * live.overtaken_ms_max(self.plan)
            put_back_ms = live.answer_ms_max(self.plan) or 0  # the next put of the half message may need a new segment
            # A pass of the check reads the file, so it waits for the commit before it sends a request.
            seen_ms = 0 if self.store.commit is None else live.commit_ms_max(self.plan)
            # A pass ends at a transaction if its decision is still in a write buffer. Several of these may come first.
            hidden = 0 if self.store.commit is None else len(ledger.transactions.decisions)
            passes_ms = (2 + hidden) * TRANSACTIONS.transaction_check_interval_ms
            late_ms_max = live.delivery_ms_max(self.plan) + passes_ms + seen_ms + put_back_ms + others_ms
            # A half message from the future makes later ones wait until it is old enough.
            late_ms_max += min(max(self.plan.transactions.clock_ahead_ms, 0), TRANSACTIONS.transaction_timeout_ms)
        found = tx.check_check_request(
            transaction,
            record,
            now_ms=self.store.world.clock.now_ms(),
            began_ms=max(self._began_ms, self._newest_stored_ms, self._stored_ms(name, record)),
            late_ms_max=late_ms_max,
            may_be_early=transaction is not None and self._may_have_been_due(transaction, record),
            asks_once=ledger.transactions.hears_all,
            hears_all=ledger.transactions.hears_all,
            interval_ms=0 if self.plan.disturbances.clock_step_chance else TRANSACTIONS.transaction_check_interval_ms,
        )
        violations = list(found)
        self._spawn_task("answer", lambda: self._answer_check_request(transaction, record, violations))

    def _stored_ms(self, name: str, record: MessageRecord) -> int:
        """Return the store time of the first record of a half message, else of its given copy."""
        put = self.ledger.by_name.get(name)
        return record.store_timestamp_ms if put is None or put.stored_ms is None else put.stored_ms

    def _may_have_been_due(self, transaction: Transaction, record: MessageRecord) -> bool:
        """Return whether a wrong clock may have made a half message due early.

        Either the clock had reached the due time before a step back, or it was before the born time: after a step, or
        because the producer's clock is ahead.
        """
        born_ms = record.born_timestamp_ms
        if self.plan.transactions.clock_ahead_ms > 0 and born_ms > self._stored_ms(transaction.name, record):
            return True
        due_ms = born_ms + (transaction.behaviour.immunity_s * 1000 or TRANSACTIONS.transaction_timeout_ms)
        was_before_birth = any(back.to_ms < born_ms for back in self.ledger.clock_set_back) or (
            transaction.name in self._earlier and self._began_ms < born_ms  # after a restart the clock is right again
        )
        return was_before_birth or self.ledger.has_clock_read(due_ms)

    def _answer_check_request(
        self, transaction: Transaction | None, record: MessageRecord, found: list[Violation]
    ) -> None:
        self.report(found)
        if transaction is None:
            return  # a disk that changes bytes has changed the name in the record
        behaviour = transaction.behaviour
        transaction.questions += 1
        if transaction.questions <= behaviour.unknowns:
            return
        if behaviour.answer_ms:
            self.store.world.tasks.sleep(behaviour.answer_ms)
        put = self.ledger.by_name[transaction.name]
        request = HalfMessage.from_record(record).request
        end = record.physical_offset + record.size_bytes
        must = self._must_be_found(end, is_visible=True, in_buffer=self._may_fail_to_commit)
        self._request_decision(transaction, put, request, commits=behaviour.commits, found=must)

    def _spawn_task(self, name: str, body: Callable[[], None]) -> None:
        self._answers.append(self.store.world.tasks.spawn(name, body))

    # -- deciding ----------------------------------------------------------------------------------

    def _request_decision(
        self, transaction: Transaction, put: PutEntry, request: EndTransaction, *, commits: bool, found: bool
    ) -> None:
        self._end_mistakenly(put.name, request, None, commits=commits, found=found)
        transactions = self.ledger.transactions
        decision = transactions.record_decision(
            transaction, commits=commits, now_ns=self.store.world.clock.monotonic_ns()
        )
        end = self.service.commit if commits else self.service.rollback
        try:
            result = end(request)
        except (StoreError, OSError):
            return  # the decision may be stored or not
        decision.status, decision.answered_ns = result.status, self.store.world.clock.monotonic_ns()
        if self._is_over and result.status not in (EndTransactionStatus.DECIDED, EndTransactionStatus.ALREADY_DECIDED):
            return
        made = result.put.append if result.put is not None else None
        if made is not None and result.put is not None:
            decision.copy_end = made.wrote_offset + made.wrote_bytes
            decision.is_acknowledged = put.wait and result.put.status is PutMessageStatus.PUT_OK
            self._judge_put(decision, put, result.put)
        found = found and not self._may_be_missing(request.commit_log_offset)
        may_be_slow = allowances.count_delays(self.disk, self.plan) > 0
        is_too_long = len(put.body) > self.store.config.max_message_size  # the limit was higher at the put
        self.report(
            tx.check_decision_answer(
                decision,
                transactions.decisions[self._others :],
                self.disk,
                can_be_found=found,
                may_refuse=may_be_slow or is_too_long or self.plan.settings.fast_fail_if_no_buffer_in_store_pool,
            )
        )
        if result.status is EndTransactionStatus.DECIDED:
            # The readable end is wrong here, because messages that were put back earlier may still be in a buffer.
            transaction.settled_at = self.store.log.put_offset
            decision.half_offset = request.tran_state_table_offset
            if result.op_is_stored:
                decision.ops_end = transaction.settled_at
            else:
                self._owed.append(transaction)
            self._end_mistakenly(put.name, request, made, commits=commits, found=found)

    def _end_mistakenly(
        self, name: str, request: EndTransaction, made: AppendMessageResult | None, *, commits: bool, found: bool
    ) -> None:
        """Send a wrong request, which must have no effect. made: the put of the committed message."""
        mistake = self.ledger.transactions.by_name[name].behaviour.mistake
        if mistake is None:
            return
        wrong = mistake.wrong(request, made)
        try:
            status = (self.service.commit if commits else self.service.rollback)(wrong).status
        except (StoreError, OSError):
            return
        found = found and not self._is_over and not self._may_be_missing(request.commit_log_offset)
        self.report(tx.check_mistaken_request(name, mistake, status, can_be_found=found))

    def _may_be_missing(self, physical_offset: int) -> bool:
        if physical_offset < self.ledger.expired_to:
            return True
        segment = self.store.log.find(physical_offset)
        return segment is not None and allowances.has_reverted_data(self.disk, segment.file.path)

    @property
    def _may_fail_to_commit(self) -> bool:
        return self.plan.may_use_transient_pool and allowances.has_any_fault(self.disk)

    def _must_be_found(self, end: int, *, is_visible: bool, in_buffer: bool) -> bool:
        """Return whether a lookup must find a half message that ends at log offset `end`.

        is_visible: whether the answer to its put implies that a lookup finds the record. This holds neither after
        errors and delays of the disk, nor with a write buffer (in_buffer).
        """
        disk = self.disk
        is_excused = in_buffer or allowances.count_delays(disk, self.plan) or allowances.count_sync_errors(disk)
        if end <= self.ledger.expired_to:
            return False
        return end <= self.store.dispatch.readable_limit() or (is_visible and not is_excused)

    def _judge_put(self, decision: TransactionDecision, put: PutEntry, result: PutMessageResult) -> None:
        copy = replace(put, asked_ns=decision.asked_ns, answered_ns=self.store.world.clock.monotonic_ns())
        with self.disk.kernel.without_scheduling_points():
            expired_to = self.ledger.expired_to
            untrue = status.check_put_status(
                self.plan, self.store, self.disk, copy, result, refusal=None, expired_to=expired_to
            )
        self.report(untrue)

    # -- after the last request --------------------------------------------------------------------

    def cursors(self) -> Iterable[Cursor]:
        return quiescence.transaction_cursors(self.store, self.plan, self.offsets, TRANSACTIONS)

    def await_settled(self) -> None:
        """Wait until all transactions are decided or given up. The caller has ended all faults and puts."""
        waited_ms = 0
        while names := tx.unsettled_transactions(self.ledger, read_store(self.store)):
            if waited_ms > _SETTLED_MS_MAX + live.clock_ms_max(self.plan):
                self.report(tx.unsettled_violations(names, waited_ms))
                return
            self.store.world.tasks.sleep(_POLL_MS)
            waited_ms += _POLL_MS
