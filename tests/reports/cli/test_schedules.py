import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import tornlog

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[3] / "docs/json.md"
NAME = "second-start-refused"
BROKEN = ["sync-flush-power-cut", "--seed", "1", "--mutant", "ack-before-flush", "--limit", "3"]


@pytest.fixture(scope="module")
def whole() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(tornlog("explore", "--schedules", NAME, "--json", "-").stdout)
    return found


def test_a_complete_schedule_search_reports_that_all_schedules_were_tried_and_exits_0(whole: dict[str, Any]) -> None:
    result = tornlog("explore", "--schedules", NAME)

    assert result.exit_code == 0
    assert whole["is_complete"]
    assert whole["schedules_by_cost"] == [1, whole["schedules"] - 1]
    assert result.stdout == f"all {whole['schedules']} schedules with ≤ 1 delays: every promise held\n"
    assert result.stderr == ""


def test_a_schedule_search_without_delays_tries_one_schedule() -> None:
    result = tornlog("explore", "--schedules", NAME, "--delays", 0)

    assert result.stdout == "all 1 schedules with ≤ 0 delays: every promise held\n"


def test_a_schedule_search_can_be_bounded_by_preemptions() -> None:
    result = tornlog("explore", "--schedules", NAME, "--preemptions", 0, "--limit", 2)

    assert result.stdout.startswith("first 2 of more schedules with ≤ 0 preemptions: every promise held\n")


def test_a_schedule_search_that_reaches_its_limit_reports_where_to_continue(whole: dict[str, Any]) -> None:
    begun = tornlog("explore", "--schedules", NAME, "--limit", 5)
    (after,) = re.findall(r"go on with --after '(.*)'\n", begun.stdout)
    rest = tornlog("explore", "--schedules", NAME, "--after", after)

    assert begun.exit_code == rest.exit_code == 0
    assert begun.stdout.startswith("first 5 of more schedules with ≤ 1 delays: every promise held\n")
    assert rest.stdout == f"last {whole['schedules'] - 5} schedules with ≤ 1 delays: every promise held\n"


def test_a_schedule_search_can_continue_after_the_default_schedule() -> None:
    begun = tornlog("explore", "--schedules", NAME, "--limit", 1)
    rest = json.loads(tornlog("explore", "--schedules", NAME, "--after", "", "--limit", 3, "--json", "-").stdout)

    assert "go on with --after ''" in begun.stdout
    assert rest["schedules_by_cost"] == [0, 3]


def test_the_stdout_of_a_schedule_search_has_only_json_with_the_documented_keys() -> None:
    document = json.loads(tornlog("explore", "--schedules", NAME, "--seed", 2, "--limit", 3, "--json", "-").stdout)

    documented = PAGE.read_text().partition('"tornlog-schedules/1"')[2].partition("`")[0]
    keys = re.findall(r'"(\w+)"', documented)
    assert list(document) == ["format", *keys]
    assert document["format"] == "tornlog-schedules/1"
    assert (document["scenario"], document["seed"]) == (NAME, 2)
    assert (document["kind"], document["bound"]) == ("delays", 1)
    assert (document["schedules"], document["violated"], document["failures"]) == (3, 0, [])
    assert not document["is_complete"]


def test_a_broken_promise_in_a_schedule_search_exits_1_and_is_reported_and_written(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    result = tornlog("explore", "--schedules", *BROKEN, "--out", tmp_path, "--json", file)
    document = json.loads(file.read_text())
    (path,) = document["failures"]

    assert result.exit_code == 1
    assert "3 broken, the first after 1 ()" in result.stdout
    assert (document["violated"], document["first_violated"], document["first_schedule"]) == (3, 1, "")
    assert Path(path).parent == tmp_path / "failures"
    assert f"tornlog replay {path}" in " ".join(result.stdout.split())
    again = tornlog("replay", path, "--json", "-")
    assert (again.exit_code, json.loads(again.stdout)["same"]) == (1, True)


def test_a_schedule_search_can_stop_at_the_first_broken_promise() -> None:
    result = tornlog("explore", "--schedules", *BROKEN, "--stop-at-first")

    assert result.exit_code == 1
    assert result.stdout.startswith("first 1 of more schedules with ≤ 1 delays: 1 broken")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("no-such-claim",), "no scenario no-such-claim"),
        ((NAME, "--mutant", "no-such-bug"), "no mutant no-such-bug"),
        ((NAME, "--delays", "1", "--preemptions", "1"), "expected --delays or --preemptions, found both"),
        ((NAME, "--delays", "-1"), "--delays"),
        ((NAME, "--limit", "0"), "--limit"),
        ((NAME, "--after", "nonsense"), "found nonsense"),
        ((NAME, "--out", __file__), "is a file"),
        ((), "Missing argument"),
    ],
)
def test_invalid_schedule_search_arguments_exit_2_with_an_explanation(arguments: tuple[str, ...], message: str) -> None:
    result = tornlog("explore", "--schedules", *arguments)

    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())
    assert result.stdout == ""


def test_a_schedule_of_another_run_does_not_reproduce() -> None:
    result = tornlog("explore", "--schedules", NAME, "--after", "999999:1")

    assert result.exit_code == 3
    assert "not reproduced" in result.stderr
