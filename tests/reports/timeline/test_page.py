import json
import re
from dataclasses import replace
from typing import Any

from tornlog.reports.timeline.page import SCRIPTS, _embedded_json, timeline_page
from tornlog.reports.timeline.recording.record import RunRecording, Subject

MEGABYTE = 1_000_000


def recording_in(html: str) -> Any:
    found = re.search(r'<script type="application/json" id="record">(.*?)</script>', html, re.DOTALL)
    assert found
    return json.loads(found[1])


def test_a_timeline_of_five_thousand_events_takes_less_than_a_megabyte(long: RunRecording) -> None:
    html = timeline_page(long)
    assert len(long.moments) > 5_000
    assert 100_000 < len(html.encode()) < MEGABYTE


def test_a_timeline_requests_no_data_from_the_network(lost: RunRecording) -> None:
    html = timeline_page(lost)
    assert not re.search(r"https?:|\bsrc=|@import|url\(|\bfetch\(|XMLHttpRequest|WebSocket|import\(", html)
    assert "default-src 'none'" in html
    assert html.count("<script") == 2


def test_the_timeline_page_contains_the_complete_recording(lost: RunRecording) -> None:
    record = recording_in(timeline_page(lost))
    texts = record["texts"]
    assert len(record["moments"]["ns"]) == len(record["moments"]["steps"]) == len(lost.moments)
    assert sum(record["moments"]["ns"]) == lost.moments[-1].now_ns
    assert sum(record["moments"]["steps"]) == lost.moments[-1].step
    for name in ("spans", "holds", "operations", "puts", "broken", "cuts", "tasks", "machines", "checkpoints"):
        assert len(record[name]) == len(getattr(lost, name)), name
    assert sum(map(len, record["positions"].values())) == len(lost.positions)
    assert [texts[put[0]] for put in record["puts"]] == [put.name for put in lost.puts]
    assert len(texts) == len(set(texts))


def test_names_of_a_run_are_html_escaped_in_the_timeline(lost: RunRecording) -> None:
    evil = "</script><script>alert(1)</script><!--"
    tasks = [replace(lost.tasks[0], name=f"m/{evil}"), *lost.tasks[1:]]
    html = timeline_page(replace(lost, subject=Subject(evil, evil, 1, evil), tasks=tasks))
    assert html.count("<script") == 2
    assert evil not in html
    assert f"m/{evil}" in recording_in(html)["texts"]
    assert "<" not in _embedded_json(replace(lost, tasks=tasks))


def test_the_timeline_page_includes_every_script_of_its_folder(source: Any) -> None:
    beside = {path.stem for path in (source / "reports" / "timeline").glob("*.js")}
    assert beside == set(SCRIPTS)


def test_the_verdict_is_the_heading_of_the_timeline_page(lost: RunRecording, held: RunRecording) -> None:
    assert '<h1 class="verdict broken">DUR: ' in timeline_page(lost)
    assert '<h1 class="verdict held">Every promise held</h1>' in timeline_page(held)
