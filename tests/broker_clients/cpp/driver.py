"""Sends, pulls and consumes with RocketMQ's C++ client: `driver.py NAME_SERVER TOPIC`.

Prints one JSON object: the offsets of the sends and the bodies that each consumer received.
"""

import json
import sys
import threading
from typing import Any

from rocketmq.client import Message, Producer, PullConsumer, PushConsumer  # type: ignore[import-not-found]


def message(topic: str, body: str, tags: str) -> Any:
    made = Message(topic)
    made.set_body(body)
    made.set_tags(tags)
    made.set_keys(body)
    made.set_property("of", "C++")
    return made


def main(name_server: str, topic: str) -> None:
    producer = Producer("cpp-producers")
    producer.set_namesrv_addr(name_server)
    producer.start()
    sent = [producer.send_sync(message(topic, body, "A")).offset for body in ("one", "two")]
    sent.append(producer.send_orderly(message(topic, "three", "B"), 0).offset)
    producer.send_oneway(message(topic, "four", "A"))

    pushed: list[str] = []
    all_came = threading.Event()

    def take(received: Any) -> None:
        pushed.append(received.body.decode())
        if len(pushed) == 4:
            all_came.set()

    consumer = PushConsumer("cpp-consumers")
    consumer.set_namesrv_addr(name_server)
    consumer.subscribe(topic, take, "A || B")
    consumer.start()
    all_came.wait(60)
    consumer.shutdown()

    puller = PullConsumer("cpp-pullers")
    puller.set_namesrv_addr(name_server)
    puller.start()
    pulled = [each.body.decode() for each in puller.pull(topic, "A")]
    puller.shutdown()
    producer.shutdown()
    print(json.dumps({"sent": sent, "pushed": sorted(pushed), "pulled": sorted(pulled)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
