import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.reports.html.outline import Outline
from tornlog.reports.cli.mutation_result import MutationResults, mutation_result
from tornlog.reports.cli.reporting import FailureLinks
from tornlog.reports.html.render import render_page
from tornlog.scenarios.campaigns.failures.failure import Failure
from tornlog.scenarios.campaigns.mutation_run import MutantFind, MutantResult
from tornlog.scenarios.mutants import MUTANTS

FIND = MutantFind("combined-faults", 2, "STATUS", 3, 0.25)
FOUND = MutantResult("ack-before-flush", (FIND,), 3, 0.25, reached=3, bit=None)
MISSED = MutantResult("stale-tail-after-truncate", (), 500, 9.0, reached=400, bit=7)


def results_of(*mutant_results: MutantResult, **survivors: str) -> MutationResults:
    return MutationResults(
        "tornlog mutants", mutant_results, 9.25, {key.replace("_", "-"): why for key, why in survivors.items()}
    )


def mutation_page(results: MutationResults) -> str:
    return render_page(mutation_result(results))


def test_the_mutation_report_lists_every_mutant(mutant_result: Path) -> None:
    html = (mutant_result / "report.html").read_text("utf-8")
    page = Outline(html)
    assert "✗ 3 of 4 mutants found" in page.text
    assert "Not found: stale-tail-after-truncate" in page.text
    for name in ("ack-before-flush", "bad-length-trusted", "stale-tail-after-truncate"):
        assert name in page.text
        assert MUTANTS[name].summary in page.text
    files = [link for link in page.links if not link.startswith("#")]
    assert len([link for link in files if link.startswith("timelines/")]) == 6, "in the table, and with the story"
    assert page.dead_links(mutant_result) == []
    assert page.tags.count("svg") == 1


def test_a_mutation_report_with_all_mutants_found_passes(failure: Failure) -> None:
    left = {failure.file_stem_of_mutant: FailureLinks(failure, "again", failure.file_stem_of_mutant)}
    results = replace(results_of(replace(FOUND, failure=failure)), failures=left)
    html = mutation_page(results)
    assert '<div class="verdict held">' in html
    page = Outline(html)
    assert "1 of 1 mutant found, and the unmodified store kept every promise" in page.text
    assert "missing" not in page.anchors
    assert failure.file_stem_of_mutant in page.anchors


def test_a_mutant_that_was_not_found_counts_as_missing() -> None:
    html = mutation_page(results_of(FOUND, MISSED))
    assert '<div class="verdict broken">' in html
    page = Outline(html)
    assert "Not found: stale-tail-after-truncate" in page.text
    assert "not found: reached in 400 seeds, bit in 7 seeds, not seen" in page.text


def test_a_known_survivor_is_listed_as_expected() -> None:
    html = mutation_page(results_of(FOUND, MISSED, stale_tail_after_truncate="it does no harm"))
    assert '<div class="verdict held">' in html
    page = Outline(html)
    assert "1 mutant not found for known reasons" in page.text
    assert "it does no harm" in page.text


def test_a_found_mutant_that_is_a_known_survivor_is_reported() -> None:
    page = Outline(mutation_page(results_of(FOUND, ack_before_flush="it does no harm")))
    assert "found, although it was expected to survive: it does no harm" in page.text


def test_a_mutant_counts_as_found_only_if_the_unmodified_store_passes() -> None:
    html = mutation_page(results_of(replace(FOUND, clean_violation="DUR: <b>gone</b>")))
    assert '<div class="verdict broken">' in html
    page = Outline(html)
    assert "The store without the bug also broke: ack-before-flush" in page.text
    assert "also without the bug: DUR: <b>gone</b>" in page.text


def test_a_found_mutant_is_shown_with_its_scenario_and_invariant() -> None:
    twice = replace(FOUND, finds=(FIND, replace(FIND, scenario="segment-rollover-crash")), is_expected=False)
    text = Outline(mutation_page(results_of(twice))).text
    assert "STATUS (not expected) in combined-faults" in text
    assert "also segment-rollover-crash" in text
    assert "core-seconds until found, 95 %" in text


def test_a_mutant_with_a_harness_error_counts_as_missing() -> None:
    html = mutation_page(results_of(replace(MISSED, error="Traceback\nKeyError: 3")))
    assert '<div class="verdict broken">' in html
    assert "the harness failed: KeyError: 3" in Outline(html).text


def test_the_size_of_a_shrunk_failure_is_shown_on_request() -> None:
    shrunk = {"messages": 2, "preemptions": 1, "switches": 3, "sectors": 4, "faults": 0, "lives": 1}
    assert (
        "shrunk to 2 messages, 1 preemptions, 4 sectors"
        in Outline(mutation_page(results_of(replace(FOUND, shrunk=shrunk)))).text
    )
    assert "size" not in re.findall(r"<th[^>]*>([^<]*)</th>", mutation_page(results_of(FOUND)))


def test_without_matplotlib_the_page_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    results = results_of(*(replace(FOUND, seeds=seeds) for seeds in (1, 20, 300)))
    assert "svg" in Outline(mutation_page(results)).tags
    monkeypatch.setitem(sys.modules, "tornlog.reports.plotting", None)
    page = Outline(mutation_page(results))
    assert "svg" not in page.tags
    assert "pip install '.[plot]'" in page.text
