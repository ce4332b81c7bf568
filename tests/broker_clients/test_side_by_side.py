"""The documented table of clients and cases: what each official client can do with both brokers."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.broker_clients.programs import PROGRAMS
from tests.broker_clients.side_by_side import (
    HERE_ONLY,
    NOT_OFFERED,
    OF_A_NETWORK,
    YES,
    read_outcomes,
    read_table,
    run_cases,
    table,
)

PAGE = "docs/broker-reference.md"


@pytest.mark.slow
@pytest.mark.timeout(2_000)
@pytest.mark.parametrize("client", PROGRAMS)
def test_a_client_passes_the_cases_that_the_page_names(
    client: str, fetched: Callable[..., dict[str, str]], source: Path, tmp_path: Path
) -> None:
    if shutil.which("unshare") is None or subprocess.run([*OF_A_NETWORK, "true"], check=False).returncode:
        pytest.skip("no network of its own can be made here, and the real broker listens on every interface")
    found = fetched(lambda: run_cases(PROGRAMS[client](tmp_path / "client"), tmp_path))

    page = (source / PAGE).read_text()
    assert {case: cell for case, cell in found.items() if cell != YES} == read_table(page, client)
    assert f"{len(found)} cases" in page


def test_the_page_has_a_column_for_each_client(source: Path) -> None:
    assert f"| case | {' | '.join(PROGRAMS)} |" in (source / PAGE).read_text()


def test_a_table_has_the_cases_that_do_not_pass_everywhere() -> None:
    cells = {
        "Go": {"a send": YES, "a query": NOT_OFFERED, "a delay": HERE_ONLY},
        "Java": {"a send": YES, "a query": YES, "a delay": YES},
    }

    page = f"Before.\n\n{table(cells)}\n\nAfter.\n"

    assert "| a query | no call | yes |" in page
    assert "a send" not in page
    assert read_table(page, "Go") == {"a query": NOT_OFFERED, "a delay": HERE_ONLY}
    assert read_table(page, "Java") == {}


def test_a_report_of_pytest_becomes_outcomes_by_case(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text("""<testsuites><testsuite>
        <testcase name="test_a_body_is_sent[JSON-5000]"/>
        <testcase name="test_a_pull_fails"><failure message="no"/></testcase>
        <testcase name="test_a_query_is_missing"><skipped message="Skipped: not offered: query"/></testcase>
    </testsuite></testsuites>""")

    assert read_outcomes(tmp_path / "report.xml") == {
        "a body is sent (5000)": True,
        "a pull fails": False,
        "a query is missing": None,
    }


def test_a_case_that_is_skipped_for_another_reason_is_an_error(tmp_path: Path) -> None:
    skipped = '<testcase name="test_a_send"><skipped message="Skipped: no network"/></testcase>'
    (tmp_path / "report.xml").write_text(f"<testsuites><testsuite>{skipped}</testsuite></testsuites>")

    with pytest.raises(AssertionError, match="no network"):
        read_outcomes(tmp_path / "report.xml")
