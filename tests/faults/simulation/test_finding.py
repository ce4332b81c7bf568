from dataclasses import replace

from tornlog.faults.simulation.finding import Finding, steps_taken
from tornlog.faults.simulation.record import Record
from tornlog.faults.simulation.simulation import Crash
from tornlog.sim.choices import Decision
from tornlog.sim.schedule import TaskSwitch

FINDING = Finding(
    7,
    Record(
        (Decision("ann", "step 3 taken", 1, 2, 1), Decision("disk of first", "create /a lost", 1, 2, 1)),
        (TaskSwitch("first/ann", "store", 2, "first/bob"),),
        (Crash("first", "xfs", "before", "write /a #2"), Crash("second", "os-crash", "after", "")),
        None,
    ),
    "puts are kept",
    "puts are kept: a is gone",
    "d1",
    99,
    ("    0.000 ms  first/ann: create /a", "    0.100 ms  first/ann: kill first"),
)


def test_the_text_of_a_finding_is_complete() -> None:
    assert str(FINDING) == (
        "seed 7: puts are kept: a is gone\n"
        "  workload  ann, step 3\n"
        "  crashes   first: xfs, before write /a #2\n"
        "            second: os-crash, at its end\n"
        "  schedule  first/ann @ store #2 -> first/bob\n"
        "  draws     disk of first: create /a lost #1: 1 of 2\n"
        "  events        0.000 ms  first/ann: create /a\n"
        "                0.100 ms  first/ann: kill first"
    )


def test_the_text_of_a_shrunk_finding_names_the_raising_file_and_line() -> None:
    shrunk = replace(FINDING, raised="/home/ann/wal.py:12 in judge", is_shrunk=True)
    lines = str(shrunk).splitlines()

    assert lines[:2] == ["shrunk from seed 7: puts are kept: a is gone", "  raised    wal.py:12 in judge"]
    assert shrunk.text("src/wal.py:12 in judge").splitlines()[1] == "  raised    src/wal.py:12 in judge"
    assert lines[2:] == str(FINDING).splitlines()[1:]


def test_a_finding_survives_a_round_trip_through_json() -> None:
    for finding in (FINDING, replace(FINDING, raised="/wal.py:12 in judge", is_shrunk=True)):
        assert Finding.from_json(finding.to_json()) == finding


def test_steps_taken_excludes_other_draws() -> None:
    assert steps_taken(FINDING.record) == FINDING.record.decisions[:1]
