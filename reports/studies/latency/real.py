"""Puts into the store over threads and maps, on this machine, under the traffic that the simulation has."""

import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread

from ....store.message_store import MessageStore
from ....store.world import World
from .open_loop import arrivals, produce
from .putting import message_of
from .setup import Setup


@contextmanager
def running_store(world: World, setup: Setup, directory: str) -> Iterator[MessageStore]:
    """Yield a new store in a directory, with a first message in it; shut it down in the end."""
    store = MessageStore(world, setup.config(directory))
    store.load()
    store.start()
    try:
        store.put_message(message_of(setup))  # makes the first segment
        yield store
    finally:
        store.shutdown()


def measure(setup: Setup, put: Callable[[], None]) -> "array[int]":
    """Run one series of puts in real time; return their latencies in ns, producer by producer."""
    series: list[array[int]] = [array("q") for _ in range(setup.producers)]
    failures: list[BaseException] = []

    def work(number: int, gaps_ns: "array[int]") -> None:
        try:
            series[number] = produce(gaps_ns, time.perf_counter_ns, lambda ns: time.sleep(ns / 1e9), put)
        except BaseException as failure:
            failures.append(failure)

    threads = [
        Thread(target=work, args=(number, gaps_ns), daemon=True)
        for number, gaps_ns in enumerate(arrivals(setup))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return sum(series, array("q"))
