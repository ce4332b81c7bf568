"""Cases: directories left by our store and by the real one."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep
from typing import Any

from tornlog.store.config import StoreConfig

from .differences import differences
from .images import CLEAN_STOP, PROCESS_KILL, crash_image_left_by
from .maven import JavaProgram
from .observed import OpenedDirectory, StoreDifference, StoreObservation, observe, read_answer, times_of
from .real_store import RealStore, RealStoreDied, RealStoreFailed, config_in_directory, settings_of
from .workload import Workload, workload_of

WRITTEN_HERE, WRITTEN_THERE = "ours", "real"
_ENTRY_BYTES = 20
KILLED_TOGETHER = 8
"""Stores in one process of the real store when it is killed."""


@dataclass(frozen=True, slots=True)
class DirectoryCase:
    """A directory and its writer. If the real store wrote it, also the answers to its puts."""

    writer: str
    seed: int
    kind: str
    disk: str
    scenario: str
    directory: Path
    config: StoreConfig
    answers: Sequence[dict[str, Any]] = ()

    @property
    def name(self) -> str:
        return f"{self.writer}-{self.seed}"


@dataclass(slots=True)
class CaseResult:
    case: DirectoryCase
    records: int
    is_opened: bool
    """Whether our store opened the directory. If not, nothing was compared."""
    differences: list[StoreDifference] = field(default_factory=list)

    @property
    def unexplained(self) -> list[StoreDifference]:
        return [one for one in self.differences if one.deviation is None]

    @property
    def outcome(self) -> str:
        """Return `agreed`, `explained` or `unexplained`."""
        if self.unexplained:
            return "unexplained"
        return "explained" if self.differences else "agreed"


def case_written_here(seed: int, directory: Path, version: str | None = None) -> DirectoryCase | None:
    """Run a seed in the simulator and write its final image into an existing directory.

    version: of RocketMQ; its bugs are put into the writer; None if one of them ended the run early.
    """
    left = crash_image_left_by(seed, version)
    if left is None:
        if version is not None:
            return None
        raise RuntimeError(f"seed {seed}: a run of the sound store did not come to its end")
    config = left.export(directory)
    return DirectoryCase(WRITTEN_HERE, seed, left.kind, left.disk, left.scenario, directory, config)


def cases_written_there(
    seeds: Sequence[int], files: JavaProgram, real: RealStore, work: Path
) -> Iterator[DirectoryCase]:
    """Make the real store write directories. Those that end in a kill are written by a process of their own."""
    workloads = [workload_of(seed) for seed in seeds]
    answers: dict[int, list[dict[str, Any]]] = {}
    for workload in workloads:
        directory = work / f"real-{workload.seed}"
        directory.mkdir()
        if workload.before and real.version.startswith("rocketmq-4."):  # 5.x refuses to start with such files
            answers[workload.seed] = _put_all(real, workload, workload.before, directory, stop=True)
            leave_empty_queue_files(directory, workload.config.mapped_file_size_consume_queue)
    clean = [workload for workload in workloads if not workload.is_killed]
    with ThreadPoolExecutor(max(1, len(clean))) as pool:
        stopped = [pool.submit(_write, real, workload, work, answers) for workload in clean]
        killed = [workload for workload in workloads if workload.is_killed]
        for first in range(0, len(killed), KILLED_TOGETHER):
            yield from _cases_after_kills(killed[first : first + KILLED_TOGETHER], files, work, answers)
        for one in stopped:
            yield one.result()


def leave_empty_queue_files(root: Path, file_bytes: int) -> None:
    """Add an empty file after each full queue file, as a crash after their allocation does.

    At its next start the real store takes the first entry of such a file for a real one and skips a number.
    """
    for queue in sorted(root.glob("consumequeue/*/*")):
        last = max(queue.iterdir(), key=lambda file: file.name)
        if any(last.read_bytes()[-_ENTRY_BYTES:]):
            (queue / f"{int(last.name) + file_bytes:020d}").write_bytes(bytes(file_bytes))
    (root / "abort").touch()


def _cases_after_kills(
    workloads: Sequence[Workload], files: JavaProgram, work: Path, answers: Mapping[int, list[dict[str, Any]]]
) -> Iterator[DirectoryCase]:
    """Run stores in one process until the longest of their lives has ended, and kill the process."""
    home = work / f"killed-{workloads[0].seed}"
    home.mkdir()
    with RealStore(files, home, stores=len(workloads)) as victim, ThreadPoolExecutor(len(workloads)) as pool:
        written = [pool.submit(_write, victim, workload, work, answers) for workload in workloads]
        sleep(max(workload.life_ms for workload in workloads) / 1_000)
        victim.kill()
        yield from [one.result() for one in written]


def _write(
    real: RealStore, workload: Workload, work: Path, before: Mapping[int, list[dict[str, Any]]]
) -> DirectoryCase:
    directory = work / f"real-{workload.seed}"
    answers = _put_all(real, workload, workload.producers, directory, stop=not workload.is_killed)
    kind = PROCESS_KILL if workload.is_killed else CLEAN_STOP
    config = config_in_directory(workload.config, directory)
    answers = before.get(workload.seed, []) + answers
    return DirectoryCase(WRITTEN_THERE, workload.seed, kind, "", "", directory, config, answers)


def _put_all(
    real: RealStore, workload: Workload, producers: Sequence[Sequence[dict[str, Any]]], directory: Path, *, stop: bool
) -> list[dict[str, Any]]:
    """Open a directory in the real store and put messages. Return the answers, up to the kill if there is one."""
    config = config_in_directory(workload.config, directory)
    command = {
        "do": "write",
        "root": str(directory),
        "config": settings_of(config) | {"flushDiskType": workload.config.flush_disk_type.value},
        "producers": producers,
        "stop": stop,
    }
    answers: list[dict[str, Any]] = []
    try:
        for answer in real.answers(command):
            if "exception" in answer:
                raise RealStoreFailed(f"seed {workload.seed}: the real store cannot write: {answer}")
            answers.append(answer)
    except RealStoreDied:
        if stop:
            raise
    return answers


def compare(case: DirectoryCase, real: RealStore) -> CaseResult:
    """Open a case in both stores. The directory does not change."""
    ours = observe(case.directory, case.config)
    files = _files_of(case.directory)
    copy = case.directory.with_name(f"{case.directory.name}-opened")
    shutil.copytree(case.directory, copy)
    try:
        # 5.x looks up by the records' times, to a lower or an upper bound, unlike 4.9.
        times_ms = times_of(ours) if real.version.startswith("rocketmq-4.") else ()
        seen = read_answer(real.open(copy, config_in_directory(case.config, copy), times_ms))
    finally:
        shutil.rmtree(copy, ignore_errors=True)
    found = differences(OpenedDirectory(case.config, files, ours, seen, real.version))
    return CaseResult(case, len(ours.records), not ours.refusal, found + list(_missing_acknowledged_puts(case, ours)))


def _files_of(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def _missing_acknowledged_puts(case: DirectoryCase, ours: StoreObservation) -> Iterator[StoreDifference]:
    """Yield puts that the real store answered OK and that our store lacks.

    A kill must not lose any, except for the end of the log that was in the buffers of the pool."""
    if ours.refusal:
        return
    may_lose_end = case.kind == PROCESS_KILL and case.config.is_transient_store_pool_effective
    for answer in case.answers:
        if answer.get("status") != "PUT_OK":
            continue
        if may_lose_end and answer["offset"] >= ours.max_offset:
            continue
        for number, message_id in enumerate(answer["msgId"].split(",")):
            offset = int(message_id[-16:], 16)
            record, queue_offset = ours.records.get(offset), answer["queueOffset"] + number
            if record is None or (record.message_id, record.queue_offset) != (message_id, queue_offset):
                place, there = (f"answered {answer['name']} {number}", f"{message_id} at queue offset {queue_offset}")
                yield StoreDifference(place, str(record), there, None)
