from pathlib import Path

from tests.conformance.cases import leave_empty_queue_files
from tests.conformance.workload import workload_of

FILE_BYTES = 100
ENTRY = b"\0" * 8 + b"\0\0\0\x7b" + b"\0" * 8


def queue_file(root: Path, topic: str, number: int, entries: int) -> Path:
    file = root / "consumequeue" / topic / "0" / f"{number * FILE_BYTES:020d}"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes((ENTRY * entries).ljust(FILE_BYTES, b"\0"))
    return file


def test_an_empty_file_follows_each_full_queue_file_and_the_exit_is_unclean(tmp_path: Path) -> None:
    queue_file(tmp_path, "Full", 0, 5)
    last = queue_file(tmp_path, "Full", 1, 5)
    part = queue_file(tmp_path, "Part", 0, 4)
    queue_file(tmp_path, "Made", 0, 5)
    made = queue_file(tmp_path, "Made", 1, 0)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    leave_empty_queue_files(tmp_path, FILE_BYTES)

    new = last.with_name(f"{2 * FILE_BYTES:020d}")
    after = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    assert after == {**before, new: bytes(FILE_BYTES), tmp_path / "abort": b""}
    assert part.exists()
    assert made.exists()


def test_some_lives_of_the_real_store_begin_with_empty_queue_files() -> None:
    workloads = [workload_of(seed) for seed in range(40)]
    restarted = [workload for workload in workloads if workload.before]
    assert 5 < len(restarted) < 35
    assert {workload.is_killed for workload in restarted} == {True, False}
    for workload in restarted:
        lives = (*workload.before, *workload.producers)
        puts = [put["name"] for puts in lives for put in puts]
        assert len(puts) == len(set(puts))
