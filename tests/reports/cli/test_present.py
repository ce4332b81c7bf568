from collections import Counter
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from tests.fixtures import QUIET_SCENARIO
from tornlog.faults.simulation.failure_text import print_failure
from tornlog.reports.cli.mutation_result import MutationResults, mutation_result
from tornlog.reports.cli.run_result import RunResults, run_result
from tornlog.reports.results.coverage import pairs_lines
from tornlog.reports.results.model import On, Result, ResultTable, Row
from tornlog.reports.results.terminal import print_block
from tornlog.scenarios.campaigns.coverage import faults_in
from tornlog.scenarios.campaigns.failures.failure import Failure
from tornlog.scenarios.campaigns.failures.failure_text import failure_text
from tornlog.scenarios.campaigns.mutation_run import MutantFind, MutantResult
from tornlog.scenarios.campaigns.pairs import OccurredPairs
from tornlog.scenarios.campaigns.runner import CampaignReach, Tally
from tornlog.scenarios.oracle.evidence import Violation
from tornlog.scenarios.oracle.invariants import INVARIANTS
from tornlog.scenarios.runs.marks import MARKS


def console(*, terminal: bool = False) -> tuple[Console, StringIO]:
    """Return a console of 80 columns without colours, and its output."""
    printed = StringIO()
    return Console(file=printed, width=80, force_terminal=terminal, color_system=None, highlight=False), printed


def lines_of(printed: StringIO) -> list[str]:
    return [line.rstrip() for line in printed.getvalue().splitlines()]


def printed_of(result: Result, *, verbose: bool = False) -> StringIO:
    out, printed = console()
    for block in result.blocks:
        if block.on & (On.VERBOSE if verbose else On.TERMINAL) and not block.is_empty:
            print_block(out, block, verbose=verbose)
    return printed


def test_large_numbers_and_long_names_fit_the_table() -> None:
    scenario = replace(QUIET_SCENARIO, name="consumed-message-durable")
    tally = Tally(scenario, seeds=1_000_000, crash_points=2_500_000, violations=3)
    tally.injected["torn page"] = 1_234_567
    result = run_result(RunResults("", [tally], 3600.0))
    printed = printed_of(result)
    assert result.headline == "1,000,000 seeds in 3600.0 s: 3 broken"
    assert lines_of(printed)[-1].split() == [scenario.name, "1,000,000", "2,500,000", "1,234,567", "3"]


def test_wrapped_lines_of_a_stacked_cell_keep_their_indent() -> None:
    row = Row(("rename a -> b", "missing: fsync", "3 rename a -> b  renameat2  by a program with a long name", "7"))
    out, printed = console()
    out.width = 40
    texts, figures = ("effect", "missing", "step"), ("steps",)
    block = ResultTable("Effects", On.TERMINAL, texts=texts, figures=figures, rows=(row,), is_stacked=True)
    print_block(out, block)
    shown = [line.rstrip() for line in lines_of(printed)[-4:]]
    assert shown[0].split() == ["rename", "a", "->", "b", "7"]
    assert shown[1:] == ["  missing: fsync", "  3 rename a -> b  renameat2  by", "  a program with a long name"]


def test_injected_faults_are_summarised_and_missing_faults_are_named() -> None:
    first = Counter({"torn page": 2, "crash before store": 3, "crash": 9, "crash strict-posix": 9})
    second = Counter({"torn page": 5, "crash before sync directory": 1, "crash during store": 1})
    tallies = [
        Tally(QUIET_SCENARIO, injected=first, marks=Counter({"index rolls": 1})),
        Tally(
            QUIET_SCENARIO,
            injected=second,
            marks=Counter({"index rolls": 1}),
            pairs=Counter({("batches", "consumers"): 3}),
        ),
    ]
    result = run_result(RunResults("", tallies, 1.0))
    coverage = [block for block in result.blocks if block.title in ("Coverage", "")][1:]
    printed = printed_of(replace(result, blocks=coverage), verbose=True)
    possible = faults_in([QUIET_SCENARIO])
    *text, of_pairs = [line.split() for line in lines_of(printed) if line]
    assert text == [
        ["injected", "faults"],
        ["torn", "page", "7"],
        f"  faults that never occurred: {', '.join(kind for kind in possible if kind != 'torn page')}".split(),
        ["crashes", "by", "moment", "and", "by", "disk"],
        ["on", "strict-posix", "9"],
        ["before", "an", "operation", "4"],
        ["during", "an", "operation", "1"],
        ["marks", "reached"],
        ["index", "rolls", "2"],
        f"  marks that never occurred: {', '.join(mark for mark in MARKS if mark != 'index rolls')}".split(),
    ]
    assert of_pairs[:8] == ["pairs", "of", "features", "and", "faults", "that", "never", "occurred"]


def test_a_run_without_violations_is_reported_in_five_lines() -> None:
    injected = Counter({"torn page": 2, "page lost": 9, "page kept": 1, "name lost": 1, "crash": 9})
    printed = printed_of(
        run_result(RunResults("", [Tally(QUIET_SCENARIO, seeds=5, crash_points=9, injected=injected)], 1.0))
    )

    assert [line.split()[0] for line in lines_of(printed)] == ["ran", "faults", "never", "marks", "more"]
    assert lines_of(printed)[0] == "  ran      1 scenario, 9 crash points"
    assert lines_of(printed)[1] == "  faults   13 of 4 kinds: page lost 9, torn page 2, page kept 1, ..."


