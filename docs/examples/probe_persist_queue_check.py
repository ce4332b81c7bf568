"""The promise of persist-queue: messages that were put and not taken are there, and done ones are gone."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import persistqueue


def check(directory: Path, acknowledged: list[str]) -> Iterator[str]:
    """Yield lost and returned messages. A message in the middle of `get` may be there or not."""
    if not acknowledged:
        return
    times = Counter(line.split()[0] for line in acknowledged)
    try:
        queue = persistqueue.Queue(str(directory / "queue"), chunksize=3)
        found = [queue.get_nowait() for _ in range(queue.qsize())]
    except Exception as error:
        yield f"the queue cannot be read: {type(error).__name__}"
        return
    waiting = range(times["taking"] + 1, times["put"] + 1)
    lost = [number for number in waiting if f"message {number}" not in found]
    if lost:
        yield f"messages that were put are lost: {lost}"
    back = [number for number in range(1, times["done"] + 1) if f"message {number}" in found]
    if back:
        yield f"messages that were done are back: {back}"
