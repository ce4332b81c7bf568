import json
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import tornlog
from tests.store.rigs import verified
from tornlog.reports.cli import directories as commands
from tornlog.reports.cli import present_directories
from tornlog.store.config import StoreConfig
from tornlog.store.formats.messages import Message
from tornlog.store.message_store import MessageStore
from tornlog.store.tools.violation import DirectoryPromise

GOLDEN = Path(__file__).parents[2] / "golden"
CASES = sorted(path.parent.name for path in GOLDEN.glob("*/manifest.json"))
SILENT_14 = {*("14-abn-ckpt-zero", "14-abn-control"), *("14-abn-first-files-deleted", "14-cln-abort-created")}
"""Stores whose damage `verify` does not check."""
EXPLAINED_14 = {
    *("14-abn-combo", "14-abn-cq-tail-garbage", "14-abn-flip-last-body", "14-abn-lost-tail-cq-ahead"),
    *("14-abn-torn-tail", "14-abn-index-header-garbage"),
}
"""Damage after an unclean exit, at the end of the log or in rebuilt files: notes only."""
INDEXED_TWICE = {"09-kill9-async", "09b-kill9-async-nopace", "10-kill9-sync", "11-kill9-transientpool"}
"""Stores in which RocketMQ's recovery indexed the last record a second time."""


run = partial(tornlog, "verify")


@pytest.fixture
def root(golden: Callable[[str], Any]) -> Path:
    before: Path = golden("08-clean-shutdown").before
    return before


@pytest.mark.parametrize("case", CASES)
def test_verify_accepts_undamaged_stores_of_rocketmq_and_reports_damaged_ones(
    golden: Callable[..., Any], case: str
) -> None:
    store = golden(case)
    found = verified(store.before)
    silent = not case.startswith("14-") or case in SILENT_14
    assert bool(found.findings.violations) == (not silent and case not in EXPLAINED_14)
    assert bool(found.findings.notes) <= (not silent)
    if case in EXPLAINED_14:
        assert found.findings.notes
        assert found.findings.unclean_exit


@pytest.mark.parametrize("case", [case for case in CASES if not case.startswith("14-")])
def test_verify_counts_as_many_records_and_entries_as_rocketmq(golden: Callable[..., Any], case: str) -> None:
    store = golden(case)
    found = verified(store.after)
    records = store.observed["commitLogRecords"]
    blanks = sum(isinstance(record, dict) and record.get("blank", False) for record in records)

    twice = {(violation.promise, violation.found) for violation in found.findings.violations}
    assert twice == ({(DirectoryPromise.IDX, "a duplicate")} if case in INDEXED_TWICE else set())
    assert found.counts["records"] == len(records) - blanks
    assert found.counts["blanks"] == blanks
    entries = sum(len(queue["entries"]) for queue in store.observed["queues"])
    assert found.counts["entries"] - found.counts["expiredEntries"] == entries
    assert found.counts["segments"] == len(store.observed["commitLogFiles"])


def test_every_one_of_many_violations_is_reported(root: Path) -> None:
    for base in (0, 49152, 98304):
        path = root / f"commitlog/{base:020}"
        raw = bytearray(path.read_bytes())
        raw[88] ^= 1
        path.write_bytes(raw)
    queue = root / "consumequeue/Mix0/0/00000000000000000000"
    raw = bytearray(queue.read_bytes())
    raw[19] ^= 1
    raw[39] ^= 1
    queue.write_bytes(raw)
    found = verified(root).findings.violations

    assert [(v.promise, v.file, v.offset, v.field) for v in found] == [
        (DirectoryPromise.LOG, "commitlog/00000000000000000000", 8, "bodyCRC"),
        (DirectoryPromise.LOG, "commitlog/00000000000000049152", 8, "bodyCRC"),
        (DirectoryPromise.LOG, "commitlog/00000000000000098304", 8, "bodyCRC"),
        (DirectoryPromise.CQ_VALID, "consumequeue/Mix0/0/00000000000000000000", 12, "tagsCode"),
        (DirectoryPromise.CQ_VALID, "consumequeue/Mix0/0/00000000000000000000", 32, "tagsCode"),
    ]


def test_a_corrupt_record_does_not_hide_later_records(root: Path) -> None:
    records = verified(root).counts["records"]
    raw = bytearray((root / f"commitlog/{0:020}").read_bytes())
    raw[0:8] = b"\xff" * 8
    (root / f"commitlog/{0:020}").write_bytes(raw)
    assert verified(root).counts["records"] == records - 1


def test_each_record_of_a_missing_queue_is_reported(root: Path) -> None:
    shutil.rmtree(root / "consumequeue/Mix2/1")
    found = verified(root).findings.violations
    assert len(found) == 35
    assert {violation.promise for violation in found} == {DirectoryPromise.CQ_COMPLETE}
    assert str(found[0]).endswith("expected entry 0 in consumequeue/Mix2/1, found none [CQ-COMPLETE]")


