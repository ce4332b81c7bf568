import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tornlog.reports.pipeline.spark.engine import InProcessEngine, own_code_version
from tornlog.reports.pipeline.sweep.request import StartedSweep, SweepFileError, SweepRequest
from tornlog.reports.pipeline.sweep.rows import SCHEMA, RowFiles
from tornlog.reports.pipeline.sweep.sweep import SweepProgress, run_sweep, shrunk_failures, smallest_failures
from tornlog.reports.pipeline.sweep.table import Table

pytestmark = pytest.mark.slow

RequestOf = Callable[..., SweepRequest]


class Killed(BaseException):
    """Raised instead of killing the process."""


class DiesAfter:
    """An engine that raises Killed before it has yielded all results."""

    cores = 1

    def __init__(self, results: int) -> None:
        self._results = results

    def results(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        for number, item in enumerate(items):
            if number == self._results:
                raise Killed
            yield function(item)


def rows(table: Table) -> Any:
    return table.read().drop(["wall_seconds"])


def test_every_seed_of_every_scenario_has_a_row(table: Table, request_of: RequestOf) -> None:
    progress = run_sweep(request_of(), table, InProcessEngine())

    found = table.read()
    assert found.schema.equals(SCHEMA)
    places = list(zip(found["scenario"].to_pylist(), found["seed"].to_pylist(), strict=True))
    assert places == [(name, seed) for name in sorted(request_of().scenarios) for seed in range(10)]
    assert (progress.is_complete, progress.done, progress.outcomes) == (True, 20, {"held": 20})
    assert set(found["outcome"].to_pylist()) == {"held"}
    assert all(found["digest"].to_pylist())


def test_a_killed_sweep_can_be_resumed_and_produces_the_same_table(
    tmp_path: Path, table: Table, request_of: RequestOf
) -> None:
    for results in (1, 3):
        with pytest.raises(Killed):
            run_sweep(request_of(), table, DiesAfter(results))
    seen: list[tuple[int, int]] = []
    run_sweep(
        request_of(),
        table,
        InProcessEngine(),
        on_progress=lambda progress: seen.append((progress.done_before, progress.done)),
    )
    whole = Table(str(tmp_path / "whole"))
    run_sweep(request_of(), whole, InProcessEngine())

    assert rows(table).equals(rows(whole))
    assert seen[0] == (16, 0)
    assert seen[-1] == (16, 4)


def test_a_block_that_is_written_twice_is_stored_once(table: Table, request_of: RequestOf) -> None:
    run_sweep(request_of(), table, InProcessEngine())
    before = rows(table)
    for block in StartedSweep(request_of()).blocks():
        table.write(block, table.read().filter(_rows_of_block(block)).to_pylist())

    assert rows(table).equals(before)


def _rows_of_block(block: Any) -> Any:
    field = pc.field
    return (
        (field("scenario") == block.scenario)
        & (field("seed") >= block.first)
        & (field("seed") < block.first + block.count)
    )


def test_an_unfinished_row_file_is_ignored_and_deleted(table: Table, request_of: RequestOf) -> None:
    table.start_sweep(StartedSweep(request_of()))
    rows_at = Path(table.place) / "rows"
    orphan = rows_at / f".segment-rollover-crash-0000000000-4.parquet.{'0' * 32}"
    orphan.write_bytes(b"PAR1")

    assert table.files() == RowFiles()
    run_sweep(request_of(), table, InProcessEngine())
    assert table.read().num_rows == 20
    assert not orphan.exists()
    assert len(list(rows_at.iterdir())) == 6


def truncate_row_file(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def empty_row_file(path: Path) -> None:
    path.write_bytes(b"")


def flip_row_file(path: Path) -> None:
    column = pq.read_metadata(path).row_group(0).column(0)
    raw = bytearray(path.read_bytes())
    raw[column.dictionary_page_offset + column.total_compressed_size - 1] ^= 1
    path.write_bytes(raw)


def write_fewer_seeds(path: Path) -> None:
    pq.write_table(pq.read_table(path).slice(1), path)


def write_other_columns(path: Path) -> None:
    pq.write_table(pq.read_table(path).drop(["digest"]), path)


@pytest.mark.parametrize(
    "damage", [truncate_row_file, empty_row_file, flip_row_file, write_fewer_seeds, write_other_columns]
)
def test_a_damaged_row_file_is_named_and_written_again(
    table: Table, request_of: RequestOf, damage: Callable[[Path], None]
) -> None:
    run_sweep(request_of(), table, InProcessEngine())
    before, whole = rows(table), table.files()
    damaged = Path(table.place) / "rows" / sorted(whole.whole)[1]
    damage(damaged)

    found = table.files(every_page=True)
    assert (set(found.damaged), found.whole) == ({damaged.name}, whole.whole - {damaged.name})
    assert found.damaged[damaged.name]
    progress = run_sweep(request_of(), table, InProcessEngine())
    assert (progress.done_before, progress.done) == (16, 4)
    assert rows(table).equals(before)


def test_a_row_file_that_belongs_to_no_block_is_damaged_and_not_read(table: Table, request_of: RequestOf) -> None:
    run_sweep(request_of(), table, InProcessEngine())
    (Path(table.place) / "rows" / "notes.txt").write_text("seen by hand")

    assert set(table.files().damaged) == {"notes.txt"}
    assert table.read().num_rows == 20


def test_a_sweep_started_by_other_code_of_the_same_version_is_refused(
    table: Table, request_of: RequestOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_sweep(request_of(4), table, InProcessEngine())
    described = Path(table.place) / "sweep.json"
    text = described.read_text()
    described.write_text(text.replace(own_code_version(), "tornlog 0.1.0 (0123456789abcdef)"))

    with pytest.raises(SweepFileError, match=r"started by tornlog 0\.1\.0 \(0123456789abcdef\), this is tornlog"):
        run_sweep(request_of(4), table, InProcessEngine())


def test_rows_without_a_sweep_description_are_refused(table: Table, request_of: RequestOf) -> None:
    run_sweep(request_of(4), table, InProcessEngine())
    (Path(table.place) / "sweep.json").unlink()

    with pytest.raises(SweepFileError, match=r"sweep\.json is gone"):
        run_sweep(request_of(4), table, InProcessEngine())


def test_a_place_with_a_running_sweep_is_refused_and_not_changed(table: Table, request_of: RequestOf) -> None:
    run_sweep(request_of(4), table, InProcessEngine())
    lines = """
        import sys
        from tornlog.reports.pipeline.sweep.table import RowFiles, Table

        with Table(sys.argv[1]).locked():
            print("held", flush=True)
            sys.stdin.read()
    """
    command = [sys.executable, "-c", dedent(lines), table.place]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(SweepFileError, match=f"another sweep is running there, process {other.pid}"):
            run_sweep(request_of(4), table, InProcessEngine())
        other.kill()
    assert run_sweep(request_of(4), table, InProcessEngine()).done_before == 8, "a death gives the place back"


def test_a_place_with_another_sweep_is_refused_and_not_changed(table: Table, request_of: RequestOf) -> None:
    run_sweep(request_of(4), table, InProcessEngine())
    with pytest.raises(SweepFileError, match="of other seeds or options"):
        run_sweep(request_of(5), table, InProcessEngine())
    with pytest.raises(SweepFileError, match="of other seeds or options"):
        run_sweep(request_of(4, disk="xfs"), table, InProcessEngine())

    assert table.read().num_rows == 8


def test_a_sweep_stops_after_a_number_of_failures_and_keeps_the_smallest_of_each_kind(
    table: Table, request_of: RequestOf
) -> None:
    request = request_of(40, mutant="ack-before-flush")
    progress = run_sweep(request, table, InProcessEngine(), stop_after=2)

    assert 2 <= progress.failures <= 6
    assert not progress.is_complete
    failures = smallest_failures(table)
    broken = [row for row in table.read().to_pylist() if row["signature"] is not None]
    assert {failure.signature for failure in failures} == {row["signature"] for row in broken}
    for failure in failures:
        sizes = [row["size"] for row in broken if row["signature"] == failure.signature]
        assert failure.original.size.messages == min(size["messages"] for size in sizes)
    small = list(shrunk_failures(failures, InProcessEngine(), seconds=5.0))
    assert all(failure.shrunk is not None for failure in small)
    assert [failure.signature for failure in small] == [failure.signature for failure in failures]


def test_sweep_progress_is_the_sum_over_all_blocks() -> None:
    progress = SweepProgress(seeds=8, done_before=4)
    assert not progress.is_complete
    progress.done = 4
    progress.outcomes["violated"] = 3
    assert (progress.is_complete, progress.failures) == (True, 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not the description of a sweep"),
        ("[]", "not the description of a sweep"),
        ('{"format": "tornlog-sweep/1"}', "format: expected tornlog-sweep/2"),
        ('{"format": "tornlog-sweep/2"}', "not the description of a sweep"),
    ],
)
def test_an_invalid_sweep_description_is_refused(text: str, message: str) -> None:
    with pytest.raises(SweepFileError, match=message):
        StartedSweep.from_json(text)


@pytest.mark.parametrize("sizes", [{}, {"clean-shutdown": 3, "segment-rollover-crash": 7}])
def test_a_sweep_description_is_read_back_unchanged(request_of: RequestOf, sizes: dict[str, int]) -> None:
    begun = StartedSweep(request_of(mutant="ack-before-flush"), sizes)
    assert StartedSweep.from_json(begun.to_json()) == begun
    with pytest.raises(SweepFileError, match="seeds_a_block: expected more than 0"):
        StartedSweep.from_json(StartedSweep(request_of(), {"segment-rollover-crash": 0}).to_json())
