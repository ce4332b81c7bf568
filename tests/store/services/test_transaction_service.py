from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tornlog.store.config import BrokerRole, FlushDiskType, StoreConfig
from tornlog.store.errors import StoreNotReadableError
from tornlog.store.formats.half_message import HALF_TOPIC, OP_TOPIC, EndTransaction
from tornlog.store.formats.host import encode_message_id
from tornlog.store.formats.message import MessageRecord, decode_record
from tornlog.store.formats.messages import Message, PutMessageResult, PutMessageStatus
from tornlog.store.formats.properties import decode_properties
from tornlog.store.message_store import MessageStore
from tornlog.store.real.files import RealFiles
from tornlog.store.real.world import ThreadTasks
from tornlog.store.services.transaction_service import EndTransactionStatus, TransactionalMessageService
from tornlog.store.world import World

Live = Callable[..., Any]

DECIDED = EndTransactionStatus.DECIDED
ALREADY_DECIDED = EndTransactionStatus.ALREADY_DECIDED
NOT_FOUND = EndTransactionStatus.PREPARED_NOT_FOUND


def refuse_puts(store: MessageStore, topic: str, times: int = 1) -> None:
    """Refuse the next puts to a topic."""
    left, put = [times], store.put_message

    def put_message(message: Message) -> PutMessageResult:
        if message.topic == topic and left[0]:
            left[0] -= 1
            return PutMessageResult(PutMessageStatus.OS_PAGECACHE_BUSY)
        return put(message)

    store.put_message = put_message  # type: ignore[method-assign]


def test_a_prepared_message_is_invisible_until_its_commit(broker: Any) -> None:
    request = broker.prepare("one")
    assert broker.visible() == []
    result = broker.transactions.commit(request)
    assert (result.status, result.put.status) == (DECIDED, PutMessageStatus.PUT_OK)
    assert result.op_is_stored
    (record,) = broker.records("Orders", 1)
    assert (record.body, record.sys_flag & 12) == (b"one", 8)
    assert record.prepared_transaction_offset == request.commit_log_offset
    assert {"REAL_TOPIC", "REAL_QID", "TRAN_MSG", "PGROUP"} <= decode_properties(record.properties).keys()
    (op,) = broker.records(OP_TOPIC)
    assert op.body == b"%d" % request.tran_state_table_offset
    assert op.physical_offset > record.physical_offset


def test_a_rolled_back_message_stays_invisible(broker: Any) -> None:
    request = broker.prepare("one")
    assert broker.transactions.rollback(request) == (DECIDED, None, True)
    assert broker.transactions.commit(request).status is ALREADY_DECIDED
    assert broker.visible() == []
    assert [op.body for op in broker.records(OP_TOPIC)] == [b"0"]


def test_the_delay_of_a_transactional_message_starts_at_its_commit(broker: Any) -> None:
    request = broker.prepare("one", DELAY="2")
    assert [record.topic for record in broker.records(HALF_TOPIC)] == [HALF_TOPIC]
    broker.commit(request)
    (waiting,) = broker.records("SCHEDULE_TOPIC_XXXX", 1)
    assert (waiting.sys_flag & 12, waiting.body) == (8, b"one")


def test_a_decision_must_name_group_queue_offset_and_log_offset_of_its_half_message(broker: Any) -> None:
    request = broker.prepare("one")
    other = broker.store.put_message(Message.create("Orders", b"", queue_id=1, properties={"PGROUP": "sellers"}))
    broker.settle()
    wrong = {
        request._replace(producer_group="buyers"): EndTransactionStatus.PRODUCER_GROUP_WRONG,
        request._replace(tran_state_table_offset=1): EndTransactionStatus.TRAN_STATE_TABLE_OFFSET_WRONG,
        request._replace(commit_log_offset=1): NOT_FOUND,
        request._replace(commit_log_offset=-1): NOT_FOUND,
        request._replace(commit_log_offset=10**9): NOT_FOUND,
        EndTransaction("sellers", 0, other.append.wrote_offset): NOT_FOUND,
    }
    for each, status in wrong.items():
        assert broker.transactions.commit(each).status is status
        assert broker.transactions.rollback(each).status is status
    assert broker.records(OP_TOPIC) == []
    broker.commit(request)


def test_a_decision_about_a_lost_half_message_does_not_end_another_one_at_its_offsets(broker: Any) -> None:
    request = broker.prepare("one", UNIQ_KEY="id-1")
    for ids in (("id-0",), ("id-0", "id-0")):
        assert broker.transactions.commit(request._replace(message_ids=ids)).status is NOT_FOUND
        assert broker.transactions.rollback(request._replace(message_ids=ids)).status is NOT_FOUND
    assert broker.records(OP_TOPIC) == []
    broker.commit(request._replace(message_ids=("id-0", "id-1")))

    broker.commit(broker.prepare("two")._replace(message_ids=("id-0",)))  # it has no unique id to compare
    request = broker.prepare("three", UNIQ_KEY="id-3")
    half = broker.store.look_message_by_offset(request.commit_log_offset)
    broker.commit(request._replace(message_ids=(encode_message_id(half.store_host, half.physical_offset),)))