def test_a_missing_queue_after_an_unclean_exit_is_a_note_unless_the_checkpoint_covers_it(root: Path) -> None:
    shutil.rmtree(root / "consumequeue/Mix2/1")
    (root / "abort").touch()
    (root / "checkpoint").write_bytes(bytes(4096))
    explained = verified(root).findings
    times = (1795167809662 + 3001).to_bytes(8, "big") * 2
    (root / "checkpoint").write_bytes(times + bytes(4072))
    vouched = verified(root).findings

    assert explained.violations == []
    assert "recovery will add 35 entries to the queue" in explained.notes[0]
    assert [violation.promise for violation in vouched.violations] == [DirectoryPromise.CQ_COMPLETE] * 35 + [
        DirectoryPromise.CKPT
    ]


def test_zeros_are_damage_before_records_but_not_at_the_end_of_the_log(root: Path) -> None:
    path = root / f"commitlog/{16384:020}"
    path.write_bytes(bytes(16384))
    found = verified(root).findings.violations
    assert str(found[0]) == (
        "commitlog/00000000000000016384 @ 0: magicCode: expected a record, because records follow, found zeros [LOG]"
    )


def test_a_blank_record_must_fill_its_segment(root: Path) -> None:
    path = root / f"commitlog/{0:020}"
    raw = bytearray(path.read_bytes())
    at = raw.rindex(bytes.fromhex("cbd43194")) - 4
    raw[at : at + 4] = (16384 - at + 1).to_bytes(4, "big")
    path.write_bytes(raw)
    found = verified(root).findings.violations
    assert [(v.offset, v.field, v.expected) for v in found] == [
        (at, "totalSize", f"{16384 - at}, the rest of the segment")
    ]


def test_a_partly_created_segment_after_a_crash_is_a_note(root: Path) -> None:
    (root / f"commitlog/{131072:020}").write_bytes(bytes(512))
    clean = verified(root).findings
    (root / "abort").touch()
    unclean = verified(root).findings
    assert [str(violation) for violation in clean.violations] == [
        "commitlog/00000000000000131072 @ 0: file size: expected 16384, found 512, all zero [LOG]"
    ]
    assert unclean.violations == []
    assert unclean.notes[0].endswith("recovery will remove the unfinished segment")


def test_an_empty_log_that_contradicts_the_checkpoint_is_a_violation(root: Path) -> None:
    for path in (root / "commitlog").iterdir():
        path.unlink()
    found = verified(root).findings.violations
    assert {violation.promise for violation in found} == {
        DirectoryPromise.CQ_VALID,
        DirectoryPromise.IDX,
        DirectoryPromise.CKPT,
    }


def test_json_contains_everything_that_the_terminal_truncates(
    root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shutil.rmtree(root / "consumequeue")
    monkeypatch.setattr(commands, "_LINES_MAX", 2)
    result = run(str(root), "--json", str(tmp_path / "v.json"))
    fields = json.loads((tmp_path / "v.json").read_text())

    assert result.exit_code == 1
    assert result.stderr == ""
    assert len(result.stdout.splitlines()) == 3
    assert result.stdout.endswith("... and 271 more; --json lists all\n")
    assert fields["format"] == "tornlog-verify/1"
    assert fields["cleanExit"] is True
    assert len(fields["violations"]) == 273
    assert fields["violations"][0].keys() == {"promise", "file", "offset", "field", "expected", "found"}


def test_notes_are_shown_and_do_not_fail_the_command(
    golden: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    torn = golden("14-abn-lost-tail-cq-ahead").before
    monkeypatch.setattr(present_directories, "_NOTES_MAX", 3)
    result = run(str(torn))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.count("note: ") == 3
    assert "... and 5 more notes" in result.stdout


def test_a_long_log_has_a_progress_bar_on_a_terminal_only(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "_LONG_BYTES", 1)
    quiet = run(str(root))
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = run(str(root))
    assert quiet.stderr == ""
    assert "reading the log" in shown.stderr
    assert shown.exit_code == 0


def test_our_store_passes_verify_while_idle_and_after_the_stop(
    tmp_path: Path, started: Callable[..., MessageStore]
) -> None:
    config = StoreConfig(str(tmp_path / "own"), mapped_file_size_commit_log=4096, mapped_file_size_consume_queue=100)
    store = started(config)
    for number in range(60):
        store.put_message(Message.create("Own", b"x" * (number * 7), queue_id=number % 3, tags="T"))
    while store.dispatch_behind_bytes:
        time.sleep(0.001)
    alive = verified(tmp_path / "own").findings
    store.shutdown()
    ended = verified(tmp_path / "own")

    assert alive.violations == ended.findings.violations == ended.findings.notes == []
    assert ended.counts["entries"] == ended.counts["records"] == 60


@pytest.mark.parametrize("case", ["08-clean-shutdown", "14-abn-combo"])
def test_two_verify_processes_have_the_same_findings_as_one(
    golden: Callable[..., Any], tmp_path: Path, case: str
) -> None:
    root, results = golden(case).before, []
    for jobs in ("1", "2"):
        out = tmp_path / f"{jobs}.json"
        results.append((run(str(root), "--json", str(out), "--jobs", jobs).exit_code, json.loads(out.read_text())))
    assert results[0] == results[1]