def test_a_run_with_violations_has_a_row_for_broken_scenarios_only() -> None:
    tallies = [Tally(QUIET_SCENARIO, seeds=5), Tally(replace(QUIET_SCENARIO, name="broke"), seeds=5, violations=1)]
    not_run = ("crash-in-recovery", "segment-rollover-crash")
    printed = printed_of(run_result(RunResults("", tallies, 1.0, reach=CampaignReach(4, not_run))))

    assert "  not run  crash-in-recovery, segment-rollover-crash" in lines_of(printed)
    assert lines_of(printed)[-1].split() == ["broke", "5", "0", "0", "1"]
    assert not [line for line in lines_of(printed) if line.startswith("quiet")]


def test_missing_pairs_are_summarised_by_their_most_frequent_names() -> None:
    never = "pairs of features and faults that never occurred in the same run:"
    found = pairs_lines(OccurredPairs(1_200, [("batches", "consumers"), ("batches", "filters")]))
    assert found == [f"{never} 2 of 1,202, most with batches (2)"]
    assert pairs_lines(OccurredPairs(3, [])) == []


def printed_failure_lines(failure: Failure, *, terminal: bool) -> list[str]:
    out, printed = console(terminal=terminal)
    print_failure(out, failure_text(failure, "tornlog replay failure.json"))
    return lines_of(printed)


def test_prose_on_a_terminal_is_wrapped_within_its_indent(failure: Failure) -> None:
    wordy = replace(failure, claim="what is said is done, " * 10)
    found = printed_failure_lines(wordy, terminal=True)
    assert all(len(line) <= 80 for line in found)
    assert sum("what is said is done" in line for line in found) > 2
    assert all(line.startswith("  ") for line in found[2:])


def test_output_to_a_pipe_is_not_wrapped(failure: Failure) -> None:
    claim = "what is said is done, " * 10
    assert f"  claim: {claim}".rstrip() in printed_failure_lines(replace(failure, claim=claim), terminal=False)


def with_violations(failure: Failure, violations: list[Violation]) -> Failure:
    return replace(failure, original=replace(failure.original, violations=violations))


def test_a_violation_shows_file_offset_field_expected_and_found(failure: Failure) -> None:
    violation = Violation("DUR", "m1 is [gone]", "commitlog/0", 4096, "record", "m1", "KEYS\1m2\2TAGS\1a")
    found = printed_failure_lines(with_violations(failure, [violation]), terminal=False)
    at = found.index("  DUR: m1 is [gone]")
    assert found[at + 1 : at + 6] == [
        f"    promise:  {INVARIANTS['DUR']}",
        "    file:     commitlog/0 @ byte 4096",
        "    field:    record",
        "    expected: m1",
        "    found:    KEYS·m2·TAGS·a",
    ]


@pytest.mark.parametrize(
    ("expected", "found", "facts"),
    [
        ("", "", ""),
        ("a segment", "", ": load: expected a segment"),
        ("", "0 bytes", ": load: found 0 bytes"),
        ("1024", "0", ": load: expected 1024, found 0"),
    ],
)
def test_a_violation_without_expected_or_found_values_has_no_empty_lines(
    expected: str, found: str, facts: str, failure: Failure
) -> None:
    violation = Violation("START", "the store cannot be opened", field="load", expected=expected, found=found)

    assert str(violation) == f"START: the store cannot be opened{facts}"
    shown = printed_failure_lines(with_violations(failure, [violation]), terminal=False)
    assert not [line for line in shown if line.endswith(":") and line != "  events:"]
    assert ("    field:    load" in shown) == bool(facts)


def test_a_deadlock_report_has_a_line_for_every_task(failure: Failure) -> None:
    violation = Violation("LIVE", "deadlock at 3 ms\n  a waits for b\n  b waits for a", field="progress")
    found = printed_failure_lines(with_violations(failure, [violation]), terminal=False)
    at = found.index("  LIVE: deadlock at 3 ms")
    promise = f"    promise:  {INVARIANTS['LIVE']}"
    assert found[at + 1 : at + 5] == ["    a waits for b", "    b waits for a", promise, "  events:"]


def test_only_the_first_of_many_violations_are_shown_and_the_rest_is_counted(failure: Failure) -> None:
    found = printed_failure_lines(with_violations(failure, failure.violations * 8), terminal=False)
    assert sum(line.startswith("  STATUS: ") for line in found) == 3
    assert "  and 5 more like it" in found


def test_the_replay_command_is_never_wrapped(failure: Failure) -> None:
    out, printed = console(terminal=True)
    again = f"tornlog replay {'very-' * 30}long.json"
    print_failure(out, failure_text(failure, again))
    assert f"  reproduce: {again}" in printed.getvalue()


def test_a_surviving_mutant_is_highlighted() -> None:
    printed = StringIO()
    coloured = Console(file=printed, width=80, force_terminal=True, color_system="standard")
    found = MutantResult("ant", (MutantFind("combined-faults", 8, "DUR", 9, 1.0),), 9, 1.0, reached=9, bit=None)
    missed = MutantResult("stale-tail-after-truncate", (), 9, 1.0, reached=0, bit=0)
    found = replace(found, id="ack-before-flush")
    result = mutation_result(MutationResults("", [missed, found], 1.0, {}))
    print_block(coloured, result.blocks[1], verbose=True)
    red = [line for line in printed.getvalue().splitlines() if "\x1b[31m" in line]
    assert ["not found" in line for line in red] == [False, True]
