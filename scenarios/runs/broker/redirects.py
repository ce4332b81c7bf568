"""Redirects: checks of a broker's choice between itself and a slave for a consumer's next pull (READ).

    more bytes than the memory after the last examined message     the first slave
    otherwise, and in an answer without messages                   the master
    a slave without the next message                               the master, at the offset of the request

A broker examines the messages of its answer and at most one more. Its log must not have grown during the request.
Source: RocketMQ DefaultMessageStore.getMessage, PullMessageProcessor.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ....store.broker.broker_config import MASTER_ID
from ....store.broker.requests import ResponseCode
from ....store.formats.remoting.command import RemotingCommand
from ....store.message_store import MessageStore
from ...claims.plan import Plan
from ...oracle.evidence import Violation, record_tried
from ...oracle.group_delivery import Queue
from ...oracle.ledger import Ledger
from ...oracle.reader import LogRecord, ReadRecord
from .routes import BrokerAddress

_FIRST_SLAVE = 1


class LogState(NamedTuple):
    """A broker's log at one time."""

    store: MessageStore
    end: int
    is_dispatched: bool

    @property
    def memory_bytes(self) -> int:
        config = self.store.config
        return config.physical_memory_bytes * config.access_message_in_memory_max_ratio // 100


class PullAnswer(NamedTuple):
    """An answer to a pull."""

    code: int
    suggested_id: int
    position: int
    """The queue offset of the request."""
    following: int
    max_offset: int
    last: LogRecord | None
    """The last message of the answer."""

    @classmethod
    def of(cls, position: int, response: RemotingCommand, readings: Sequence[ReadRecord]) -> "PullAnswer":
        names = ("suggestWhichBrokerId", "nextBeginOffset", "maxOffset")
        suggested_id, following, max_offset = (int(response.ext_fields[name]) for name in names)
        last = readings[-1].record if readings else None
        return cls(response.code, suggested_id, position, following, max_offset, last)


class Redirects:
    """The redirects of one consumer."""

    def __init__(self, plan: Plan, find_store: Callable[[BrokerAddress], MessageStore | None]) -> None:
        """find_store: returns the store of a broker that runs."""
        self._slaves_are_read = plan.cluster.slaves > 0 and plan.broker.slaves_are_read
        self._find_store = find_store

    def log_state(self, asked: BrokerAddress | None) -> LogState | None:
        """Return the state of a broker's log. None if it does not run, or never redirects consumers."""
        store = self._find_store(asked) if asked is not None and self._slaves_are_read else None
        if store is None:
            return None
        end = store.dispatch.readable_limit()
        return LogState(store, end, store.dispatch.reput_from.get() >= end)

    def check_answer(
        self, ledger: Ledger, queue: Queue, asked: BrokerAddress, answer: PullAnswer, before: LogState | None
    ) -> Iterator[Violation]:
        """before: the state of the broker's log before the request."""
        record_tried("READ")
        after = self.log_state(asked)
        if before is not None and after is not None and before.store is not after.store:
            before = after = None
        expected = self._expected_ids(ledger, queue, answer, before, after)
        if answer.suggested_id not in expected:
            known = f"messages up to {answer.last}, the log {before} and then {after}"
            summary = "the answer to a pull suggests a wrong broker"
            found = f"{answer.suggested_id}: {known}"
            yield Violation("READ", summary, field="suggestWhichBrokerId", expected=str(expected), found=found)

    def _expected_ids(
        self, ledger: Ledger, queue: Queue, answer: PullAnswer, before: LogState | None, after: LogState | None
    ) -> set[int]:
        has_scanned = answer.code in (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY)
        if not self._slaves_are_read or not has_scanned:
            return {MASTER_ID}
        last = answer.last
        if last is None or before is None or after is None:
            return {MASTER_ID, _FIRST_SLAVE}
        if after.end - last.physical_offset <= after.memory_bytes:
            return {MASTER_ID}
        examined_to = None
        if answer.following != answer.max_offset:
            nexts = (put for put in ledger.puts if put.place == queue and put.queue_offset == answer.following)
            # after the loss of a master, a put to its successor may have the queue offset of a lost one
            places = [put.physical_offset for put in nexts if put.physical_offset is not None]
            examined_to = max(places, default=None)
        elif last.queue_offset == answer.following - 1:
            examined_to = last.physical_offset
        is_steady = before.is_dispatched and before.end == after.end
        if is_steady and examined_to is not None and before.end - examined_to > after.memory_bytes:
            return {_FIRST_SLAVE}
        return {MASTER_ID, _FIRST_SLAVE}


def check_slave_answer(ledger: Ledger, answer: PullAnswer, *, may_skip: bool, is_read: bool) -> Iterator[Violation]:
    """Yield an answer of a slave without messages that moves the consumer.

    may_skip: whether the subscription may not match some messages. is_read: whether the slave may look for messages;
    otherwise it keeps every offset.
    """
    record_tried("READ")
    may_move = is_read and (ledger.expired_to > 0 or (may_skip and answer.following > answer.position))
    is_moved = answer.following != answer.position and not may_move
    if answer.code == ResponseCode.PULL_OFFSET_MOVED or is_moved:
        found = f"{answer.following} with code {answer.code}"
        summary = "a slave changes a consumer's next offset"
        yield Violation("READ", summary, field="nextBeginOffset", expected=str(answer.position), found=found)
