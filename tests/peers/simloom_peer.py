"""The mini workload in simloom: asyncio code; each record is a file."""

import asyncio
from importlib import import_module
from typing import Any

from .workload import APPENDS_EACH, PRODUCERS, RECORD_BYTES, SEGMENT_BYTES, Log, body_of

_END_MS = 20


class _FilePerRecord:
    def __init__(self, disk: Any) -> None:
        self._disk = disk
        self._unsynced: list[str] = []

    def create(self, path: str) -> None:
        """No-op: a file appears with its first bytes."""

    def store(self, path: str, at: int, data: bytes) -> None:
        self._disk.write(f"{path}/{at}", data)
        self._unsynced.append(f"{path}/{at}")

    def sync(self, path: str) -> None:
        unsynced, self._unsynced = self._unsynced, []
        for file in unsynced:
            self._disk.fsync(file)

    def read(self, path: str) -> bytes | None:
        """Return a segment, joined from its records."""
        files = [f"{path}/{at}" for at in range(0, SEGMENT_BYTES, RECORD_BYTES)]
        return b"".join(
            (self._disk.read(file) if self._disk.exists(file) else b"").ljust(RECORD_BYTES, b"\0") for file in files
        )


def run(seed: int) -> tuple[int, int]:
    """Run one seed; return the numbers of log operations and of simloom's draws."""
    simloom = import_module("simloom")
    operations = 0

    async def main(world: Any) -> None:
        nonlocal operations
        host = world.host("broker")
        place = _FilePerRecord(host.disk)
        log = Log(place)
        for producer in range(PRODUCERS):
            host.spawn(lambda producer=producer: _produce(log, producer))
        for action in (log.flush, log.dispatch):
            host.spawn(lambda action=action: _repeat(action))
        for _ in range(seed % _END_MS):
            await asyncio.sleep(0.001)
        host.crash()
        log.judge(place.read)
        operations = log.operations

    result = simloom.run(main, seed=seed)
    return operations, len(result.tape)


async def _produce(log: Log, producer: int) -> None:
    for number in range(APPENDS_EACH):
        body = body_of(producer, number)
        await asyncio.sleep(0.001)
        end = log.append(body)
        while log.flushed < end:
            await asyncio.sleep(0.001)
        log.acknowledge(body)


async def _repeat(action: Any) -> None:
    while True:
        await asyncio.sleep(0.001)
        action()
