from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.one_life import with_settings
from tornlog.store.config import StoreConfig
from tornlog.store.errors import CorruptFileError
from tornlog.store.formats.consume_queue import ENTRY_BYTES
from tornlog.store.formats.half_message import GIVEN_UP_TOPIC, HALF_TOPIC, OP_TOPIC, EndTransaction
from tornlog.store.formats.message import encode_message_record
from tornlog.store.formats.messages import (
    GetMessageResult,
    GetMessageStatus,
    Message,
    PutMessageResult,
    PutMessageStatus,
)
from tornlog.store.formats.properties import decode_properties
from tornlog.store.message_store import MessageStore
from tornlog.store.services import transaction_check as check_module
from tornlog.store.services.transaction_queues import OpQueue, pull_from
from tornlog.store.services.transaction_service import EndTransactionStatus

Live = Callable[..., Any]

ALREADY_DECIDED = EndTransactionStatus.ALREADY_DECIDED
IMMUNE = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "60"}


def refuse_puts(broker: Any, topic: str, status: PutMessageStatus, times: int) -> list[Message]:
    """Refuse the next puts to a topic. Return the refused messages."""
    refused: list[Message] = []
    put = broker.store.put_message

    def put_message(message: Message) -> PutMessageResult:
        if message.topic == topic and len(refused) < times:
            refused.append(message)
            return PutMessageResult(status)
        result: PutMessageResult = put(message)
        return result

    broker.store.put_message = put_message
    return refused


def test_an_undecided_transaction_is_checked_in_every_pass_until_it_is_decided(broker: Any) -> None:
    broker.prepare("one")
    for times in range(1, 4):
        assert broker.check() == ["one"]
        properties = decode_properties(broker.asked[-1].properties)
        assert properties["TRANSACTION_CHECK_TIMES"] == str(times)
        assert properties["TRAN_PREPARED_QUEUE_OFFSET"] == "0"
    broker.commit(broker.last_asked())
    assert broker.visible() == ["one"]
    assert broker.check() == []
    assert broker.check() == []


def test_the_check_callback_receives_the_record_that_was_put_back(broker: Any) -> None:
    broker.prepare("one")
    broker.check()
    _, again = broker.records(HALF_TOPIC)
    asked = replace(broker.asked[0], magic=again.magic, body_crc=again.body_crc)
    assert asked == again
    assert encode_message_record(asked) == encode_message_record(again)


def test_decided_transactions_are_not_checked(broker: Any) -> None:
    one, two, _ = (broker.prepare(name) for name in ("one", "two", "three"))
    broker.commit(one)
    broker.rollback(two)
    assert broker.check() == ["three"]
    assert broker.visible() == ["one"]


def test_a_half_message_younger_than_the_timeout_ends_the_pass(broker: Any) -> None:
    broker.prepare("old")
    broker.world.tasks.sleep(7_000)
    broker.prepare("young")
    assert broker.check(after_ms=0) == ["old"]
    assert broker.check(after_ms=6_000) == ["young", "old"]


def test_a_timeout_that_expires_during_a_verdict_skips_no_half_message(broker: Any) -> None:
    broker.prepare("one", **IMMUNE)
    born_ms = broker.records(HALF_TOPIC)[0].born_timestamp_ms
    checker, clock = broker.transactions.checker, broker.world.clock
    readings = [born_ms + 59_999]

    class Jumping:
        """A clock that passes the limit after its first reading."""

        monotonic_ns = staticmethod(clock.monotonic_ns)

        def now_ms(self) -> int:
            return readings.pop() if readings else born_ms + 60_000

    checker.world = replace(broker.world, clock=Jumping())
    assert broker.check() == []
    assert readings == []
    assert len(broker.records(HALF_TOPIC)) == 2
    assert broker.check() == ["one"]


def test_an_immune_half_message_is_put_back_without_a_check(broker: Any) -> None:
    broker.prepare("immune", **IMMUNE)
    broker.prepare("other")
    assert broker.check() == ["other"]
    immune = broker.records(HALF_TOPIC)[2]
    properties = decode_properties(immune.properties)
    assert properties["TRAN_PREPARED_QUEUE_OFFSET"] == "0"
    assert "TRANSACTION_CHECK_TIMES" not in properties
    assert broker.check(after_ms=60_000) == ["immune", "other"]


