"""`tornlog run --as VERSION`: lists the promises that a real version breaks, with causes and commands."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import Result

from tests.command_line import tornlog, usage_error
from tornlog.reports.cli.reporting import FailureLinks
from tornlog.reports.cli.run_result import RunResults, run_result
from tornlog.reports.results.model import On
from tornlog.reports.results.terminal import print_block
from tornlog.scenarios.campaigns.causes import ViolationKind
from tornlog.scenarios.campaigns.failures.failure import Failure
from tornlog.scenarios.mutants import MUTANTS
from tornlog.scenarios.mutants.versions import VERSIONS

pytestmark = pytest.mark.slow

VERSION = "rocketmq-4.9.8"
NAME = "sync-flush-power-cut"
OTHER = "second-start-refused"


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("left")


@pytest.fixture(scope="module")
def result(left: Path) -> Result:
    return tornlog("run", NAME, OTHER, "--as", VERSION, "--seeds", 12, "--out", left, "--json", left / "run.json")


@pytest.fixture(scope="module")
def document(result: Result, left: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((left / "run.json").read_text())
    return found


def test_a_version_that_breaks_promises_exits_1_and_names_them(result: Result, document: dict[str, Any]) -> None:
    assert result.exit_code == 1
    broken = document["version"]["broken"]
    promises = {row["promise"] for row in broken}
    assert promises >= {"DUR", "ISO"}
    assert f"{VERSION} breaks {len(promises)} promises in {len(broken)} ways" in result.stdout
    active = sum(fact.is_present for fact in VERSIONS[VERSION].facts)
    assert f"{active} of the {len(MUTANTS)} bugs of the catalogue" in result.stdout
    (uncertain,) = [line for line in result.stdout.splitlines() if line.startswith("  uncertain and not applied")]
    assert ", bad-length-trusted" in uncertain.replace(":", ",")
    assert "second-instance-recovers-before-lock" in result.stdout
    assert result.stderr == ""


def test_the_json_of_a_version_has_a_row_for_each_broken_promise(document: dict[str, Any]) -> None:
    version = document["version"]
    assert version["id"] == VERSION
    assert len(version["bugs"]) == len(MUTANTS)
    assert list(version["deviations"]) == [mutant.id for mutant in VERSIONS[VERSION].deviations]
    assert sum(row["times"] for row in version["broken"]) == sum(
        scenario["violations"] for scenario in document["scenarios"]
    )
    (second,) = [row for row in version["broken"] if row["promise"] == "ISO"]
    assert second["scenarios"] == {OTHER: second["times"]}
    assert second["causes"][0]["id"] == "second-instance-recovers-before-lock"
    assert second["causes"][0]["mended"] == second["causes"][0]["tries"]


def test_every_broken_promise_has_a_failure_that_replays(document: dict[str, Any], left: Path) -> None:
    broken = document["version"]["broken"]
    assert broken
    for row in broken:
        program, command, path = row["again"].split()
        assert (program, command) == ("tornlog", "replay")
        assert path in document["failures"]
        assert Failure.from_json(Path(path).read_text()).mutant == VERSION
        again = tornlog("replay", path, "--json", left / "again.json")
        replayed = json.loads((left / "again.json").read_text())
        assert again.exit_code == 1
        assert (replayed["same"], replayed["gone"], replayed["seed"]) == (True, [], row["seed"])
        assert replayed["violations"][0]["invariant"] == row["promise"]


def test_without_an_output_directory_the_report_has_a_command_with_the_seed() -> None:
    found = json.loads(tornlog("run", OTHER, "--as", VERSION, "--seeds", 3, "--json", "-").stdout)
    row = found["version"]["broken"][0]
    assert row["again"] == f"tornlog run {row['scenario']} --seed {row['seed']} --as {VERSION}"

    again = json.loads(tornlog(*row["again"].split()[1:], "--json", "-").stdout)["version"]["broken"]
    assert [(one["promise"], one["kind"], one["times"]) for one in again] == [(row["promise"], row["kind"], 1)]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--as", "rocketmq-1.0"), "no version rocketmq-1.0"),
        (("--as", VERSION, "--mutant", "ack-before-flush"), "found both"),
    ],
)
def test_an_unknown_version_or_a_version_with_a_mutant_is_refused(options: tuple[str, ...], reason: str) -> None:
    assert reason in usage_error("run", NAME, *options, "--seeds", 1)


# printed reports


def printed(*rows: ViolationKind) -> str:
    """Print the report of one broken promise for a terminal of 80 columns."""
    page = StringIO()
    console = Console(file=page, width=80, force_terminal=True, color_system=None, highlight=False)
    left = {one.first.signature: FailureLinks(one.first, f"again {one.first.seed}", "") for one in rows}
    result = run_result(RunResults("", [], 1.0, rows, VERSION, VERSIONS[VERSION], failures=left))
    for block in result.blocks:
        if block.on & On.TERMINAL and not block.is_empty:
            print_block(console, block)
    return f"{result.headline}\n{page.getvalue()}"


def test_the_report_of_a_version_without_broken_promises_says_so() -> None:
    assert "every promise held" in printed()


def test_a_broken_promise_without_a_single_cause_is_printed_within_80_columns(failure: Failure) -> None:
    text = printed(ViolationKind("STATUS", "answer", 1, {"quiet": 1}, (failure,)))
    assert "only several bugs together" in text
    assert f"again {failure.seed}" in text
    assert all(len(line.rstrip()) <= 80 for line in text.splitlines())


def test_a_promise_that_also_breaks_without_bugs_has_no_cause(failure: Failure) -> None:
    text = printed(ViolationKind("STATUS", "answer", 1, {"quiet": 1}, (failure,), (), 1))
    assert "none: it also fails without these bugs" in text
    assert "also without these bugs: 1" in text
