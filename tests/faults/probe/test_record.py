"""Records as documents: round trip, and refusal of invalid ones."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tornlog.faults.probe import acknowledge, listen
from tornlog.faults.probe.record import (
    FILE_BYTES_MAX,
    ProgramRecord,
    ProgramTask,
    RecordError,
    SourceLine,
    Step,
    UnseenAction,
    only_promises,
)

RECORD = ProgramRecord(
    ("script.py", "x"),
    (
        Step("create", "/files/a", file=0),
        Step("write", file=0, at=7, data=b"\0\xff", stack=1),
        Step("rename", "/files/a", "/files/b"),
        Step("acknowledge", "done"),
        Step("allocate", file=0, at=7, size=9, by=1, call="fallocate"),
    ),
    ((), (SourceLine("script.py", 3, "put"),)),
    (UnseenAction("os.fork", "another process", 1),),
    tasks=(ProgramTask(0, 0, "main"), ProgramTask(1, 1, "flusher")),
)


def test_a_record_survives_a_round_trip_through_json() -> None:
    asked = replace(RECORD, rules=(("failed-sync", 1),), cuts=(1, 3))
    assert ProgramRecord.from_json(json.loads(RECORD.dumps())) == RECORD
    assert ProgramRecord.from_json(json.loads(asked.dumps())) == asked


def test_unused_fields_of_a_step_are_omitted() -> None:
    assert RECORD.to_json()["steps"][2] == {"do": "rename", "path": "/files/a", "target": "/files/b", "from": 0}


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda one: one.update(format="tornlog-run/1"), "format: expected tornlog-record/2, found tornlog-run/1"),
        (lambda one: one.pop("steps"), "missing required field `steps`"),
        (lambda one: one["steps"][0].update(do="explode"), "step 0: do: expected one of create, .*, found explode"),
        (lambda one: one["steps"][1].update(data="?"), r"Invalid base64 encoded string - at `\$\.steps\[1\]\.data`"),
        (lambda one: one["steps"][1].update(at=-1), "step 1: at: expected 0 to .*, found -1"),
        (lambda one: one["steps"][1].update(at=FILE_BYTES_MAX), f"step 1: at: .*, found {FILE_BYTES_MAX}"),
        (lambda one: one["steps"][1].update({"from": 2}), "step 1: from: expected less than 2, found 2"),
        (lambda one: one["steps"][4].update(size=-1), "step 4: size: expected at least 0, found -1"),
        (lambda one: one["steps"][4].update(size=FILE_BYTES_MAX), "step 4: at: .*, found 7"),
        (lambda one: one["steps"][4].update(by=2), "step 4: by: expected less than 2, found 2"),
        (lambda one: one["steps"].append(7), r"Expected `object`, got `int` - at `\$\.steps\[5\]`"),
    ],
)
def test_an_invalid_record_is_refused(spoil: Any, message: str) -> None:
    document = json.loads(RECORD.dumps())
    spoil(document)

    with pytest.raises(RecordError, match=message):
        ProgramRecord.from_json(document)


def test_a_record_in_the_previous_format_is_converted() -> None:
    document = json.loads(ProgramRecord((), (Step("allocate", file=0, at=16),), ((),)).dumps())
    document["format"] = "tornlog-record/1"
    del document["tasks"]

    record = ProgramRecord.from_json(document)
    assert record.steps == (Step("allocate", file=0, at=0, size=16),)
    assert record.tasks == (ProgramTask(0, 0, ""),)


def test_json_that_is_not_a_record_is_refused() -> None:
    with pytest.raises(RecordError, match="found list"):
        ProgramRecord.from_json([])


def test_printed_lines_count_only_without_explicit_promises() -> None:
    printed, promised, other = Step("acknowledge", "line"), Step("acknowledge", "promise"), Step("sync all")

    assert only_promises([printed, other], {0}) == [printed, other]
    assert only_promises([printed, other, promised], {0}) == [other, promised]


def test_acknowledge_is_a_no_op_without_listeners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tornlog.faults.probe._listeners", [])
    heard: list[str] = []
    acknowledge("before")
    listen(heard.append)
    acknowledge("order 7")

    assert heard == ["order 7"]
