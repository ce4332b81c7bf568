from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from tests.command_line import tornlog
from tests.fixtures import BROKEN_SCENARIO, QUIET_SCENARIO
from tornlog.reports.cli.mutation_result import MutationResults, mutation_result
from tornlog.reports.cli.run_result import RunResults, run_result
from tornlog.reports.results import model
from tornlog.reports.results.junit import write_junit
from tornlog.reports.results.model import Case, Tone, Verdict
from tornlog.scenarios.campaigns.mutation_run import MutantFind, MutantResult
from tornlog.scenarios.campaigns.runner import Tally
from tornlog.scenarios.claims.catalogue import SCENARIOS

NAME, OTHER = "sync-flush-power-cut", "clean-shutdown"
ALLOWED = {
    "testsuites": ({"name", "tests", "failures", "errors", "time"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors", "skipped", "time"},
        {"properties", "testcase", "system-out", "system-err"},
    ),
    "properties": (set(), {"property"}),
    "property": ({"name", "value"}, set()),
    "testcase": ({"name", "classname", "time"}, {"failure", "error", "skipped", "system-out", "system-err"}),
    "failure": ({"type", "message"}, set()),
    "error": ({"type", "message"}, set()),
    "skipped": ({"type", "message"}, set()),
    "system-out": (set(), set()),
}
"""The used part of junit-10.xsd of Jenkins' xUnit plugin: attributes and children that each element may have."""
REQUIRED = {"testsuite": {"name", "tests", "failures", "errors"}, "testcase": {"name"}, "property": {"name", "value"}}


def parse_junit(file: Path) -> Element:
    """Parse a document and check it against the schema."""
    root = ElementTree.parse(file).getroot()
    assert root.tag == "testsuites"
    for element in root.iter():
        attributes, children = ALLOWED[element.tag]
        assert set(element.attrib) <= attributes, element.tag
        assert set(element.attrib) >= REQUIRED.get(element.tag, set()), element.tag
        assert {child.tag for child in element} <= children, element.tag
    for suite in root:
        for tag, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            cases = [case for case in suite.iter("testcase") if case.find(tag) is not None]
            assert suite.get(attribute) == str(len(cases))
    return root


def cases(root: Element) -> dict[str, Element]:
    return {str(case.get("name")): case for case in root.iter("testcase")}


def test_passing_scenarios_are_passed_test_cases_in_junit(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "junit.xml"

    result = tornlog("run", NAME, OTHER, "--seeds", 3, "--junit", file)

    assert result.exit_code == 0
    root = parse_junit(file)
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("2", "0", "0")
    assert list(cases(root)) == [NAME, OTHER]
    properties = {one.get("name"): one.get("value") for one in root[0].iter("property")}
    assert properties["seeds"] == "3"
    assert int(properties["crash points"] or 0) > 0
    assert len(properties["digest"] or "") == 32
    assert any(str(name).startswith("injected: ") for name in properties)
    assert SCENARIOS[NAME].claim in (cases(root)[NAME].findtext("system-out") or "")


def test_a_broken_promise_in_junit_has_the_story_and_the_replay_command(tmp_path: Path) -> None:
    file = tmp_path / "junit.xml"

    result = tornlog("run", NAME, "--seeds", 4, "--mutant", "ack-before-flush", "--out", tmp_path, "--junit", file)

    assert result.exit_code == 1
    failure = cases(parse_junit(file))[NAME].find("failure")
    assert failure is not None
    assert failure.get("type") == "STATUS"
    assert "of 4 seeds: STATUS: " in str(failure.get("message"))
    text = failure.text or ""
    assert "events:" in text
    assert f"reproduce: tornlog replay {tmp_path}/failures/{NAME}-status-answer.json" in text.replace("\n", "")


def test_a_harness_error_is_an_error_in_junit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(SCENARIOS, BROKEN_SCENARIO.name, BROKEN_SCENARIO)
    file = tmp_path / "junit.xml"

    assert tornlog("run", BROKEN_SCENARIO.name, "--seeds", 1, "--junit", file).exit_code == 3

    error = cases(parse_junit(file))[BROKEN_SCENARIO.name].find("error")
    assert error is not None
    assert "Traceback" in (error.text or "")


def test_a_nondeterministic_seed_is_an_error_in_junit(tmp_path: Path) -> None:
    tally = Tally(QUIET_SCENARIO, seeds=1, nondeterministic=["quiet --seed 0: they part"])
    file = tmp_path / "junit.xml"

    write_junit(file, run_result(RunResults("", [tally], 1.0)))

    error = cases(parse_junit(file))["quiet"].find("error")
    assert error is not None
    assert error.get("type") == "nondeterminism"


def test_characters_that_xml_cannot_hold_are_replaced(tmp_path: Path) -> None:
    tally = Tally(QUIET_SCENARIO, seeds=1, errors=["quiet --seed 0: \0\1 <&> \ud800 ü\n"])
    file = tmp_path / "junit.xml"

    write_junit(file, run_result(RunResults("", [tally], 1.0)))

    error = cases(parse_junit(file))["quiet"].find("error")
    assert error is not None
    assert error.text == "quiet --seed 0: �� <&> � ü\n"


def test_a_mutant_fails_in_junit_if_it_survives_or_the_unmodified_store_fails(tmp_path: Path) -> None:
    survivor = "my.bugs:off-by-one"
    find = MutantFind("combined-faults", 2, "DUR", 3, 0.5)
    mutant_results = [
        MutantResult("found", (find,), 3, 0.5, reached=2, bit=1),
        MutantResult("lives", (), 500, 9.0, reached=0, bit=0),
        MutantResult("clean", (find,), 3, 0.5, reached=2, bit=1, clean_violation="DUR: gone"),
        MutantResult("broken", (), 1, 0.5, reached=2, bit=1, error="Traceback\nKeyError: 3"),
        MutantResult(survivor, (), 500, 9.0, reached=0, bit=0),
    ]
    file = tmp_path / "junit.xml"

    write_junit(file, mutation_result(MutationResults("", mutant_results, 1.0, {survivor: "gap: nobody looks"})))

    root = parse_junit(file)
    found = {name: [child.tag for child in case] for name, case in cases(root).items()}
    expected = {"found": [], "lives": ["failure"], "clean": ["failure"], "broken": ["error"], survivor: ["skipped"]}
    assert found == expected
    text = cases(root)["lives"].findtext("failure") or ""
    assert "not found in 500 seeds: never reached" in text
    assert "tornlog mutants lives" in text
    assert (root.get("failures"), root.get("errors")) == ("2", "1")
    properties = {one.get("name"): one.get("value") for one in root[0].iter("property")}
    assert properties == {
        "scenario": "combined-faults",
        "invariant": "DUR",
        "seeds": "3",
        "reached": "2",
        "bit": "1",
        "expected": "True",
        "core-seconds": "0.500",
    }


def test_the_mutants_command_writes_junit_xml(tmp_path: Path) -> None:
    file = tmp_path / "junit.xml"

    assert tornlog("mutants", "ack-before-flush", "--seeds", 20, "--junit", file).exit_code == 0

    assert list(cases(parse_junit(file))) == ["ack-before-flush"]


def test_the_junit_schema_check_rejects_unknown_elements(tmp_path: Path) -> None:
    file = tmp_path / "junit.xml"
    write_junit(file, model.Result("run", "", Verdict(Tone.HELD, ""), 0, {}, cases=[Case("x")]))
    root = ElementTree.parse(file)
    root.getroot()[0].set("failures", "1")
    root.write(file)

    with pytest.raises(AssertionError):
        parse_junit(file)


def test_the_summary_is_appended_to_the_file_with_a_row_for_each_scenario(tmp_path: Path) -> None:
    file = tmp_path / "summary.md"
    file.write_text("# Before\n")

    assert tornlog("run", NAME, OTHER, "--seeds", 3, "--summary", file).exit_code == 0

    lines = file.read_text().splitlines()
    assert lines[0] == "# Before"
    assert lines[1].startswith("### tornlog run: 6 seeds in ")
    assert lines[1].endswith(": every promise held")
    rows = [line for line in lines if line.startswith((f"| {NAME} |", f"| {OTHER} |"))]
    assert [row.count("|") for row in rows] == [6, 6]
    assert all(row.endswith("| 0 |") for row in rows)
    assert any(line.startswith("Never: ") for line in lines)
    assert "What happened" not in file.read_text()


def test_the_summary_shows_a_broken_promise_with_story_and_command(tmp_path: Path) -> None:
    file = tmp_path / "summary.md"

    done = tornlog("run", NAME, "--seeds", 4, "--mutant", "ack-before-flush", "--out", tmp_path, "--summary", file)

    assert done.exit_code == 1
    text = file.read_text()
    assert f"#### {NAME}: STATUS: " in text
    assert f"\n~~~~\ntornlog replay {tmp_path}/failures/{NAME}-status-answer.json\n~~~~\n" in text
    assert "events:" in text
    assert text.count("~~~~") == 6
    assert text.count("<details>") == text.count("</details>") == 4


def test_the_summary_shows_harness_errors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(SCENARIOS, BROKEN_SCENARIO.name, BROKEN_SCENARIO)
    file = tmp_path / "summary.md"

    assert tornlog("run", BROKEN_SCENARIO.name, "--seeds", 1, "--summary", file).exit_code == 3

    assert "#### No verdict" in file.read_text()
