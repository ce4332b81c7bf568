"""Stop or SIGKILL of the broker under traffic: acknowledged messages survive in order."""

import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ENDINGS: dict[str, Callable[[Any], None]] = {
    "clean": lambda broker: broker.stop(),
    "killed": lambda broker: broker.kill(),
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("flush_disk_type", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_acknowledged_messages_survive_a_restart_in_order(
    serve: Any, connect: Any, eventually: Any, ending: str, flush_disk_type: str
) -> None:
    broker = serve(flushDiskType=flush_disk_type)
    client = connect(broker)
    client.admin()("createTopic", topic="traffic", queues=4)
    producer = client.producer()
    client.ask("traffic.start", name="traffic", producer=producer.name, topic="traffic")
    for life in range(1, 3):
        eventually(lambda wanted=life * 400: client.ask("traffic.count", name="traffic") >= wanted, within_s=60)
        ENDINGS[ending](broker)
        time.sleep(0.3)
        broker.start()
    eventually(lambda: client.ask("traffic.count", name="traffic") >= 1200, within_s=60)
    told = client.ask("traffic.stop", name="traffic")
    assert told["failures"] > 0

    stored = {
        (message["queueId"], message["queueOffset"]): message["body"]
        for message in client.pull("all", topic="traffic", group="afterwards")["messages"]
    }
    promised = {(one["queueId"], one["queueOffset"]): one["body"] for one in told["acknowledged"]}
    assert len(promised) == len(told["acknowledged"])
    assert {place: stored.get(place) for place in promised} == promised
    numbers = defaultdict(list)
    for (queue_id, _), body in sorted(stored.items()):
        of_queue, number = map(int, body.split("-"))
        assert of_queue == queue_id
        numbers[queue_id].append(number)
    for in_queue in numbers.values():
        assert in_queue == sorted(in_queue)  # numbers may repeat, because a send is retried if its answer is lost


def test_a_connected_consumer_misses_no_message(serve: Any, connect: Any, eventually: Any) -> None:
    broker = serve()
    client = connect(broker)
    client.admin()("createTopic", topic="traffic", queues=4)
    consumer = client.consumer("traffic", "live")
    producer = client.producer()
    client.ask("traffic.start", name="traffic", producer=producer.name, topic="traffic")
    eventually(lambda: len(consumer.received()) >= 200)
    broker.kill()
    broker.start()
    eventually(lambda: client.ask("traffic.count", name="traffic") >= 600, within_s=60)
    promised = {one["body"] for one in client.ask("traffic.stop", name="traffic")["acknowledged"]}
    # If the killed broker did not answer a pull, the client waits up to 30 s before it pulls again.
    eventually(lambda: {*consumer.bodies()} >= promised, within_s=60)


def test_delayed_undecided_and_failed_messages_survive_a_kill(serve: Any, connect: Any, eventually: Any) -> None:
    broker = serve()
    client = connect(broker)
    client.admin()("createTopic", topic="things", queues=4)
    undecided = {"then": "UNKNOW", "whenChecked": "COMMIT_MESSAGE"}
    producer = client.producer(group="decided", transactional=True)
    producer.send("things", "delayed", delayLevel=2)
    producer.send("things", "undecided", "send.transaction", properties=undecided)
    broker.kill()
    broker.start()
    consumer = client.consumer("things", "late")
    eventually(lambda: sorted(consumer.bodies()) == ["delayed", "undecided"], within_s=45)


def test_consumers_continue_at_their_offset_after_a_restart(serve: Any, connect: Any) -> None:
    broker = serve()
    client = connect(broker)
    client.admin()("createTopic", topic="things", queues=4)
    producer = client.producer()
    for number in range(10):
        producer.send("things", f"{number}")
    consumer = client.consumer("things", "group")
    consumer.wait_for(10)
    consumer.stop()
    broker.stop()
    broker.start()
    producer.send("things", "after")
    again = client.consumer("things", "group")
    again.wait_for(1)
    assert again.bodies() == ["after"]
