import json
from dataclasses import replace

import pytest

from tornlog.faults.simulation.finding import Finding, TrialRecord
from tornlog.faults.simulation.simulation import Crash
from tornlog.sim.choices import Decision
from tornlog.sim.schedule import Switch

FINDING = Finding(
    7,
    TrialRecord(
        (Decision("ann", "step 3 taken", 1, 2, 1), Decision("disk of first", "create /a lost", 1, 2, 1)),
        (Switch("first/ann", "store", 2, "first/bob"),),
        (Crash("first", "xfs", "before", "write /a #2"), Crash("second", "os-crash", "after", "")),
    ),
    "puts are kept",
    "puts are kept: a is gone",
    "d1",
    99,
    ("    0.000 ms  first/ann: create /a", "    0.100 ms  first/ann: kill first"),
)


def test_a_finding_as_text_is_all_there_is_to_read() -> None:
    assert str(FINDING) == (
        "seed 7: puts are kept: a is gone\n"
        "  workload  ann, step 3\n"
        "  crashes   first: xfs, before write /a #2\n"
        "            second: os-crash, at its end\n"
        "  schedule  first/ann @ store #2 -> first/bob\n"
        "  draws     disk of first: create /a lost #1: 1 of 2\n"
        "  story         0.000 ms  first/ann: create /a\n"
        "                0.100 ms  first/ann: kill first"
    )


def test_a_shrunk_finding_says_so_and_names_the_file_and_line_that_raised() -> None:
    shrunk = replace(FINDING, raised="/home/ann/wal.py:12 in judge", is_shrunk=True)
    lines = str(shrunk).splitlines()

    assert lines[:2] == ["shrunk from seed 7: puts are kept: a is gone", "  raised    wal.py:12 in judge"]
    assert shrunk.text("src/wal.py:12 in judge").splitlines()[1] == "  raised    src/wal.py:12 in judge"
    assert lines[2:] == str(FINDING).splitlines()[1:]


def test_a_finding_outlives_its_document() -> None:
    for finding in (FINDING, replace(FINDING, raised="/wal.py:12 in judge", is_shrunk=True)):
        assert Finding.from_json(finding.to_json()) == finding


def test_a_document_that_says_neither_where_it_raised_nor_whether_it_was_shrunk_is_read() -> None:
    document = json.loads(FINDING.to_json())
    del document["raised"], document["shrunk"]

    assert Finding.from_json(json.dumps(document)) == FINDING


def test_the_steps_taken_are_told_from_other_draws() -> None:
    assert FINDING.record.taken == FINDING.record.decisions[:1]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"format": "tornlog-failure/2"}, "format: expected tornlog-finding/1, found tornlog-failure/2"),
        ({"schedule": ["nonsense"]}, "expected TASK @ LABEL"),
        ({"crashes": [["first"]]}, "not a finding: TypeError"),
        ({"crashes": [["first", "zfs", "after", ""]]}, "crashes: expected a profile, found zfs"),
        ({"crashes": [["first", "xfs", "never", ""]]}, "expected one of before, during, after, found never"),
        ({"crashes": [["first", "xfs", "after", "here"]]}, "expected KIND /PATH #N, found here"),
        ({"decisions": []}, "not a finding: AttributeError"),
        ({"story": None}, "not a finding: TypeError"),
    ],
)
def test_another_document_is_refused_by_what_is_wrong_with_it(
    change: dict[str, object], complaint: str
) -> None:
    document = json.loads(FINDING.to_json()) | change

    with pytest.raises(ValueError, match=complaint):
        Finding.from_json(json.dumps(document))


@pytest.mark.parametrize("field", ["seed", "error", "digest", "steps", "signature"])
def test_a_document_that_lacks_a_field_is_refused(field: str) -> None:
    document = json.loads(FINDING.to_json())
    del document[field]

    with pytest.raises(ValueError, match=f"not a finding: KeyError: '{field}'"):
        Finding.from_json(json.dumps(document))


def test_what_is_no_document_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="format: expected tornlog-finding/1, found list"):
        Finding.from_json("[]")