@with_settings(transaction_check_max=2)
def test_a_put_back_during_immunity_does_not_count_as_a_check(broker: Any) -> None:
    broker.prepare("immune", **IMMUNE)
    for _ in range(5):
        assert broker.check() == []
    assert broker.check() == ["immune"]


@pytest.mark.parametrize("decide", ["commit", "rollback"])
def test_a_decision_on_the_first_record_also_decides_its_copy(broker: Any, decide: str) -> None:
    first = broker.prepare("one", **IMMUNE)
    assert broker.check() == []
    getattr(broker, decide)(first)
    for _ in range(8):
        assert broker.check() == []
    assert broker.visible() == (["one"] if decide == "commit" else [])


def test_a_decision_on_an_earlier_check_also_decides_later_copies(broker: Any) -> None:
    broker.prepare("one")
    assert broker.check() == ["one"]
    earlier = broker.last_asked()
    assert broker.check() == ["one"]
    broker.commit(earlier)
    assert [op.body for op in broker.records(OP_TOPIC)] == [b"1", b"0"]
    assert broker.check() == []
    assert broker.visible() == ["one"]


def test_only_one_of_two_concurrent_decisions_counts(broker: Any) -> None:
    first = broker.prepare("one")
    assert broker.check() == ["one"]
    broker.commit(first)
    broker.settle()
    broker.prepare("next")  # its decision removes decisions with visible ops
    broker.commit(broker.prepare("another"))
    assert broker.transactions.commit(broker.last_asked()).status is ALREADY_DECIDED
    assert broker.visible() == ["one", "another"]


def test_a_decision_made_inside_the_check_callback_counts(broker: Any) -> None:
    def answer(record: Any) -> None:
        broker.asked.append(record)
        broker.commit(broker.last_asked())

    broker.transactions.on_check = answer
    broker.prepare("one")
    assert broker.transactions.on_check is answer
    assert broker.check() == ["one"]
    assert broker.check() == []
    assert broker.visible() == ["one"]


def test_an_exception_of_the_check_callback_does_not_end_the_pass(broker: Any) -> None:
    def fail(record: Any) -> None:
        broker.asked.append(record)
        raise ValueError("no connection")

    broker.transactions.on_check = fail
    broker.prepare("one")
    broker.prepare("two")
    assert broker.check() == ["one", "two"]
    assert str(broker.transactions.checker.last_error) == "no connection"
    assert broker.check() == ["one", "two"]


@with_settings(transaction_check_max=2)
def test_a_half_message_is_given_up_after_too_many_checks(broker: Any) -> None:
    broker.prepare("one")
    assert [broker.check() for _ in range(4)] == [["one"], ["one"], [], []]
    (record,) = broker.records(GIVEN_UP_TOPIC)
    assert (record.body, decode_properties(record.properties)["TRANSACTION_CHECK_TIMES"]) == (b"one", "2")
    assert broker.visible() == []
    assert broker.transactions.checker._decisions._put_back == {}


def prepare_and_give_up(broker: Any, name: str = "one") -> Any:
    """Prepare a message and check it until it is given up. Return its half message and the given-up record."""
    request = broker.prepare(name)
    while broker.check():
        pass
    return request, broker.records(GIVEN_UP_TOPIC)[-1]


def resume(broker: Any, record: Any) -> Any:
    return broker.transactions.resume(record.physical_offset)


@with_settings(transaction_check_max=2)
def test_a_resumed_half_message_is_checked_the_full_number_of_times_again(broker: Any) -> None:
    _, record = prepare_and_give_up(broker)
    assert resume(broker, record) is None
    assert [broker.check() for _ in range(3)] == [["one"], ["one"], []]
    first, again = broker.records(GIVEN_UP_TOPIC)
    assert first.properties == again.properties
    assert resume(broker, again) is None
    assert broker.check() == ["one"]
    broker.commit(broker.last_asked())
    assert [broker.check() for _ in range(2)] == [[], []]
    assert broker.visible() == ["one"]
    assert broker.transactions.checker._decisions._put_back == {}