def test_a_half_message_without_a_producer_group_cannot_be_decided(broker: Any) -> None:
    append = broker.transactions.prepare(Message.create("Orders", b"")).append
    request = EndTransaction("", append.queue_offset, append.wrote_offset)
    assert broker.transactions.commit(request).status is EndTransactionStatus.PRODUCER_GROUP_WRONG


def test_a_second_decision_is_refused_before_and_after_the_check_has_passed_the_first(broker: Any) -> None:
    request = broker.prepare("one")
    broker.commit(request)
    broker.settle()  # afterwards the op is visible
    assert broker.transactions.rollback(request).status is ALREADY_DECIDED
    assert broker.transactions.commit(request).status is ALREADY_DECIDED
    assert broker.visible() == ["one"]
    assert broker.check() == []
    assert broker.transactions.commit(request).status is ALREADY_DECIDED
    assert broker.visible() == ["one"]


def test_a_decision_during_another_decision_is_refused(broker: Any) -> None:
    request, put, found = broker.prepare("one"), broker.store.put_message, []

    def put_message(message: Message) -> PutMessageResult:
        found.append(broker.transactions.rollback(request).status)
        return put(message)

    broker.store.put_message = put_message
    broker.commit(request)
    assert set(found) == {ALREADY_DECIDED}
    assert broker.visible() == ["one"]


def test_a_failed_commit_leaves_the_transaction_undecided(broker: Any) -> None:
    request = broker.prepare("one")
    refuse_puts(broker.store, "Orders")
    result = broker.transactions.commit(request)
    assert result.status is EndTransactionStatus.PUT_FAILED
    assert result.put.status is PutMessageStatus.OS_PAGECACHE_BUSY
    assert broker.records(OP_TOPIC) == []
    broker.commit(request)
    assert broker.visible() == ["one"]


def test_a_commit_whose_put_raises_leaves_the_transaction_undecided(broker: Any) -> None:
    request, put = broker.prepare("one"), broker.store.put_message

    def put_message(message: Message) -> PutMessageResult:
        raise OSError("no more")

    broker.store.put_message = put_message
    with pytest.raises(OSError, match="no more"):
        broker.transactions.commit(request)
    result = broker.transactions.rollback(request)
    assert (result.status, result.op_is_stored) == (DECIDED, False)
    broker.store.put_message = put
    assert broker.check() == []
    assert [op.body for op in broker.records(OP_TOPIC)] == [b"0"]


def test_the_next_check_stores_a_missing_op_message(broker: Any) -> None:
    request = broker.prepare("one")
    refuse_puts(broker.store, OP_TOPIC, times=2)
    result = broker.transactions.commit(request)
    assert (result.status, result.op_is_stored) == (DECIDED, False)
    assert broker.check() == []  # the put of the op was refused twice
    assert broker.transactions.rollback(request).status is ALREADY_DECIDED
    assert broker.records(OP_TOPIC) == []
    assert broker.check() == []
    assert [op.body for op in broker.records(OP_TOPIC)] == [b"0"]
    assert broker.check() == []
    assert broker.visible() == ["one"]


def test_a_half_message_without_its_target_topic_cannot_be_committed(broker: Any) -> None:
    append = broker.store.put_message(Message.create(HALF_TOPIC, b"", properties={"PGROUP": "g"})).append
    result = broker.transactions.commit(EndTransaction("g", append.queue_offset, append.wrote_offset))
    assert (result.status, result.put) == (EndTransactionStatus.PUT_FAILED, None)


@pytest.mark.parametrize(
    ("message", "status"),
    [
        (Message("Ord\x02ers"), PutMessageStatus.MESSAGE_ILLEGAL),
        (Message("../etc"), PutMessageStatus.MESSAGE_ILLEGAL),
        (Message("T" * 128), PutMessageStatus.MESSAGE_ILLEGAL),
        (Message("T", queue_id=-1), PutMessageStatus.MESSAGE_ILLEGAL),
        (Message("T", bytes(16_384 - 8 - 91 - len(HALF_TOPIC) - 43)), PutMessageStatus.MESSAGE_ILLEGAL),
        (Message("T", properties="K\x01" + "v" * 32_700), PutMessageStatus.PROPERTIES_SIZE_EXCEEDED),
    ],
)
def test_a_message_too_long_to_be_committed_is_not_prepared(
    broker: Any, message: Message, status: PutMessageStatus
) -> None:
    assert broker.transactions.prepare(message) == PutMessageResult(status)
    assert broker.store.max_phy_offset == 0


