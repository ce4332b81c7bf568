from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from tests.bench import real_store
from tests.bench import tables as table
from tests.bench.command import RATIOS, select
from tests.bench.figure import Figure
from tests.bench.real_store import (
    measure_real_pulls,
    measure_real_puts,
    measure_real_queries,
    measure_real_recovery_scan,
    why_missing,
)
from tests.bench.workplace import BenchSettings, Workplace
from tests.conformance.maven import JavaProgram, real_store_program
from tornlog.store.config import FlushDiskType, StoreConfig

pytestmark = pytest.mark.ci


@pytest.fixture
def place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fetched: Callable[[Callable[[], JavaProgram]], JavaProgram]
) -> Workplace:
    """A place with tiny files, also for the real store: its index files have 420 MB by default."""
    fetched(lambda: real_store_program("rocketmq-4.9.8"))

    def small(place: Workplace, directory: str, **others: object) -> StoreConfig:
        sizes = {"mapped_file_size_commit_log": 1 << 20, "max_hash_slot_num": 1000, "max_index_num": 4000}
        return StoreConfig(f"{directory}/store", **sizes, **others)  # type: ignore[arg-type]

    monkeypatch.setattr(Workplace, "config", small)
    return Workplace(BenchSettings(str(tmp_path), seconds=0.05, log_bytes=400_000, small_log_bytes=300_000))


@pytest.mark.parametrize("flush", list(FlushDiskType))
def test_puts_of_the_real_store_are_counted(place: Workplace, flush: FlushDiskType) -> None:
    with place:
        assert measure_real_puts(place, 100, flush).rate > 0.0
        assert measure_real_puts(place, 100, flush, producers=3).rate > 0.0
        assert measure_real_puts(place, 100, flush, batch=True).rate > 0.0


@pytest.mark.slow
def test_pulls_and_recovery_of_the_real_store_are_counted_and_do_not_change_the_filled_store(place: Workplace) -> None:
    with place:
        filled = Path(place.filled(place.settings.small_log_bytes, 100))
        before = {path: path.read_bytes() for path in sorted(filled.rglob("*")) if path.is_file()}
        assert measure_real_pulls(place, 100).rate > 0.0
        assert measure_real_queries(place).rate > 0.0
        assert measure_real_recovery_scan(place).rate > 0.0
        assert {path: path.read_bytes() for path in sorted(filled.rglob("*")) if path.is_file()} == before


def test_a_real_store_whose_put_fails_raises_an_error(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real_store, "TOPIC", "t" * 200)
    with place, pytest.raises(RuntimeError, match="a put was answered MESSAGE_ILLEGAL"):
        measure_real_puts(place, 100, FlushDiskType.ASYNC_FLUSH)


def test_a_missing_maven_is_reported_by_the_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "why_missing", lambda: "mvn is not on the PATH")
    out = Console(file=StringIO(), width=100)
    table.print_bench(out, [Figure("sheep", "sheep/s", None, (1.0,))], 1)
    assert "the real store was not measured: mvn is not on the PATH" in out.file.getvalue()  # type: ignore[attr-defined]


def test_a_tool_missing_from_the_path_is_detected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    why_missing.cache_clear()
    try:
        assert "mvn is not on the PATH" in why_missing()
    finally:
        monkeypatch.undo()
        why_missing.cache_clear()


def test_figures_of_both_stores_are_compared_as_ratios() -> None:
    ratios = [ratio for ratio in RATIOS if "over real store" in ratio.name]

    assert [ratio.name.partition(" over")[0] for ratio in ratios] == [
        "put async",
        "put sync",
        "sync by 16",
        "batches",
        "get",
        "query",
        "recovery",
    ]
    if not why_missing():
        for ratio in ratios:
            assert {ratio.over, ratio.under} <= {one.name for one in select([ratio.name])}