@with_settings(transaction_check_max=1)
def test_a_resumed_half_message_can_be_decided_only_once(broker: Any) -> None:
    request, record = prepare_and_give_up(broker)
    assert resume(broker, record) is None
    broker.commit(request)
    assert broker.check() == []
    assert broker.transactions.commit(request).status is ALREADY_DECIDED
    assert broker.visible() == ["one"]


@with_settings(transaction_check_max=1)
def test_only_an_undecided_given_up_half_message_can_be_resumed(broker: Any) -> None:
    request, record = prepare_and_give_up(broker)
    halves = broker.records(HALF_TOPIC)
    assert GIVEN_UP_TOPIC in resume(broker, halves[0])
    assert resume(broker, record) is None
    assert "still active" in resume(broker, record)
    broker.commit(request)
    for _ in range(2):
        assert "decided" in resume(broker, record)
        assert broker.check() == []
    _, other = prepare_and_give_up(broker, "two")
    refuse_puts(broker, HALF_TOPIC, PutMessageStatus.OS_PAGECACHE_BUSY, times=1)
    assert "could not be stored" in resume(broker, other)
    assert resume(broker, other) is None
    assert broker.check() == ["two"]


def test_a_half_message_given_up_in_an_earlier_life_can_be_resumed(lab: Any, live: Live) -> None:
    def given(broker: Any) -> None:
        prepare_and_give_up(broker)
        broker.flush()
        broker.check()
        broker.offsets.persist()
        broker.stop()

    def body(broker: Any) -> None:
        (record,) = broker.records(GIVEN_UP_TOPIC)
        assert broker.check() == []
        assert resume(broker, record) is None
        assert broker.check() == ["one"]
        broker.commit(broker.last_asked())
        assert broker.visible() == ["one"]

    bench = lab()
    live(given, bench, transaction_check_max=1)
    live(body, lab(bench.switch_off()), transaction_check_max=1)


def test_an_expired_half_message_is_given_up(broker: Any) -> None:
    message = Message.create("Orders", b"ancient", properties={"PGROUP": "g"})  # born in 1970
    broker.transactions.prepare(message)
    assert broker.check() == []
    assert broker.visible(GIVEN_UP_TOPIC, 0) == ["ancient"]


@pytest.mark.parametrize("topic", [HALF_TOPIC, GIVEN_UP_TOPIC])
@with_settings(transaction_check_max=1)
def test_a_temporarily_refused_put_of_the_check_is_retried(broker: Any, topic: str) -> None:
    broker.prepare("one")
    broker.prepare("two")
    if topic == GIVEN_UP_TOPIC:
        assert broker.check() == ["one", "two"]
    refuse_puts(broker, topic, PutMessageStatus.OS_PAGECACHE_BUSY, times=1)
    assert broker.check() == []
    found = broker.check()
    if topic == GIVEN_UP_TOPIC:
        assert (found, broker.visible(topic, 0)) == ([], ["one", "two"])
    else:
        assert found == ["one", "two"]


def test_a_half_message_of_maximum_size_is_put_back_unchanged(broker: Any) -> None:
    full = {"PGROUP": "g", "REAL_TOPIC": "Orders", "REAL_QID": "1", "X": "x"}
    message = Message.create(HALF_TOPIC, b"full", properties=full)
    message.body = bytes(16_384 - 8 - 91 - len(HALF_TOPIC) - len(message.properties))
    message.born_timestamp_ms = broker.world.clock.now_ms()
    broker.store.put_message(message)
    broker.check()
    broker.check()
    first, *others = broker.records(HALF_TOPIC)
    assert [decode_properties(other.properties) for other in others] == [full, full]
    assert len(first.body) == len(others[0].body)
    assert broker.asked


@with_settings(transaction_check_max=0)
def test_a_half_message_that_cannot_be_stored_when_given_up_is_skipped(broker: Any) -> None:
    broker.prepare("one")
    broker.prepare("two")
    refuse_puts(broker, GIVEN_UP_TOPIC, PutMessageStatus.MESSAGE_ILLEGAL, times=1)
    assert broker.check() == []
    assert broker.visible(GIVEN_UP_TOPIC, 0) == ["two"]


