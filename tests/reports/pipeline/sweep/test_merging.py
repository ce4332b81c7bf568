from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tornlog.reports.pipeline.spark.engine import InProcessEngine
from tornlog.reports.pipeline.sweep import request as request_module
from tornlog.reports.pipeline.sweep import table as table_module
from tornlog.reports.pipeline.sweep.request import Block, SeedSpan, StartedSweep, SweepFileError, SweepRequest
from tornlog.reports.pipeline.sweep.rows import RowFiles, row_of
from tornlog.reports.pipeline.sweep.sweep import run_sweep
from tornlog.reports.pipeline.sweep.table import MergeError, Table, merge_table
from tornlog.scenarios.campaigns.seeds import SeedResult

REQUEST = SweepRequest(("a", "b"), 5, 35, block_seeds=4)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Merge no more than ten seeds, in groups of three rows."""
    monkeypatch.setattr(request_module, "MERGED_SEEDS", 10)
    monkeypatch.setattr(table_module, "GROUP_ROWS", 3)


def write_blocks(table: Table, blocks: Iterable[Block]) -> None:
    for block in blocks:
        seeds = range(block.first, block.first + block.count)
        table.write(block, [row_of(SeedResult(block.scenario, seed, "held"), None) for seed in seeds])


@pytest.fixture
def whole(table: Table) -> Table:
    """A table of two scenarios with thirty seeds each, in eight files each."""
    table.start_sweep(StartedSweep(REQUEST))
    write_blocks(table, StartedSweep(REQUEST).blocks())
    return table


def names(table: Table) -> list[str]:
    return sorted(path.name for path in (Path(table.place) / "rows").iterdir())


def test_merging_row_files_leaves_few_files_with_the_same_rows(whole: Table) -> None:
    before = whole.read()

    assert len(names(whole)) == 16
    assert merge_table(whole, InProcessEngine()) == 8
    assert names(whole)[:4] == [
        "a-0000000005-8.parquet", "a-0000000013-8.parquet", "a-0000000021-8.parquet", "a-0000000029-6.parquet",
    ]  # fmt: skip
    assert whole.read().equals(before)
    for name in names(whole):
        file = pq.ParquetFile(Path(whole.place) / "rows" / name)
        seeds = file.read(["seed"])["seed"].to_pylist()
        assert seeds == sorted(seeds)
        groups = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
        assert set(groups[:-1]) <= {3}
    assert merge_table(whole, InProcessEngine()) == 8, "merging again changes nothing"
    assert whole.read().equals(before)


def test_a_merged_sweep_is_complete(whole: Table) -> None:
    merge_table(whole, InProcessEngine())
    progress = run_sweep(REQUEST, whole, InProcessEngine())

    assert (progress.done_before, progress.done) == (60, 0)


def test_incomplete_blocks_are_not_merged(table: Table) -> None:
    table.start_sweep(StartedSweep(REQUEST))
    blocks = [block for block in StartedSweep(REQUEST).blocks() if block.span != SeedSpan("a", 9, 4)]
    write_blocks(table, blocks)
    before = table.read()
    merge_table(table, InProcessEngine())

    assert "a-0000000005-4.parquet" in names(table)
    assert "a-0000000013-8.parquet" in names(table)
    assert table.read().equals(before)


def test_row_files_covered_by_a_merged_file_are_ignored_and_deleted(whole: Table) -> None:
    before = whole.read()
    saved = {path: path.read_bytes() for path in (Path(whole.place) / "rows").iterdir()}
    merge_table(whole, InProcessEngine())
    for path, raw in saved.items():
        path.write_bytes(raw)  # as if the process died after it wrote the merged file and before the deletions

    files = whole.files(every_page=True)
    assert (len(files.whole), len(files.covered), files.damaged) == (8, 16, {})
    assert whole.read().equals(before)
    assert sum(batch.num_rows for batch in whole.batches(["seed"])) == 60
    assert merge_table(whole, InProcessEngine()) == 8
    assert len(names(whole)) == 8


@pytest.mark.ci
def test_a_damaged_merged_file_is_rebuilt_from_its_blocks(table: Table, request_of: Callable[..., Any]) -> None:
    request = request_of()
    run_sweep(request, table, InProcessEngine())
    before = table.read().drop(["wall_seconds"])
    merge_table(table, InProcessEngine())
    damaged = Path(table.place) / "rows" / "clean-shutdown-0000000000-8.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-9])

    assert set(table.files().damaged) == {damaged.name}
    progress = run_sweep(request, table, InProcessEngine())
    assert (progress.done_before, progress.done) == (12, 8)
    assert table.files().damaged == {}, "the blocks have its rows"
    assert table.read().drop(["wall_seconds"]).equals(before)
    merge_table(table, InProcessEngine())
    assert table.read().drop(["wall_seconds"]).equals(before)
    assert damaged.name in table.files(every_page=True).whole


def test_rows_that_contradict_their_file_name_are_neither_merged_nor_deleted(whole: Table) -> None:
    rows = [row_of(SeedResult("a", seed, "held"), None) for seed in (9, 10, 10, 12)]
    whole.write(Block("a", 9, 4), rows)
    before = names(whole)

    with pytest.raises(MergeError, match=r"a-0000000005-8\.parquet: expected the rows of seed 9 and the next ones"):
        merge_table(whole, InProcessEngine())
    assert names(whole) == before


def test_two_row_files_with_overlapping_seeds_are_damaged(whole: Table) -> None:
    write_blocks(whole, [Block("a", 31, 9)])

    assert whole.files().damaged == {
        "a-0000000031-9.parquet": "seeds: expected none below 33, because another file has them"
    }


def test_a_seed_span_counts_as_stored_only_if_files_cover_every_seed() -> None:
    files = RowFiles.classify(
        {"a-0000000000-4.parquet": None, "a-0000000004-4.parquet": None, "a-0000000009-1.parquet": None}
    )
    held = [
        files.holds(SeedSpan("a", first, count)) for first, count in ((0, 8), (3, 2), (7, 2), (8, 1), (9, 1), (9, 2))
    ]
    assert held == [True, True, False, False, True, False]
    assert not files.holds(SeedSpan("b", 0, 1))


def test_a_place_without_a_sweep_is_not_merged(table: Table) -> None:
    with pytest.raises(SweepFileError, match="expected a sweep, found none"):
        merge_table(table, InProcessEngine())