def test_a_slave_refuses_decisions_and_runs_no_check(lab: Callable[..., Any], live: Live, config: StoreConfig) -> None:
    def body(broker: Any) -> EndTransaction:
        request: EndTransaction = broker.prepare("one")
        broker.stop()
        return request

    bench = lab()
    request = live(body, bench)

    def as_slave(world: World) -> None:
        store = MessageStore(world, replace(config, broker_role=BrokerRole.SLAVE))
        store.load()
        store.start()
        transactions = TransactionalMessageService(world, store, NoOffsets())
        assert transactions.commit(request).status is EndTransactionStatus.SLAVE_NOT_AVAILABLE
        transactions.checker.check_half_messages()
        assert store.shutdown()

    lab(bench.switch_off()).run(as_slave)


class NoOffsets:
    """An offset table that must not be used."""

    def commit_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        raise AssertionError

    def query_offset(self, group: str, topic: str, queue_id: int) -> int:
        raise AssertionError


def test_a_decision_requires_a_readable_store(broker: Any) -> None:
    request = broker.prepare("one")
    broker.stop()
    with pytest.raises(StoreNotReadableError):
        broker.transactions.commit(request)


def test_under_sync_flush_a_half_message_can_be_decided_as_soon_as_it_is_answered(
    world: World, live: Live, config: StoreConfig
) -> None:
    store = MessageStore(world, replace(config, flush_disk_type=FlushDiskType.SYNC_FLUSH))
    store.load()
    store.start()
    transactions = TransactionalMessageService(world, store, NoOffsets())
    append = transactions.prepare(Message.create("Orders", b"", properties={"PGROUP": "g"})).append
    assert append is not None
    result = transactions.commit(EndTransaction("g", append.queue_offset, append.wrote_offset))
    assert (result.status, result.op_is_stored) == (DECIDED, True)
    assert store.shutdown()


class SetClock:
    wall_ms = 0

    def now_ms(self) -> int:
        return self.wall_ms

    def monotonic_ns(self) -> int:
        return self.wall_ms * 1_000_000

    def utc_offset_ms(self) -> int:
        return 0


def without_positions(record: MessageRecord) -> MessageRecord:
    """Return a record without the fields that depend on earlier puts."""
    return replace(record, physical_offset=0, queue_offset=0, store_timestamp_ms=0, prepared_transaction_offset=0)


def test_half_and_committed_messages_have_the_bytes_that_rocketmq_wrote(
    golden: Callable[..., Any], started: Callable[..., MessageStore], tmp_path: Path
) -> None:
    written = golden("06-transaction")
    log = (written.before / "commitlog" / f"{0:020d}").read_bytes()
    theirs = {
        put["result"]["wroteOffset"]: decode_record(
            log, put["result"]["wroteOffset"], file="", file_offset=put["result"]["wroteOffset"]
        )
        for put in written.manifest["puts"]
    }
    halves = [record for record in theirs.values() if record.topic == HALF_TOPIC]
    commits = {r.prepared_transaction_offset: r for r in theirs.values() if "REAL_QID" in r.properties}
    clock = SetClock()
    store = started(written.config(tmp_path / "own"), World(clock, ThreadTasks(), RealFiles()))
    transactions = TransactionalMessageService(store.world, store, NoOffsets())
    committed = 0
    for number, half in enumerate(halves):
        clock.wall_ms = half.store_timestamp_ms
        properties = decode_properties(half.properties)
        del properties["REAL_TOPIC"], properties["REAL_QID"]
        message = Message.create("TxTopic", half.body, queue_id=1, properties=properties)
        message.sys_flag = 4
        message.born_timestamp_ms, message.born_host = half.born_timestamp_ms, half.born_host
        append = transactions.prepare(message).append
        assert append is not None
        assert append.queue_offset == number == half.queue_offset
        ours = store.look_message_by_offset(append.wrote_offset)
        assert ours is not None
        assert without_positions(ours) == without_positions(half)

        commit = commits.get(half.physical_offset)
        if commit is None:
            continue
        committed += 1
        result = transactions.commit(EndTransaction("txpg", append.queue_offset, append.wrote_offset))
        assert result.put is not None
        assert result.put.append is not None
        made = store.look_message_by_offset(result.put.append.wrote_offset)
        assert made is not None
        assert made.prepared_transaction_offset == append.wrote_offset
        # The golden file has the time of the commit as born time. RocketMQ's broker does not store that time.
        assert without_positions(replace(made, born_timestamp_ms=commit.born_timestamp_ms)) == without_positions(commit)
    assert (len(halves), committed) == (5, 2)
