from pathlib import Path

import pytest

from tests.fixtures import QUIET_SCENARIO
from tornlog.reports.cli.run_result import RunResults, run_result
from tornlog.reports.html.render import render_page
from tornlog.reports.pipeline.sweep.rows import SCHEMA
from tornlog.reports.results.junit import write_junit
from tornlog.reports.results.markdown import append_summary
from tornlog.reports.results.terminal import print_result
from tornlog.scenarios.campaigns.runner import Tally
from tornlog.scenarios.runs.outcome import COUNTED, CounterField, RunCounts

TIMES = 1_234_567


@pytest.mark.parametrize("count", COUNTED, ids=lambda count: count.name)
def test_every_output_format_shows_each_count(
    count: CounterField, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tally = Tally(QUIET_SCENARIO, seeds=1)
    tally.add_counts(RunCounts(**{count.name: TIMES}))
    result = run_result(RunResults("tornlog run", [tally], 1.0))
    junit, summary = tmp_path / "junit.xml", tmp_path / "summary.md"
    write_junit(junit, result)
    append_summary(summary, result)
    print_result(result, None, verbose=True)

    assert result.document["scenarios"][0][count.name] == TIMES
    assert f'<property name="{count.meaning}" value="{TIMES}" />' in junit.read_text()
    assert f"{count.meaning} {TIMES:,}" in " ".join(capsys.readouterr().out.split())
    assert f"{count.meaning} {TIMES:,}" in summary.read_text()
    assert f"<dt>{count.meaning}</dt><dd>{TIMES:,}</dd>" in render_page(result)
    assert count.column in SCHEMA.names
