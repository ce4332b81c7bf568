import pytest

from tests.store.rigs import Make, started
from tornlog.store.config import FlushDiskType
from tornlog.store.formats.batch import BatchUnit, encode_batch
from tornlog.store.formats.messages import Message, MessageBatch, PutMessageResult, PutMessageStatus
from tornlog.store.message_store import MessageStore
from tornlog.store.world import World


@pytest.mark.parametrize("flush", FlushDiskType)
@pytest.mark.parametrize("after_ms", [0, 1, 5, 20])
def test_a_stop_during_puts_keeps_every_stored_message_and_refuses_later_puts(
    after_ms: int, flush: FlushDiskType, lab: Make, small: Make
) -> None:
    bench = lab()
    results: list[PutMessageResult] = []

    def body(world: World) -> None:
        store = started(world, small(flush_disk_type=flush))

        def produce() -> None:
            while True:
                result = store.put_message(Message.create("T", bytes(100)))
                results.append(result)
                if result.status is PutMessageStatus.SERVICE_NOT_AVAILABLE:
                    return
                world.tasks.sleep(1)

        producers = [world.tasks.spawn(f"producer-{number}", produce) for number in range(3)]
        world.tasks.sleep(after_ms)
        assert store.shutdown()
        for producer in producers:
            producer.join(None)

    bench.run(body)
    stored = [result.append for result in results if result.append is not None]
    assert {result.status for result in results} <= {PutMessageStatus.PUT_OK, PutMessageStatus.SERVICE_NOT_AVAILABLE}

    def again(world: World) -> None:
        store = MessageStore(world, small())
        report = store.load()
        assert report.clean_exit
        assert report.records == len(stored)
        assert sorted(append.queue_offset for append in stored) == list(range(len(stored)))
        for append in stored:
            record = store.look_message_by_offset(append.wrote_offset)
            assert record is not None
            assert record.queue_offset == append.queue_offset

    lab(bench.switch_off()).run(again)


def test_a_put_that_gets_the_put_lock_after_a_stop_is_refused(world: World, small: Make) -> None:
    store = started(world, small())
    store.put_message(Message.create("T", b"one"))
    store.commit_log.close()
    refused = store.put_message(Message.create("T", b"two"))

    assert refused == PutMessageResult(PutMessageStatus.SERVICE_NOT_AVAILABLE)
    assert store.shutdown()


def test_a_batch_is_stored_in_one_segment_with_consecutive_queue_offsets(world: World, small: Make) -> None:
    store = started(world, small())
    store.put_message(Message.create("T", bytes(500)))
    units = encode_batch(BatchUnit(0, bytes(200), b"") for _ in range(3))
    append = store.put_messages(MessageBatch(Message("T"), units)).append
    assert append is not None

    assert (append.wrote_offset, append.queue_offset, append.message_count) == (1024, 1, 3)
    for number, start in enumerate(append.record_starts):
        record = store.look_message_by_offset(append.wrote_offset + start)
        assert record is not None
        assert record.queue_offset == 1 + number
    assert store.look_message_by_offset(append.wrote_offset + 1) is None
    too_large = encode_batch(BatchUnit(0, bytes(200), b"") for _ in range(4))
    refused = store.put_messages(MessageBatch(Message("T"), too_large))
    assert refused.status is PutMessageStatus.MESSAGE_ILLEGAL


def test_eight_bytes_left_in_a_segment_become_a_blank_record(world: World, small: Make) -> None:
    store = started(world, small())
    record_bytes = store.config.mapped_file_size_commit_log - 8
    first = store.put_message(Message.create("T", bytes(record_bytes - 91 - len("T")))).append
    second = store.put_message(Message.create("T", b"")).append

    assert first is not None
    assert second is not None
    assert (first.wrote_bytes, second.wrote_offset) == (record_bytes, record_bytes + 8)
    assert bytes(store.log.segments[0].file.view(record_bytes, record_bytes + 8)).hex() == "00000008cbd43194"
    assert store.shutdown()
