"""A process that puts messages until it is killed, and prints each step.

python writer.py DIRECTORY LIFE PRODUCERS sync|async

ready                                          the store is open
ask NAME                                       before a put
told NAME STATUS OFFSET QUEUE_OFFSET           after it

Each line is one write to a pipe, so a kill loses only later lines. `message_of` returns the message for a name.
"""

import os
import sys
import threading
from itertools import count

from tornlog.store.config import FlushDiskType, StoreConfig
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import real_world

TOPICS = ("Orders", "Refunds")
QUEUES = 2
SEGMENT_BYTES = 65_536


def config_of(directory: str, flush: FlushDiskType) -> StoreConfig:
    """Return settings with small files, so that the writer creates many in a fraction of a second."""
    return StoreConfig(
        directory,
        flush_disk_type=flush,
        mapped_file_size_commit_log=SEGMENT_BYTES,
        mapped_file_size_consume_queue=2_000,
        max_hash_slot_num=100,
        max_index_num=400,
        flush_interval_commit_log_ms=20,
        flush_interval_consume_queue_ms=20,
        flush_consume_queue_thorough_interval_ms=100,
        flush_commit_log_thorough_interval_ms=100,
    )


def message_of(name: str) -> Message:
    """Return the message of a name, LIFE.PRODUCER.COUNT."""
    life, producer, number = map(int, name.split("."))
    body = (f"{name} " * 400).encode()[: (life * 7 + producer * 331 + number * 97) % 1_500]
    topic = TOPICS[number % len(TOPICS)]
    return Message.create(topic, body, queue_id=(number // 2 + producer) % QUEUES, tags=f"P{producer}", keys=name)


def tell(line: str) -> None:
    os.write(sys.stdout.fileno(), f"{line}\n".encode())


def produce(store: MessageStore, life: int, producer: int) -> None:
    for number in count():
        name = f"{life}.{producer}.{number}"
        tell(f"ask {name}")
        result = store.put_message(message_of(name))
        place = "- -" if result.append is None else f"{result.append.wrote_offset} {result.append.queue_offset}"
        tell(f"told {name} {result.status.value} {place}")


def main(directory: str, life: int, producers: int, flush: FlushDiskType) -> None:
    store = MessageStore(real_world(), config_of(directory, flush))
    store.load()
    store.start()
    tell("ready")
    threads = [threading.Thread(target=produce, args=(store, life, each)) for each in range(producers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), FlushDiskType[sys.argv[4]])
