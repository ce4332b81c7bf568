import json
from dataclasses import dataclass, replace

import pytest

from tornlog.faults.simulation.artefact import (
    FORMAT,
    FUZZ,
    PROBE,
    ArtefactError,
    document_of,
    read_artefact,
    read_envelope,
    record_from,
    write_artefact,
)
from tornlog.faults.simulation.record import Record
from tornlog.faults.simulation.simulation import Crash
from tornlog.sim.choices import Decision
from tornlog.sim.schedule import TaskSwitch


@dataclass(frozen=True)
class Note:
    text: str
    data: bytes
    times: list[int]


NOTE = Note("lost", b"\0\xff", [1, 2])


def test_an_artefact_document_is_read_back_unchanged() -> None:
    assert read_artefact(write_artefact(FUZZ, NOTE), FUZZ, Note) == NOTE


def test_an_artefact_has_format_kind_versions_and_test() -> None:
    envelope = read_envelope(write_artefact(FUZZ, NOTE, test="test_log.py::test_it"))
    assert (envelope["format"], envelope["kind"], envelope["test"]) == (FORMAT, "fuzz", "test_log.py::test_it")
    assert set(envelope["versions"]) == {"tornlog", "python"}
    assert "test" not in read_envelope(write_artefact(FUZZ, NOTE))


def test_an_artefact_of_another_kind_is_refused_with_its_replay_command() -> None:
    with pytest.raises(ArtefactError, match=r"^kind: expected probe, found fuzz: replay it by tornlog fuzz"):
        read_artefact(write_artefact(FUZZ, NOTE), PROBE, Note)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", f"format: expected {FORMAT}, found list"),
        ("{}", f"format: expected {FORMAT}, found None"),
        ('{"format": "tornlog-run/1"}', f"format: expected {FORMAT}, found tornlog-run/1"),
        ('{"format": "tornlog-failure/2"}', "written by an earlier version: replay it there"),
        ('{"format": "tornlog-finding/1"}', "written by an earlier version: replay it there"),
        (f'{{"format": "{FORMAT}"}}', "kind: expected fuzz, found None"),
        (f'{{"format": "{FORMAT}", "kind": "fuzz"}}', "failure: Expected `object`, got `null`"),
    ],
)
def test_a_text_that_is_no_artefact_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(ArtefactError, match=message):
        read_artefact(text, FUZZ, Note)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("text", 3, "failure.text: Expected `str`, got `int`"),
        ("times", [1, "2"], "failure.times[1]: Expected `int`, got `str`"),
        ("data", "no base64", "failure.data: Invalid base64 encoded string"),
    ],
)
def test_the_error_for_an_artefact_field_of_wrong_type_names_its_path(field: str, value: object, message: str) -> None:
    envelope = json.loads(write_artefact(FUZZ, NOTE))
    envelope["failure"][field] = value
    with pytest.raises(ArtefactError) as caught:
        read_artefact(json.dumps(envelope), FUZZ, Note)
    assert str(caught.value) == message


RECORD = Record(
    (Decision("ann", "step 3 taken", 1, 2, 1), Decision("disk", 'create "/a b" lost', 1, 2, 1)),
    (TaskSwitch("first/ann", "store", 2, "first/bob"),),
    (Crash("first", "xfs", "before", "write /a #2"), Crash("second", "os-crash", "after", "")),
    7,
)


def test_a_record_survives_a_round_trip_with_one_line_per_decision() -> None:
    text = write_artefact(FUZZ, document_of(RECORD))
    assert '["step 3 taken", 1, 2, 1]' in text
    assert '["first", "xfs", "before", "write /a #2"]' in text
    found = read_artefact(text, FUZZ, type(document_of(RECORD)))
    assert record_from(found, 7) == RECORD


def test_labels_keep_spaces_and_line_breaks_in_json() -> None:
    decisions = tuple(Decision("queues", f"T0/0{blanks}skips", 1, 2, 1) for blanks in (" ", "  ", "\n ", "\t"))
    record = replace(RECORD, decisions=decisions)
    text = write_artefact(FUZZ, document_of(record))
    assert record_from(read_artefact(text, FUZZ, type(document_of(record))), 7) == record
    assert '["T0/0  skips", 1, 2, 1]' in text  # one line each


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schedule": ["nonsense"]}, "schedule.0: expected TASK @ LABEL"),
        ({"crashes": [["first"]]}, "failure.crashes[0]: Expected `array` of"),
        ({"crashes": [["first", "zfs", "after", ""]]}, "crashes.0: expected a profile, found zfs"),
        ({"crashes": [["first", "xfs", "never", ""]]}, "expected one of before, during, after, found never"),
        ({"crashes": [["first", "xfs", "after", "here"]]}, "expected KIND PATH #N, found here"),
        ({"decisions": []}, "failure.decisions: Expected `object`, got `array`"),
        ({"decisions": {"disk": [["a", 1, 2, "b"]]}}, "Expected `int`, got `str`"),
    ],
)
def test_the_error_for_an_invalid_record_entry_names_its_path(change: dict[str, object], message: str) -> None:
    envelope = json.loads(write_artefact(FUZZ, document_of(RECORD)))
    envelope["failure"] |= change
    with pytest.raises(ArtefactError) as caught:
        record_from(read_artefact(json.dumps(envelope), FUZZ, type(document_of(RECORD))), 7)
    assert message in str(caught.value)
