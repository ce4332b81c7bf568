"""The audit and `verify` judge one list of defects, and the same damaged stores of RocketMQ, alike."""

import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tornlog.reports.pipeline.audit.audit import audit
from tornlog.store.real.world import overlay_world
from tornlog.store.tools.geometry import Geometry
from tornlog.store.tools.verify import verify_directory

from .defects import CLEAN, STRAYS, UNCLEAN, Defect, explained, unclean

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parents[3] / "golden"
DAMAGED = (  # of each kind of damage one: an audit takes seconds, and other cases differ in a byte or in a place
    "14-abn-all-commitlog-deleted",  # no log
    "14-abn-blank-magic-flip",  # a blank record
    "14-abn-ckpt-short",  # the checkpoint
    "14-abn-combo",  # all parts at once
    "14-abn-cq-mid-zero",  # a hole in a queue
    "14-abn-cq-tail-garbage",  # entries behind the log's end
    "14-abn-early-flip",  # a bit in front of whole records
    "14-abn-first-files-deleted",  # the log's beginning
    "14-abn-foreign-file",  # a file that is not the store's
    "14-abn-index-header-garbage",  # the index
    "14-abn-phyoffset-wrong",  # a record that is elsewhere by its own word
    "14-abn-size-huge",  # a length
    "14-abn-torn-tail",  # a write that was torn
    "14-abn-truncated-file",  # a segment that is short
    "14-cln-cq-one-deleted",  # a queue that is gone
    "14-cln-lost-tail-cq-ahead",  # a log whose end is gone, in a store that was stopped
)
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


def test_strays_among_the_queues_are_held_against_a_store_by_neither_and_verify_notes_them(
    store_at: Path, judged: Judged
) -> None:
    planted = {name: plant(store_at) for name, plant in STRAYS.items()}
    assert judged(store_at) == (set(), set())
    notes = verify_directory(overlay_world().files, str(store_at), Geometry(), lambda read_bytes: None).findings.notes
    assert {name: file for name, file in planted.items() if not any(file in note for note in notes)} == {}
    assert len(notes) == len(planted)


def test_what_an_unclean_exit_does_is_held_against_a_store_by_neither(store_at: Path, judged: Judged) -> None:
    explained(store_at)
    assert judged(store_at) == (set(), set())
    (store_at / "abort").unlink()
    by_verify, by_audit = judged(store_at)
    assert broken(by_audit) == broken(by_verify) == {"LOG", "CQ-VALID", "CQ-COMPLETE", "IDX"}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_stores_of_rocketmq_break_the_same_promises_for_both(tmp_path: Path, judged: Judged, name: str) -> None:
    with tarfile.open(GOLDEN / name / "store.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    by_verify, by_audit = judged(tmp_path / "before")
    assert broken(by_audit) == broken(by_verify)


def test_there_are_more_than_forty_five_defects_and_none_twice() -> None:
    names = [defect.name for group in (*CLEAN.values(), *UNCLEAN.values()) for defect in group]
    assert len(names) == len(set(names))
    assert len(names) > 45
