import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from tests.command_line import tornlog
from tornlog.reports.pipeline.audit import audit as audits
from tornlog.reports.pipeline.audit import place_files
from tornlog.reports.pipeline.audit.audit import audit, select_violations
from tornlog.reports.pipeline.audit.place_files import EngineSpread, PlaceFiles
from tornlog.reports.pipeline.spark.engine import InProcessEngine
from tornlog.store.real.native import load_core
from tornlog.store.real.world import overlay_world
from tornlog.store.tools.geometry import Geometry
from tornlog.store.tools.spread import spread_in_process
from tornlog.store.tools.verify import verify_directory
from tornlog.store.tools.violation import DirectoryPromise, DirectoryViolation

from .defects import CLEAN, apply_damage_explained_by_unclean_exit

run = partial(tornlog, "audit", "--master", "in-process")


def test_an_undamaged_store_has_no_violations(store_at: Path, tmp_path: Path) -> None:
    done = run(str(store_at), "--json", str(tmp_path / "audit.json"), "--out", str(tmp_path / "out"))
    assert done.exit_code == 0
    assert "140 queue entries, 140 index entries: 0 violations, 0 notes" in done.stdout
    document = json.loads((tmp_path / "audit.json").read_text())
    assert (document["format"], document["place"]) == ("tornlog-audit/3", str(store_at))
    assert (document["violations"], document["by_promise"], document["cleanExit"]) == ([], {}, True)
    assert pq.read_table(tmp_path / "out").num_rows == 0


def test_violations_are_printed_and_written_as_a_table(store_at: Path, tmp_path: Path) -> None:
    for defect in CLEAN["more entries of queues"]:
        defect.plant(store_at)
    out = tmp_path / "out"
    done = run(str(store_at), "--json", str(tmp_path / "audit.json"), "--out", str(out), "--limit", "3")
    assert done.exit_code == 1
    document, rows = json.loads((tmp_path / "audit.json").read_text()), pq.read_table(out).to_pylist()
    expected = audit(InProcessEngine(), str(store_at)).fields()["violations"]
    assert rows == expected
    assert sum(document["by_promise"].values()) == len(expected) > 3
    assert [one for one in expected if one in document["violations"]] == document["violations"]
    assert len(document["violations"]) == 3
    assert {one["promise"] for one in document["violations"]} == set(document["by_promise"])
    assert f"and {len(expected) - 3} more" in done.stdout


def test_damage_from_an_unclean_exit_is_reported_as_notes(store_at: Path) -> None:
    apply_damage_explained_by_unclean_exit(store_at)
    done = run(str(store_at))
    assert done.exit_code == 0
    assert "note: " in done.stdout
    assert "unclean exit: recovery will" in done.stdout


def test_auditing_a_directory_without_a_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no store"):
        audit(InProcessEngine(), str(tmp_path))
    done = run(str(tmp_path))
    assert done.exit_code == 2
    assert "no store" in done.output


def test_auditing_a_missing_directory_is_refused(tmp_path: Path) -> None:
    done = run(str(tmp_path / "missing"))
    assert done.exit_code == 2
    assert "missing: no such directory" in done.output.replace("\n", "")


def violations_of(counts: dict[DirectoryPromise, int]) -> list[DirectoryViolation]:
    return [
        DirectoryViolation(promise, "file", number, "field", "", "")
        for promise, count in counts.items()
        for number in range(count)
    ]


def test_the_shown_violations_are_shared_equally_among_promises() -> None:
    found = violations_of({DirectoryPromise.LOG: 1, DirectoryPromise.CQ_VALID: 100, DirectoryPromise.IDX: 100})
    shown = select_violations(found, 5)
    assert [(one.promise.value, one.offset) for one in shown] == [
        ("LOG", 0),
        ("CQ-VALID", 0),
        ("CQ-VALID", 1),
        ("IDX", 0),
        ("IDX", 1),
    ]
    assert select_violations(found, 1000) == found
    assert select_violations(found, 0) == []


class OutOfOrder:
    """An engine that returns results in a different order."""

    cores = 2

    def results(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        found = [function(item) for item in items]
        Random(1).shuffle(found)
        yield from found


def test_the_order_of_task_results_does_not_change_the_audit_findings(
    store_at: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audits, "_SPLIT_BYTES", 3000)
    for defect in CLEAN["more entries of queues"]:
        defect.plant(store_at)
    assert audit(OutOfOrder(), str(store_at)).fields() == audit(InProcessEngine(), str(store_at)).fields()


def test_a_read_error_of_a_file_is_raised(store_at: Path) -> None:
    def refused(files: Any, core: Any, item: int) -> int:
        raise PermissionError(13, "refused", f"file {item}")

    with pytest.raises(PermissionError, match="file 7"):
        list(EngineSpread(InProcessEngine(), str(store_at))(refused, [7]))


def test_short_audit_parts_are_processed_in_bundles(store_at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, bundles = [0.0], list[int]()
    monkeypatch.setattr(place_files, "perf_counter", lambda: clock[0])

    class Counting(InProcessEngine):
        def results(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
            for bundle in items:
                bundles.append(len(bundle))
                yield function(bundle)

    def judged(files: Any, core: Any, seconds: float) -> float:
        clock[0] += seconds
        return seconds

    parts = [0.01] * 60 + [2.0] * 3 + [0.3] * 3
    assert list(EngineSpread(Counting(), str(store_at))(judged, parts)) == parts
    assert bundles == [1, 2, 4, 8, 16, 32, 2, 1]


@pytest.mark.parametrize("few_bytes", [0, 3000, 4 << 20])
@pytest.mark.parametrize("group", CLEAN)
def test_a_remote_store_has_the_same_findings_as_a_local_one(
    store_at: Path, monkeypatch: pytest.MonkeyPatch, group: str, few_bytes: int
) -> None:
    monkeypatch.setattr(place_files, "_FEW_BYTES", few_bytes)
    for defect in CLEAN[group]:
        defect.plant(store_at)
    here = verify_directory(overlay_world().files, str(store_at), Geometry(), lambda read_bytes: None)
    files = PlaceFiles(fs.SubTreeFileSystem(str(store_at.parent), fs.LocalFileSystem()))
    spread = spread_in_process(files, load_core())
    there = verify_directory(files, store_at.name, Geometry(), lambda read_bytes: None, spread=spread)
    assert there.fields() == here.fields()


def test_remote_files_cannot_be_written_by_an_audit(store_at: Path) -> None:
    files = PlaceFiles(fs.SubTreeFileSystem(str(store_at), fs.LocalFileSystem()))
    with pytest.raises(OSError, match="only read"):
        files.unlink("checkpoint")
    file = files.map("checkpoint", 4096)
    with pytest.raises(OSError, match="only read"):
        file.store(0, b"x")
    assert bytes(file.view(0, 4096)) == files.read("checkpoint") == (store_at / "checkpoint").read_bytes()
    assert "checkpoint" in files.list_directory("")
    assert files.status("nothing") is None