def test_a_half_message_that_cannot_be_put_back_is_given_up(broker: Any) -> None:
    broker.prepare("one")
    broker.prepare("two")
    refuse_puts(
        broker, HALF_TOPIC, PutMessageStatus.MESSAGE_ILLEGAL, times=2
    )  # the unchanged half message is also too long, because the limits are lower
    assert broker.check() == ["two"]
    assert broker.visible(GIVEN_UP_TOPIC, 0) == ["one"]


def test_a_half_message_above_a_reduced_size_limit_waits_for_the_next_raise(broker: Any) -> None:
    broker.prepare("long")
    encoder = broker.store.commit_log.encoder
    full = broker.store.config
    broker.store.config = encoder._config = replace(full, max_message_size=3)
    assert broker.check() == broker.check() == []
    assert broker.visible(GIVEN_UP_TOPIC, 0) == []

    broker.store.config = encoder._config = full
    assert broker.check() == ["long"]


def test_an_empty_or_consumed_op_queue_does_not_change_the_progress(broker: Any) -> None:
    for name in ("one", "two"):
        broker.commit(broker.prepare(name))
        for _ in range(3):
            assert broker.check() == []
            broker.flush()
    assert broker.check() == []
    assert broker.progress() == (2, 2)
    assert broker.visible() == ["one", "two"]


def test_no_check_progress_is_published_for_unused_queues(broker: Any) -> None:
    broker.check()
    assert broker.progress() == (-1, -1)


def test_check_progress_is_published_only_after_its_log_is_durable(broker: Any) -> None:
    broker.store.flush.shutdown()  # only this test flushes
    broker.commit(broker.prepare("one"))
    broker.prepare("two")
    assert broker.check() == ["two"]
    assert broker.check() == ["two"]
    assert broker.progress() == (-1, -1)
    broker.flush()
    broker.transactions.checker.finish_remaining_work()
    assert broker.progress() == (3, 1)


POOLED = StoreConfig(
    "/store",
    mapped_file_size_commit_log=16_384,
    mapped_file_size_consume_queue=200,
    transient_store_pool_enable=True,
    transient_store_pool_size=2,
)


@pytest.mark.parametrize("config", [POOLED])
def test_with_a_transient_pool_check_progress_is_published_after_its_buffers_are_durable(broker: Any) -> None:
    broker.store.flush.shutdown()  # only this test flushes
    broker.prepare("one")
    broker.world.tasks.sleep(7_000)
    broker.settle()
    broker.flush()
    broker.store.commit.shutdown()  # and the pool is not committed
    broker.transactions.checker.check_half_messages()
    assert broker.store.log.flushed_where.get() == broker.store.max_phy_offset, "all that is in the files"
    assert broker.progress() == (-1, -1)
    broker.store.log.commit()
    broker.flush()
    broker.transactions.checker.finish_remaining_work()
    assert broker.progress() == (1, -1)


@pytest.mark.parametrize("config", [POOLED])
def test_with_a_transient_pool_checks_wait_until_the_record_is_readable(broker: Any) -> None:
    readable: list[int] = []

    def answer(record: Any) -> None:
        broker.asked.append(record)
        readable.append(broker.store.max_phy_offset - record.physical_offset - record.size_bytes)
        broker.commit(broker.last_asked())

    broker.transactions.on_check = answer
    broker.prepare("one")
    broker.prepare("two")
    broker.world.tasks.sleep(7_000)  # until both messages can be pulled
    assert broker.check() == ["one", "two"]
    assert min(readable) >= 0
    broker.world.tasks.sleep(1_000)
    assert broker.visible() == ["one", "two"]


@pytest.mark.parametrize("config", [POOLED])
def test_a_check_pass_waits_a_limited_time_for_a_buffer(broker: Any) -> None:
    broker.prepare("one")
    broker.world.tasks.sleep(7_000)
    broker.store.commit.shutdown()
    began_ms = broker.world.clock.now_ms()
    broker.transactions.checker.check_half_messages()
    assert [record.body for record in broker.asked] == [b"one"]
    assert broker.world.clock.now_ms() - began_ms == pytest.approx(5_000, abs=100)


