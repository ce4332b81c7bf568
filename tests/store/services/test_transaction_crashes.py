"""Crashes of a broker: commits survive, rollbacks stay invisible, undecided messages are asked about again."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from tornlog.faults.crashes.profiles import PROFILES
from tornlog.faults.disk.image import Image
from tornlog.sim.errors import MachineDied
from tornlog.store.config import FlushDiskType
from tornlog.store.formats.half_message import HALF_TOPIC, OP_TOPIC, EndTransaction, HalfMessage
from tornlog.store.formats.message import MessageRecord
from tornlog.store.formats.messages import Message, PutMessageResult
from tornlog.store.services.transaction_service import EndTransactionStatus

Make = Callable[..., Any]
Live = Callable[..., Any]

DAY_MS = 86_400_000


def run_and_kill(lab: Make, live: Live, body: Callable[[Any], Any]) -> tuple[Image, Any]:
    """Run a life that ends in a kill while the broker is idle. Return its disk image and the body's result."""
    bench = lab()
    value = live(body, bench)
    return bench.switch_off(abruptly=True), value


def run_later_life(lab: Make, image: Image) -> Any:
    """Return a machine with this disk, whose clock is some minutes later."""
    bench = lab(image)
    bench.machine.wall_offset_ms = 600_000
    return bench


def test_after_a_kill_before_the_commit_the_producer_or_the_check_can_decide(lab: Make, live: Live) -> None:
    def first(broker: Any) -> EndTransaction:
        broker.prepare("forgotten")
        request: EndTransaction = broker.prepare("one")
        return request

    image, request = run_and_kill(lab, live, first)

    def second(broker: Any) -> None:
        broker.commit(request)  # with the position from before the crash
        assert broker.visible() == ["one"]
        assert broker.check() == ["forgotten"]
        broker.rollback(broker.last_asked())
        assert broker.check() == []
        assert broker.visible() == ["one"]

    live(second, run_later_life(lab, image))


def test_after_a_kill_between_commit_and_op_message_the_check_commits_a_second_copy(lab: Make, live: Live) -> None:
    def first(broker: Any) -> None:
        put, request = broker.store.put_message, broker.prepare("one")

        def put_message(message: Message) -> PutMessageResult:
            if message.topic == OP_TOPIC:
                raise OSError("the crash comes first")
            result: PutMessageResult = put(message)
            return result

        broker.store.put_message = put_message
        assert not broker.transactions.commit(request).op_is_stored

    image, _ = run_and_kill(lab, live, first)

    def second(broker: Any) -> None:
        assert broker.visible() == ["one"]
        assert broker.check() == ["one"]
        broker.commit(broker.last_asked())
        assert broker.visible() == ["one", "one"]
        assert broker.check() == []

    live(second, run_later_life(lab, image))


@pytest.mark.parametrize("decide", ["commit", "rollback"])
def test_after_a_kill_following_the_op_message_no_check_is_sent(lab: Make, live: Live, decide: str) -> None:
    image, _ = run_and_kill(lab, live, lambda broker: getattr(broker, decide)(broker.prepare("one")))

    def second(broker: Any) -> None:
        assert broker.check() == []
        assert broker.visible() == (["one"] if decide == "commit" else [])

    live(second, run_later_life(lab, image))


def test_after_a_kill_before_check_progress_is_persisted_one_decision_ends_both_records(lab: Make, live: Live) -> None:
    def first(broker: Any) -> None:
        broker.prepare("one")
        assert broker.check() == ["one"]

    image, _ = run_and_kill(lab, live, first)

    def second(broker: Any) -> None:
        assert broker.progress() == (-1, -1)
        assert broker.check() == ["one", "one"]  # the message has two records, and both were put back
        broker.commit(broker.last_asked())
        other = HalfMessage.from_record(broker.asked[0]).request
        assert broker.transactions.commit(other).status is EndTransactionStatus.ALREADY_DECIDED
        assert broker.check() == []
        assert broker.visible() == ["one"]

    live(second, run_later_life(lab, image))


