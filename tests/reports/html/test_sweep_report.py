import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.command_line import tornlog
from tests.reports.html.outline import Outline
from tornlog.reports.html.render import render_page
from tornlog.reports.html.sweep_report import SweepResults, sweep_result
from tornlog.scenarios.claims.catalogue import SCENARIOS

NAME = "sync-flush-power-cut"

RATE = {
    "mutant": None,
    "scenario": "<i>a</i>",
    "disk": "xfs",
    "policy": "pct",
    "seeds": 3,
    "held": 3,
    "violated": 0,
    "other": 0,
    "pass_rate": 1.0,
}


def sweep_page(results: SweepResults) -> str:
    return render_page(sweep_result(results))


def results_of(*rates: dict[str, Any], **more: Any) -> SweepResults:
    return SweepResults("sweep", "tornlog sweep", 1.0, rates, (), (), {}, {}, **more)


def page_in(directory: Path) -> str:
    return (directory / "report.html").read_text("utf-8")


def test_the_sweep_report_shows_number_and_place_of_violations(swept: Path) -> None:
    page = Outline(page_in(swept))
    assert "with the bug ack-before-flush" in page.text
    assert "of 24 seeds broke a promise" in page.text
    assert SCENARIOS[NAME].claim in page.text
    for title in ("Pass rates", "Detections", "Promises by disk", "Coverage", "Failures"):
        assert title in page.text
    assert "Put latency" not in page.text, "how fast a mutant answers is no news"


def test_every_link_of_a_sweep_report_has_a_target(swept: Path) -> None:
    page = Outline(page_in(swept))
    files = [link for link in page.links if not link.startswith("#")]
    assert {link.partition("/")[0] for link in files} == {"failures", "timelines"}
    assert page.dead_links(swept) == []


def test_the_sweep_report_has_latencies_as_a_picture_and_a_table(swept_clean: Path) -> None:
    html = page_in(swept_clean)
    page = Outline(html)
    assert "✓ Every promise held in 24 seeds" in page.text
    assert page.tags.count("svg") == 1
    assert "p99.9" in page.text
    assert "sync flush" in page.text
    assert "var(--ink" in html, "a picture has the colours of its page"
    assert "Failures" not in page.text


def test_the_sweep_json_names_the_report_page(tmp_path: Path) -> None:
    options = ("--scenario", NAME, "--master", "in-process", "--out", tmp_path / "sweep")
    document = json.loads(tornlog("sweep", "--seeds", 2, *options, "--json", "-").stdout)
    assert document["report"] == str(tmp_path / "sweep" / "report.html")
    assert Path(document["report"]).is_file()
    assert document["report"] in tornlog("sweep", "--seeds", 2, *options).stdout.splitlines()


def test_the_report_of_a_resumed_sweep_covers_all_rows(tmp_path: Path) -> None:
    options = ("--scenario", NAME, "--master", "in-process", "--out", tmp_path / "sweep")
    for _ in range(2):
        tornlog("sweep", "--seeds", 3, *options)
        assert "Every promise held in 3 seeds" in page_in(tmp_path / "sweep")


def test_names_in_a_sweep_report_are_html_escaped() -> None:
    page = Outline(sweep_page(results_of(RATE)))
    assert "i" not in page.tags
    assert "<i>a</i>" in page.text


def test_the_sweep_report_names_seeds_without_a_verdict_or_a_row() -> None:
    lost = {**RATE, "disk": None, "policy": None, "held": 0, "other": 3}
    html = sweep_page(results_of(RATE, lost, left=5))
    assert '<div class="verdict broken">' in html
    page = Outline(html)
    assert "No promise broken in 6 seeds, but some have no verdict" in page.text
    assert "3 seeds without a verdict" in page.text
    assert "5 seeds left: repeat the call to continue" in page.text


def test_a_sweep_without_rows_has_no_passing_verdict() -> None:
    assert "No seed has been run" in sweep_page(results_of())


def test_the_sweep_report_separates_the_unmodified_store_from_mutants() -> None:
    mutant = {**RATE, "mutant": "m", "held": 1, "violated": 2}
    page = Outline(sweep_page(results_of(RATE, mutant)))
    assert "Unmodified store by scenario" in page.text
    assert "Mutants by scenario" in page.text
    assert "Broken: 1 of 1 combination" in page.text
    assert "with the bug" not in page.text


def test_a_sweep_report_without_promise_counts_has_no_promise_table() -> None:
    known = results_of(RATE, judged={"xfs": 3}, broken={})
    assert "promises" in Outline(sweep_page(known)).anchors
    assert "promises" not in Outline(sweep_page(replace(known, broken=None))).anchors
