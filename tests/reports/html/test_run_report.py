import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.reports.html.outline import Outline
from tornlog.faults.kinds import FAULTS
from tornlog.reports.cli import reporting
from tornlog.reports.cli.reporting import FailureLinks, write_timelines
from tornlog.reports.cli.run_result import RunResults, failures_by_kind_in_turn, run_result
from tornlog.reports.html.render import render_page
from tornlog.scenarios.campaigns.causes import Cause, ViolationKind
from tornlog.scenarios.campaigns.failures.failure import Failure
from tornlog.scenarios.campaigns.runner import Batch, Tally, run_batches
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.claims.disk_models import DISK_MODELS
from tornlog.scenarios.mutants.versions import VERSIONS
from tornlog.scenarios.oracle.evidence import Violation
from tornlog.scenarios.oracle.invariants import INVARIANTS

NAME = "sync-flush-power-cut"
EVIL = '</pre><script>alert(1)</script><img src=x onerror=alert(2)>"\x1b[31m\ud800'


def tally_of(seeds: int = 2, **options: Any) -> Tally:
    return run_batches([Batch(SCENARIOS[NAME], 0, seeds, **options)])[NAME]


def page_in(directory: Path) -> str:
    return (directory / "report.html").read_text("utf-8")


def results_of(failure: Failure, tally: Tally, **more: Any) -> RunResults:
    row = ViolationKind("STATUS", "answer", 1, {failure.scenario: 1}, (failure,))
    left = {failure.signature: FailureLinks(failure, "tornlog replay x.json", failure.signature)}
    return RunResults("tornlog run", [tally], 1.0, [row], failures=left, **more)


def run_page(results: RunResults) -> str:
    return render_page(run_result(results))


# Runs


def test_the_page_of_a_run_without_violations_starts_with_the_verdict(held: Path) -> None:
    html = page_in(held)
    page = Outline(html)
    assert '<div class="verdict held">' in html
    assert re.search(r"<h1>.*Every promise held</h1>", html)
    assert f"tornlog run --seeds 1 --out {held}" in page.text
    assert "is-broken" not in html.partition("<body>")[2]
    assert page.tags.count("h1") == 1
    assert "failures" not in page.anchors
    for scenario in SCENARIOS.values():
        assert scenario.name in page.text
        assert scenario.claim in page.text
    for name in (*INVARIANTS, *DISK_MODELS):
        assert name in page.text


def test_the_page_of_a_run_with_violations_counts_them(broken: Path) -> None:
    html = page_in(broken)
    rows = json.loads((broken / "run.json").read_text())["scenarios"]
    violated = sum(row["violations"] for row in rows)
    heading = Outline(re.findall(r"<h1>.*</h1>", html)[0]).text
    names = {cell["invariant"] for row in rows for cell in row["broken"]}
    assert len(names) > 1
    assert '<div class="verdict broken">' in html
    assert heading.endswith(f"broken in {violated} of 40 seeds")
    assert all(name in heading for name in names)
    assert "with the bug born-time-in-seconds" in html


def test_the_promise_table_shows_which_promise_broke_on_which_disk(broken: Path) -> None:
    html = page_in(broken)
    rows = json.loads((broken / "run.json").read_text())["scenarios"]
    expected: dict[tuple[str, str], int] = {}
    tried: dict[tuple[str, str], int] = {}
    judged = 0
    for row in rows:
        for cell in row["broken"]:
            place = (cell["invariant"], cell["disk"])
            expected[place] = expected.get(place, 0) + cell["seeds"]
        for cell in row["tried"]:
            place = (cell["invariant"], cell["disk"])
            tried[place] = tried.get(place, 0) + cell["seeds"]
        judged += sum(row["disks"].values())
    assert judged == 40
    table = html.partition('<table class="matrix">')[2].partition("</table>")[0]
    columns = list(DISK_MODELS)
    found = {}
    for row in re.findall(r"<tr>(?:(?!</tr>).)*</tr>", table, re.DOTALL)[1:]:
        invariant = re.findall(r'<th scope="row">([A-Z-]+)<small>', row)[0]
        cells = re.findall(r"<td class=.*?</td>", row)
        assert len(cells) == len(columns)
        for disk, cell in zip(columns, cells, strict=True):
            told = re.search(r"broken in ([\d,]+) of ([\d,]+) seeds", cell)
            if told:
                assert int(told[2]) == tried[invariant, disk] <= judged
                found[invariant, disk] = int(told[1])
    assert found == expected


def test_every_link_of_a_run_report_has_a_target(held: Path, broken: Path) -> None:
    for directory in (held, broken):
        page = Outline(page_in(directory))
        assert page.links
        assert len(page.anchors) == len(set(page.anchors))
        assert page.dead_links(directory) == []


def test_each_failure_has_its_events_and_a_replay_command(broken: Path) -> None:
    html = page_in(broken)
    page = Outline(html)
    paths = sorted((broken / "failures").iterdir())
    assert len(paths) > 1
    for path in paths:
        failure = Failure.from_json(path.read_text())
        assert failure.signature in page.anchors
        assert failure.claim in page.text
        assert failure.violations[0].summary in page.text
        assert f"tornlog replay {path}" in page.text
        assert all(line in page.text for line in failure.original.story[-10:])
        assert f"timelines/{failure.signature}.html" in page.links
        assert failure.scenario in (broken / "timelines" / f"{failure.signature}.html").read_text("utf-8")


# Unusual runs