def test_after_a_kill_the_check_continues_at_its_persisted_progress(lab: Make, live: Live) -> None:
    def first(broker: Any) -> None:
        broker.commit(broker.prepare("one"))
        broker.prepare("two")
        assert broker.check() == ["two"]
        broker.flush()
        broker.transactions.checker.finish_remaining_work()
        broker.offsets.persist()

    image, _ = run_and_kill(lab, live, first)

    def second(broker: Any) -> None:
        assert (broker.clamped, broker.progress()) == (0, (2, 1))
        assert broker.check() == ["two"]
        assert len(broker.records(HALF_TOPIC)) == 4

    live(second, run_later_life(lab, image))


def test_an_op_message_of_an_earlier_life_also_decides_later_copies(lab: Make, live: Live) -> None:
    def first(broker: Any) -> None:
        request = broker.prepare("one", CHECK_IMMUNITY_TIME_IN_SECONDS="60")
        assert broker.check() == []
        broker.commit(request)
        broker.flush()
        broker.transactions.checker.finish_remaining_work()
        broker.offsets.persist()

    image, _ = run_and_kill(lab, live, first)

    def second(broker: Any) -> None:
        assert broker.progress()[0] == 1
        assert broker.check() == []
        assert broker.visible() == ["one"]

    live(second, run_later_life(lab, image))


def test_op_messages_are_kept_while_copies_of_an_earlier_life_may_exist(lab: Make, live: Live) -> None:
    def first(broker: Any) -> None:
        request = broker.prepare("one", CHECK_IMMUNITY_TIME_IN_SECONDS="60")
        broker.world.tasks.sleep(10_000)
        broker.prepare("young")
        assert broker.check(after_ms=0) == []  # the pass ends at "young", and the copy of "one" is after it
        broker.commit(request)
        broker.flush()
        broker.transactions.checker.finish_remaining_work()
        broker.offsets.persist()

    image, _ = run_and_kill(lab, live, first)
    bench = lab(image)
    bench.machine.wall_offset_ms = 11_000

    def second(broker: Any) -> None:
        assert broker.progress() == (1, -1)
        assert broker.check(after_ms=0) == []
        broker.flush()
        broker.transactions.checker.finish_remaining_work()
        assert broker.progress() == (1, -1)
        assert broker.check() == ["young"]
        assert broker.visible() == ["one"]

    live(second, bench)


def test_a_power_cut_after_the_check_loses_no_put_back_half_message(lab: Make, live: Live) -> None:
    bench = lab()

    def first(broker: Any) -> None:
        broker.prepare("one")
        broker.flush()
        broker.store.flush_queues.request_full_flush()
        broker.store.flush.shutdown()  # so that later put-backs are only in the page cache
        assert broker.check() == ["one"]
        broker.offsets.persist()

    live(first, bench)
    bench.kernel.kill(bench.machine)
    image = bench.disk.crash(PROFILES["strict-posix"])

    def second(broker: Any) -> None:
        assert broker.progress() == (-1, -1)
        assert "one" in broker.check()

    live(second, run_later_life(lab, image))


