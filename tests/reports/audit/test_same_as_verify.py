"""The audit and `verify` judge one list of defects, and the same damaged stores of RocketMQ, alike."""

import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tornlog.reports.audit.audit import audit
from tornlog.store.real.world import overlay_world
from tornlog.store.tools.geometry import Geometry
from tornlog.store.tools.verify import verify_directory

from .defects import CLEAN, UNCLEAN, Defect, explained, unclean

GOLDEN = Path(__file__).parents[2] / "golden"
DAMAGED = sorted(path.name for path in GOLDEN.glob("14-*"))
Named = set[tuple[str, str]]
"""Promises, each with the file in which it is broken."""
Judged = Callable[[Path], tuple[Named, Named]]


@pytest.fixture
def judged(spark: SparkSession) -> Judged:
    """Return what both commands have against a directory: first verify, then the audit."""

    def judge(root: Path) -> tuple[Named, Named]:
        verified = verify_directory(overlay_world().files, str(root), Geometry(), lambda read_bytes: None)
        found = audit(spark, str(root))
        rows = found.found.where("not is_explained").collect()
        found.release()
        return (
            {(one.promise.value, one.file) for one in verified.findings.violations},
            {(row.promise, str(Path(row.file).relative_to(root))) for row in rows},
        )

    return judge


def broken(named: Named) -> set[str]:
    return {promise for promise, _ in named}


@pytest.mark.parametrize(
    ("defects", "is_clean"),
    [(one, True) for one in CLEAN.values()] + [(one, False) for one in UNCLEAN.values()],
    ids=[*CLEAN, *UNCLEAN],
)
def test_every_planted_defect_is_named_by_both(
    store_at: Path, judged: Judged, defects: list[Defect], *, is_clean: bool
) -> None:
    if not is_clean:
        unclean(store_at)
        (store_at / "checkpoint").write_bytes(bytes(4096))
    wanted = {defect.name: (defect.promise, defect.plant(store_at)) for defect in defects}
    by_verify, by_audit = judged(store_at)

    assert {name: place for name, place in wanted.items() if place not in by_verify} == {}
    assert {name: place for name, place in wanted.items() if place not in by_audit} == {}
    assert broken(by_audit) == broken(by_verify)


def test_what_an_unclean_exit_does_is_held_against_a_store_by_neither(store_at: Path, judged: Judged) -> None:
    explained(store_at)
    assert judged(store_at) == (set(), set())
    (store_at / "abort").unlink()
    by_verify, by_audit = judged(store_at)
    assert broken(by_audit) == broken(by_verify) == {"LOG", "CQ-VALID", "CQ-COMPLETE", "IDX"}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_stores_of_rocketmq_break_the_same_promises_for_both(
    tmp_path: Path, judged: Judged, name: str
) -> None:
    with tarfile.open(GOLDEN / name / "store.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    by_verify, by_audit = judged(tmp_path / "before")
    assert broken(by_audit) == broken(by_verify)


def test_there_are_some_fifty_defects_and_none_twice() -> None:
    names = [defect.name for group in (*CLEAN.values(), *UNCLEAN.values()) for defect in group]
    assert len(names) == len(set(names))
    assert len(names) >= 45