def test_texts_of_a_run_are_html_escaped(failure: Failure) -> None:
    violation = Violation("STATUS", EVIL, EVIL, 1, EVIL, EVIL, EVIL)
    original = replace(failure.original, violations=[violation], story=[EVIL])
    evil = replace(failure, scenario=EVIL, claim=EVIL, original=original)
    row = ViolationKind("STATUS", EVIL, 1, {EVIL: 1}, (evil,), (Cause(EVIL, 1, 1, 1),))
    tally = tally_of()
    tally.scenario = replace(tally.scenario, name=EVIL, claim=EVIL)
    tally.injected[EVIL] = tally.marks[EVIL] = 1
    tally.errors.append(EVIL)
    left = {evil.signature: FailureLinks(evil, EVIL, EVIL, EVIL, EVIL)}
    results = RunResults(EVIL, [tally], 1.0, [row], EVIL, None, {"faults": [EVIL]}, left)
    html = run_page(results)
    page = Outline(html)
    assert not {"script", "img"} & set(page.tags)
    assert page.text.count("<script>alert(1)</script>") > 10
    assert html.encode("utf-8").isascii() is False
    assert "\x1b" not in html


def test_seeds_without_a_verdict_do_not_count_as_passed() -> None:
    tally = tally_of()
    tally.errors.append("Traceback: it broke")
    tally.nondeterministic.append("x --seed 1: two digests")
    html = run_page(RunResults("tornlog run", [tally], 1.0))
    assert '<div class="verdict broken">' in html
    assert "2 seeds without a verdict" in html
    page = Outline(html)
    assert "Traceback: it broke" in page.text
    assert "two digests" in page.text
    assert "1 not deterministic, 1 failed in the harness" in page.text


def test_missing_required_coverage_prevents_a_passing_verdict() -> None:
    html = run_page(RunResults("tornlog run", [tally_of()], 1.0, never={"faults": ["bit rot"], "marks": []}))
    assert '<div class="verdict broken">' in html
    assert "faults that never occurred: bit rot" in html
    assert "marks that never occurred:" not in html


def test_a_run_without_seeds_has_no_passing_verdict() -> None:
    html = run_page(RunResults("tornlog run", [], 0.0))
    assert "Nothing was run" in html
    assert '<div class="verdict held">' not in html


def test_a_version_is_shown_with_its_bugs_and_the_promises_they_broke(failure: Failure) -> None:
    version = VERSIONS["rocketmq-4.9.8"]
    results = results_of(failure, tally_of(), mutant=version.id, version=version)
    (row,) = results.broken
    caused = replace(row, causes=(Cause("ack-before-flush", 3, 2, 1),))
    tally = results.tallies[0]
    tally.violations = 1
    page = Outline(run_page(replace(results, broken=[caused])))
    assert "rocketmq-4.9.8 breaks STATUS in 1 of 2 seeds" in page.text
    assert "ack-before-flush: 2 of 3 pass without it, 1 fail with it alone" in page.text
    for fact in version.facts:
        assert fact.id in page.text
        assert (fact.left_out or fact.reason) in page.text


def test_faults_that_were_never_injected_are_in_a_collapsed_list(held: Path) -> None:
    fold = page_in(held).partition('<details class="never">')[2].partition("</details>")[0]
    names = re.findall(r"<dt>(.*?)</dt>", fold)
    assert f"<summary>{len(names)} never occurred</summary>" in fold
    assert set(names) < set(FAULTS)


def test_the_number_of_timelines_is_limited_and_endless_runs_have_none(
    failure: Failure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporting, "TIMELINES_MAX", 2)
    endless = replace(failure, scenario="endless", original=replace(failure.original, steps=400_000))
    failures = [endless, *(replace(failure, scenario=f"s{number}") for number in range(3))]
    rows = [ViolationKind("STATUS", "answer", 4, {one.scenario: 1 for one in failures}, tuple(failures))]
    paths = {}
    for one in failures:
        paths[one.signature] = tmp_path / "failures" / f"{one.signature}.json"
        paths[one.signature].parent.mkdir(exist_ok=True)
        paths[one.signature].write_text(one.to_json())
    left = write_timelines(failures_by_kind_in_turn(rows), paths, tmp_path, lambda one: "again")
    html = run_page(RunResults("tornlog run", [tally_of()], 1.0, rows, failures=left))
    drawn = sorted(path.name for path in (tmp_path / "timelines").iterdir())
    assert drawn == ["s0-status-answer.html", "s1-status-answer.html"]
    page = Outline(html)
    assert len([link for link in page.links if link.startswith("timelines/")]) == 2
    assert page.text.count("for a timeline add --timeline FILE to the command") == 2


def test_the_first_failure_of_each_kind_gets_a_timeline_before_others(
    failure: Failure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporting, "TIMELINES_MAX", 2)
    other = replace(failure, original=replace(failure.original, violations=[Violation("DUR", "gone", field="record")]))
    kinds = [
        [replace(failure, scenario=name) for name in ("a", "b", "c")],
        [replace(other, scenario=name) for name in ("a", "b")],
    ]
    rows = [
        ViolationKind(of[0].violations[0].invariant, "", len(of), {one.scenario: 1 for one in of}, tuple(of))
        for of in kinds
    ]
    paths = {one.signature: tmp_path / f"{one.signature}.json" for of in kinds for one in of}
    write_timelines(failures_by_kind_in_turn(rows), paths, tmp_path, str)
    drawn = sorted(path.name for path in (tmp_path / "timelines").iterdir())
    assert drawn == ["a-dur-record.html", "a-status-answer.html"]


# The file


def test_a_run_report_requests_no_data_from_the_network(
    held: Path, broken: Path, mutant_result: Path, swept: Path
) -> None:
    for directory in (held, broken, mutant_result, swept):
        html = re.sub(r'xmlns(:xlink)?="[^"]*"', "", page_in(directory))
        assert not re.search(r"https?:|\bsrc=|@import|url\((?!#)|<script|<link(?! rel=\"icon\" href=\"data:,\")", html)
        assert "default-src 'none'" in html
