import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tornlog.reports.pipeline.audit import audit as audits
from tornlog.reports.pipeline.audit.audit import audit
from tornlog.reports.pipeline.spark.engine import SparkEngine
from tornlog.store.real.world import overlay_world
from tornlog.store.tools.geometry import Geometry
from tornlog.store.tools.verify import verify_directory

from .defects import CLEAN, STRAYS, UNCLEAN, Defect, apply_damage_explained_by_unclean_exit, mark_unclean

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parents[3] / "golden"
CASES = sorted(path.parent.name for path in GOLDEN.glob("*/store.tar.gz"))
SPLIT_BYTES = 12_000
"""Bytes per part, so that a segment of the store with defects has two parts."""
Judged = Callable[[Path], dict[str, Any]]


@pytest.fixture
def judge_both_ways(on_spark: SparkEngine, monkeypatch: pytest.MonkeyPatch) -> Judged:
    """Return a function that runs verify and the audit in parts, and returns their common result."""
    monkeypatch.setattr(audits, "_SPLIT_BYTES", SPLIT_BYTES)

    def judge(root: Path) -> dict[str, Any]:
        verified = verify_directory(overlay_world().files, str(root), Geometry(), lambda read_bytes: None).fields()
        assert audit(on_spark, str(root)).fields() == verified
        return verified

    return judge


def violated_files(found: dict[str, Any]) -> set[tuple[str, str]]:
    return {(one["promise"], one["file"]) for one in found["violations"]}


@pytest.mark.parametrize(
    ("defects", "is_clean"),
    [(one, True) for one in CLEAN.values()] + [(one, False) for one in UNCLEAN.values()],
    ids=[*CLEAN, *UNCLEAN],
)
def test_verify_and_audit_report_every_planted_defect(
    store_at: Path, judge_both_ways: Judged, defects: list[Defect], *, is_clean: bool
) -> None:
    if not is_clean:
        mark_unclean(store_at)
        (store_at / "checkpoint").write_bytes(bytes(4096))
    wanted = {defect.name: (defect.promise, defect.plant(store_at)) for defect in defects}
    found = violated_files(judge_both_ways(store_at))
    assert {name: place for name, place in wanted.items() if place not in found} == {}


def test_verify_and_audit_ignore_foreign_files_among_the_queues(store_at: Path, judge_both_ways: Judged) -> None:
    planted = {name: plant(store_at) for name, plant in STRAYS.items()}
    found = judge_both_ways(store_at)
    assert found["violations"] == []
    assert {name: file for name, file in planted.items() if not any(file in note for note in found["notes"])} == {}
    assert len(found["notes"]) == len(planted)


def test_verify_and_audit_accept_the_damage_of_an_unclean_exit(store_at: Path, judge_both_ways: Judged) -> None:
    apply_damage_explained_by_unclean_exit(store_at)
    assert judge_both_ways(store_at)["violations"] == []
    (store_at / "abort").unlink()
    assert {promise for promise, _ in violated_files(judge_both_ways(store_at))} == {
        "LOG",
        "CQ-VALID",
        "CQ-COMPLETE",
        "IDX",
    }


@pytest.mark.parametrize("name", CASES)
def test_verify_and_audit_agree_on_stores_written_by_rocketmq(
    tmp_path: Path, judge_both_ways: Judged, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(audits, "_SPLIT_BYTES", 1 << 20)  # one task per part would take too long
    with tarfile.open(GOLDEN / name / "store.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    for root in sorted(path for path in tmp_path.iterdir() if path.is_dir()):
        judge_both_ways(root)


def test_there_are_more_than_45_distinct_planted_defects() -> None:
    names = [defect.name for group in (*CLEAN.values(), *UNCLEAN.values()) for defect in group]
    assert len(names) == len(set(names))
    assert len(names) > 45