class Lives:
    """One broker through several lives, and the decisions of its producers."""

    def __init__(self, seed: int, lab: Make, live: Any) -> None:
        self.random = Random(seed)
        self.lab = lab
        self.live = live
        self.image: Image | None = None
        self.meant: dict[str, str] = {}
        """Message -> decision: commit, rollback, or "late" for a commit at the end."""
        self.prepared: list[str] = []
        """Messages whose half message was acknowledged."""
        self.asked = 0

    def run(self, life: int) -> None:
        """Run one life, until the machine crashes during traffic or at the end."""
        random = self.random
        bench = self.lab(self.image)
        bench.machine.wall_offset_ms = life * DAY_MS // 8
        profile = random.choice(("process-kill", "ext4-ordered", "strict-posix"))
        operation, moment = int(random.expovariate(1 / 150)), random.choice(("before", "during", "after"))

        def body(broker: Any) -> None:
            bench.disk.crash_at(bench.disk.operations + operation, moment)
            self.traffic(broker, life)
            bench.kernel.kill(bench.machine)
            raise MachineDied("lab")

        with pytest.raises(MachineDied):
            self.live(body, bench)
        self.image = bench.disk.crash(PROFILES[profile])

    def traffic(self, broker: Any, life: int) -> None:
        """Prepare, decide, and answer some questions."""
        random = self.random
        broker.transactions.on_check = lambda record: self.answer(broker, record, random.random() < 0.5)
        broker.transactions.start()
        broker.offsets.start()
        for number in range(random.randrange(4, 16)):
            name = f"{life}.{number}"
            self.meant[name] = random.choice(("commit", "commit", "rollback", "late"))
            immunity = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "20"} if random.random() < 0.2 else {}
            request = broker.prepare(name, **immunity)
            self.prepared.append(name)
            broker.world.tasks.sleep(random.choice((0, 0, 1, 3_000, 9_000)))
            if self.meant[name] != "late" and random.random() < 0.7:
                getattr(broker.transactions, self.meant[name])(request)

    def answer(self, broker: Any, record: MessageRecord, answers: bool) -> None:
        self.asked += 1
        meant = self.meant[record.body.decode()]
        if answers and meant != "late":
            getattr(broker.transactions, meant)(HalfMessage.from_record(record).request)

    def heal(self, life: int) -> None:
        """Run one life without a crash, and answer all questions."""
        bench = self.lab(self.image)
        bench.machine.wall_offset_ms = life * DAY_MS // 8
        self.live(self.judge, bench)

    def judge(self, broker: Any) -> None:
        promised = broker.visible(HALF_TOPIC, 0)
        if broker.store.config.flush_disk_type is FlushDiskType.SYNC_FLUSH:
            promised += self.prepared
        answered: list[str] = []

        def answer(record: MessageRecord) -> None:
            name = record.body.decode()
            decide = broker.transactions.commit
            if self.meant[name] == "rollback":
                decide = broker.transactions.rollback
            if decide(HalfMessage.from_record(record).request).status is EndTransactionStatus.DECIDED:
                answered.append(name)

        broker.transactions.on_check = answer
        for _ in range(4):
            broker.check(after_ms=30_000)
            broker.flush()
        assert len(set(answered)) == len(answered), "decided twice in one life"
        broker.transactions.on_check = broker.asked.append
        assert broker.check(after_ms=30_000) == []
        visible = broker.visible()
        for name in promised:
            assert (name in visible) is (self.meant[name] != "rollback"), name
        assert not [name for name in visible if self.meant[name] == "rollback"]
        ends = [broker.store.get_max_offset_in_queue(topic, 0) for topic in (HALF_TOPIC, OP_TOPIC)]
        assert [max(offset, 0) for offset in broker.progress()] == ends


@pytest.mark.parametrize("flush", list(FlushDiskType))
@pytest.mark.parametrize("block", range(3))
def test_after_any_crash_every_transaction_ends_as_decided(
    lab: Make, small: Make, block: int, flush: FlushDiskType
) -> None:
    from .conftest import Broker

    config = small(mapped_file_size_commit_log=8192, flush_disk_type=flush)
    settings = {"transaction_check_interval_ms": 5_000, "transaction_check_max": 1_000}

    def live(body: Callable[[Any], Any], bench: Any) -> Any:
        return bench.run(lambda world: body(Broker(world, config, **settings)))

    asked = 0
    for seed in range(block * 8, block * 8 + 8):
        lives = Lives(seed, lab, live)
        count = lives.random.randrange(1, 4)
        for life in range(count):
            lives.run(life)
        lives.heal(count)
        asked += lives.asked
    assert asked
