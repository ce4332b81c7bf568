from collections.abc import Mapping, Sequence

from tornlog.faults.kinds import FAULTS
from tornlog.reports.results.coverage import coverage_blocks
from tornlog.reports.results.model import Bars, Group
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.runs.marks import MARKS

INJECTED = {"torn page": 1000, "bit rot": 1, "short write": 0, "crash": 3, "crash xfs": 3, "crash during sync": 2}


def coverage_groups(injected: Mapping[str, int], marks: Mapping[str, int]) -> Sequence[Group]:
    bars = coverage_blocks(injected, marks, {}, SCENARIOS.values())[0]
    assert isinstance(bars, Bars)
    return bars.groups


def test_bars_are_sorted_from_the_most_frequent_to_the_rarest() -> None:
    faults, _, _ = coverage_groups(INJECTED, {})
    assert [(bar.name, bar.times) for bar in faults.bars] == [("torn page", 1000), ("bit rot", 1)]
    assert faults.bars[0].percent == 100
    assert 0 < faults.bars[1].percent < 20
    assert faults.bars[0].meaning == FAULTS["torn page"]


def test_fault_names_that_never_occurred_are_listed() -> None:
    faults, _, marks = coverage_groups(INJECTED, {"index rolls": 4})
    assert [one.name for one in faults.never] == [name for name in FAULTS if name not in ("torn page", "bit rot")]
    assert [one.name for one in marks.never] == [name for name in MARKS if name != "index rolls"]


def test_crash_causes_are_not_counted_as_faults() -> None:
    faults, ends, _ = coverage_groups(INJECTED, {})
    assert {bar.name: bar.times for bar in ends.bars} == {"on xfs": 3, "during an operation": 2}
    assert not [bar.name for bar in faults.bars if bar.name.startswith("crash")]
    assert ends.never == []


def test_empty_coverage_counts_give_a_page_without_bars() -> None:
    faults, ends, marks = coverage_groups({}, {})
    assert (faults.bars, ends.bars, marks.bars) == ([], [], [])
    assert len(faults.never) == len(FAULTS)
