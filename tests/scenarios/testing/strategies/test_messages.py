"""Drawn messages: stored unchanged within every limit, refused beyond one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings

from tornlog.faults.disk.disk import Disk
from tornlog.faults.plan import enabled_kinds
from tornlog.scenarios.claims.machine import world_of
from tornlog.scenarios.testing.strategies import batches, fault_plans, messages, messages_out_of_bounds, topics
from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.replay import ReplayPolicy
from tornlog.store.config import StoreConfig
from tornlog.store.formats.message import MAX_TOPIC_BYTES
from tornlog.store.formats.messages import Message, MessageBatch, PutMessageStatus
from tornlog.store.message_store import MessageStore

QUICK = settings(database=None, derandomize=True, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
Use = Callable[[Callable[[MessageStore], None]], None]


@pytest.fixture(scope="module")
def use() -> Use:
    """Return a function that calls another one with a new simulated store."""

    @contextmanager
    def kernel() -> Iterator[Kernel]:
        with Kernel(ReplayPolicy()) as made:
            yield made

    def use(body: Callable[[MessageStore], None]) -> None:
        with kernel() as world:
            machine = world.create_machine("m")
            config = StoreConfig("/store", mapped_file_size_commit_log=65536, message_index_enable=False)
            store = MessageStore(world_of(machine, Disk(world, Choices("").stream("disk"))), config)

            def main() -> None:
                store.load()
                store.start()
                body(store)
                assert store.shutdown()

            world.run(machine, main, time_limit_ns=10**12)

    return use


def test_a_message_within_the_limits_is_stored_unchanged(use: Use) -> None:
    @QUICK
    @given(message=messages())
    def check(message: Message) -> None:
        def put(store: MessageStore) -> None:
            result = store.put_message(message)
            assert result.status is PutMessageStatus.PUT_OK
            assert result.append is not None
            found = store.look_message_by_offset(result.append.wrote_offset)
            assert found is not None
            assert (found.topic, found.queue_id, found.body) == (message.topic, message.queue_id, message.body)
            assert found.properties == message.properties

        use(put)

    check()


def test_a_message_beyond_a_limit_is_refused(use: Use) -> None:
    @QUICK
    @given(message=messages_out_of_bounds())
    def check(message: Message) -> None:
        def put(store: MessageStore) -> None:
            status = store.put_message(message).status
            assert status in (PutMessageStatus.MESSAGE_ILLEGAL, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED)
            assert store.max_phy_offset == 0

        use(put)

    check()


def test_a_batch_is_stored_message_by_message(use: Use) -> None:
    @QUICK
    @given(batch=batches())
    def check(batch: MessageBatch) -> None:
        def put(store: MessageStore) -> None:
            result = store.put_messages(batch)
            assert result.status is PutMessageStatus.PUT_OK
            assert result.append is not None
            assert 1 <= result.append.message_count <= 4

        use(put)

    check()


def test_generated_topics_reach_the_maximum_length() -> None:
    longest = find(topics(), lambda topic: len(topic.encode()) == MAX_TOPIC_BYTES, settings=QUICK)

    assert longest == "t" * MAX_TOPIC_BYTES


@pytest.mark.ci
def test_the_simplest_fault_plan_has_no_faults_and_each_fault_can_be_drawn() -> None:
    plainest = find(fault_plans(), lambda plan: True, settings=QUICK)
    sparse = find(fault_plans(), lambda plan: plan.sparse, settings=settings(QUICK, phases=[Phase.generate]))

    assert list(enabled_kinds(plainest)) == []
    assert "SIGBUS on full disk" in enabled_kinds(sparse)