def test_an_op_message_is_kept_while_its_half_message_may_be_checked_again(broker: Any) -> None:
    broker.prepare("filler")
    first = broker.prepare("one", **IMMUNE)
    broker.commit(EndTransaction("sellers", 0, 0))
    assert broker.check() == []  # the newest copy of "one" is now at offset 2
    broker.commit(first)
    broker.flush()
    broker.transactions.checker._ops.read()
    broker.transactions.checker._ops.forget_settled(broker.transactions.checker._is_settled)
    assert broker.transactions.checker._ops.first_needed_offset == 1
    assert broker.check() == []
    broker.flush()
    broker.check()
    assert broker.progress() == (3, 2)


def test_op_messages_without_a_half_message_are_skipped(broker: Any) -> None:
    for text, tags in ((b"x", "d"), (b"", "d"), (b"0", "e"), (b"99", "d"), (b"\xff", "d")):
        broker.store.put_message(Message.create(OP_TOPIC, text, tags=tags))
    broker.prepare("one")
    assert broker.check() == ["one"]
    broker.flush()
    broker.check()
    assert broker.progress()[1] == 5


def test_a_half_message_that_expires_during_a_check_pass_is_skipped(
    broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.prepare("one")
    broker.prepare("two")
    two = broker.records(HALF_TOPIC)[1]
    monkeypatch.setattr(MessageStore, "min_phy_offset", two.physical_offset)
    assert broker.check() == ["two"]
    assert broker.check() == ["two"]


def test_an_op_message_of_rocketmq_5_decides_several_half_messages(broker: Any) -> None:
    for name in ("one", "two", "three"):
        broker.prepare(name)
    broker.store.put_message(Message.create(OP_TOPIC, b"0,2", tags="d"))
    assert broker.check() == ["two"]


def test_a_decision_whose_op_message_is_not_visible_ends_the_check_pass(broker: Any) -> None:
    request = broker.prepare("one")
    broker.prepare("two")
    broker.world.tasks.sleep(10_000)
    dispatch, broker.store.dispatch.dispatch_available = (broker.store.dispatch.dispatch_available, lambda: False)
    broker.commit(request)
    broker.transactions.checker.check_half_messages()
    assert broker.asked == []
    broker.store.dispatch.dispatch_available = dispatch
    broker.store.dispatch.wake()
    assert broker.check() == ["two"]


def test_a_decision_made_during_a_check_pass_counts(broker: Any) -> None:
    broker.prepare("one")
    second = broker.prepare("two")

    def answer(record: Any) -> None:
        broker.asked.append(record)
        broker.rollback(second)
        broker.settle()

    broker.transactions.on_check = answer
    assert broker.check() == ["one"]


def test_a_check_pass_ends_after_a_minute_and_the_next_continues(broker: Any) -> None:
    broker.transactions.on_check = lambda record: (broker.asked.append(record), broker.world.tasks.sleep(40_000))
    for name in ("one", "two", "three"):
        broker.prepare(name)
    assert broker.check() == ["one", "two"]
    assert broker.check() == ["three", "one"]


def test_corrupt_half_messages_are_skipped_by_the_check(broker: Any) -> None:
    broker.prepare("one")
    broker.prepare("two")
    get = broker.store.get_message

    def damaged(*arguments: Any) -> GetMessageResult:
        result: GetMessageResult = get(*arguments)
        if arguments[0] == HALF_TOPIC:
            result.records = [raw.replace(b"one", b"eno") for raw in result.records]
        return result

    broker.store.get_message = damaged
    assert broker.check() == ["two"]


@pytest.mark.parametrize(
    ("status", "following", "expected"),
    [
        (GetMessageStatus.MESSAGE_WAS_REMOVING, 3, [(2, False), (3, True)]),
        (GetMessageStatus.OFFSET_FOUND_NULL, 3, [(2, False), (3, True)]),
        (GetMessageStatus.NO_MATCHED_MESSAGE, 2, [(1, False), (2, True), (3, True)]),
        (GetMessageStatus.OFFSET_TOO_SMALL, 2, [(1, False), (2, True), (3, True)]),
        (GetMessageStatus.OFFSET_OVERFLOW_ONE, 0, []),
        (GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0, []),
        (GetMessageStatus.OFFSET_OVERFLOW_BADLY, 0, []),
    ],
)
def test_every_status_of_a_pull_advances_or_ends_the_iteration(
    broker: Any, status: GetMessageStatus, following: int, expected: list[tuple[int, bool]]
) -> None:
    for number in range(4):
        broker.store.put_message(Message.create(HALF_TOPIC, b"%d" % number))
    broker.settle()
    get, answers = broker.store.get_message, [GetMessageResult(status, following, 0, 4)]

    def answer(*arguments: Any) -> Any:
        return answers.pop() if answers else get(*arguments)

    broker.store.get_message = answer
    found = list(pull_from(broker.store, HALF_TOPIC, 0, 4))
    assert [(pulled.offset, pulled.record is not None) for pulled in found] == expected


@pytest.mark.parametrize("skipped", [1, 5])
def test_a_check_pass_asks_once_about_messages_around_skipped_queue_offsets(broker: Any, skipped: int) -> None:
    one = broker.prepare("one")
    broker.store.queues.find(HALF_TOPIC, 0).append_entries(bytes(ENTRY_BYTES) * skipped)
    broker.store.commit_log.topic_queue_table[HALF_TOPIC, 0] = end = 1 + skipped
    assert [at.offset for at in pull_from(broker.store, HALF_TOPIC, 0, end)] == [0, end - 1]
    two = broker.prepare("two")
    assert (one.tran_state_table_offset, two.tran_state_table_offset) == (0, end)
    assert [at.offset for at in pull_from(broker.store, HALF_TOPIC, 0, end)] == [0, end - 1]
    assert broker.check() == ["one", "two"]
    assert broker.check() == ["one", "two"]


def test_check_progress_is_reset_if_its_queues_are_new(broker: Any) -> None:
    broker.offsets.commit_offset(check_module.CHECK_GROUP, HALF_TOPIC, 0, 50)
    broker.offsets.commit_offset(check_module.CHECK_GROUP, OP_TOPIC, 0, 50)
    assert broker.check() == []
    broker.prepare("one")
    broker.commit(broker.prepare("two"))
    assert broker.check() == ["one"]


def test_a_truncated_op_queue_is_read_from_its_start(broker: Any) -> None:
    broker.store.put_message(Message.create(OP_TOPIC, b"3", tags="d"))
    broker.settle()
    ops = OpQueue(broker.store, 20)
    ops.read()
    assert ops.first_needed_offset == 0


@with_settings(transaction_check_interval_ms=10_000)
def test_an_error_in_a_check_pass_does_not_end_the_service(broker: Any) -> None:
    broker.prepare("one")
    get = broker.store.get_message

    def fail(*arguments: Any) -> Any:
        raise CorruptFileError("commitlog", 0, "x", "y", "z")

    broker.store.get_message = fail
    broker.transactions.start()
    broker.world.tasks.sleep(15_000)
    assert isinstance(broker.transactions.checker.last_error, CorruptFileError)
    broker.store.get_message = get
    broker.world.tasks.sleep(10_000)
    assert [record.body for record in broker.asked] == [b"one"]
    broker.stop()


def test_the_transaction_check_runs_in_every_interval_until_its_shutdown(broker: Any) -> None:
    broker.transactions.start()
    broker.prepare("one")
    broker.world.tasks.sleep(181_000)
    assert len(broker.asked) == 3
    broker.stop()
    assert len(broker.asked) == 3


@pytest.mark.parametrize("pool", [False, True])
def test_a_clean_stop_persists_the_progress_of_the_last_check_pass(lab: Any, config: StoreConfig, pool: bool) -> None:
    from .conftest import Broker

    settings: dict[str, Any] = {"transient_store_pool_enable": pool, "transient_store_pool_size": 2}
    patient = replace(config, flush_interval_commit_log_ms=60_000, **settings)

    def first(world: Any) -> None:
        broker = Broker(world, patient)
        for name in ("one", "two"):
            broker.prepare(name)
        assert broker.check() == ["one", "two"]
        broker.transactions.start()
        broker.offsets.start()
        broker.stop()

    def second(world: Any) -> None:
        broker = Broker(world, patient, transaction_check_max=2)
        assert broker.check() == ["one", "two"], "each is asked about once in a pass"
        assert [decode_properties(one.properties)["TRANSACTION_CHECK_TIMES"] for one in broker.asked] == ["2", "2"]
        assert broker.check() == []
        assert len(broker.records(GIVEN_UP_TOPIC)) == 2
        broker.stop()

    bench = lab()
    bench.run(first)
    lab(bench.switch_off()).run(second)
