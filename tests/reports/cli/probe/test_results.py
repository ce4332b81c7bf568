import json
import re
from pathlib import Path
from textwrap import dedent
from xml.etree import ElementTree

import pytest

from tests.command_line import tornlog, usage_error
from tests.reports.html.outline import Outline

SAVE = """
    import os, sys
    with open("new", "w") as file:
        file.write("one")
        if "sync" in sys.argv:
            file.flush()
            os.fsync(file.fileno())
    os.replace("new", "value")
    if "sync" in sys.argv:
        os.fsync(os.open(".", os.O_RDONLY))
    print("one")
    """
CHECK = """
    import sys
    def check(directory, acknowledged):
        file = directory / "value"
        if acknowledged and not file.exists():
            yield "the value is <lost>"
    """


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("program")
    (directory / "save.py").write_text(dedent(SAVE))
    (directory / "check.py").write_text(dedent(CHECK))
    return directory


@pytest.fixture(scope="module")
def broken(files: Path) -> Path:
    """The results for a program that loses acknowledged data."""
    options = ("--out", files / "out", "--junit", files / "out.xml", "--summary", files / "out.md", "--jobs", 0)
    more = ("--faults", "failed-write", "--recovery-crashes", 1, "--json", files / "out.json")
    result = tornlog("probe", "--check", files / "check.py", *options, *more, "--", files / "save.py", "a b")
    assert result.exit_code == 1, result.output
    assert str(files / "out" / "report.html") in result.stdout
    return files / "out"


@pytest.fixture(scope="module")
def held(files: Path) -> Path:
    """The results for the same program with syncs."""
    options = ("--out", files / "held", "--junit", files / "held.xml", "--summary", files / "held.md", "--jobs", 0)
    assert tornlog("probe", "--check", files / "check.py", *options, "--", files / "save.py", "sync").exit_code == 0
    return files / "held"


def page(out: Path) -> Outline:
    return Outline((out / "report.html").read_text())


def test_every_link_of_the_probe_report_has_a_target(broken: Path) -> None:
    found = page(broken)

    assert len([link for link in found.links if "failure.json" in link]) == 1
    assert found.dead_links(broken) == []


def test_the_probe_report_has_the_breach_its_crash_and_the_replay_command(broken: Path) -> None:
    text = page(broken).text

    assert "the value is <lost>" in text
    assert "rename of new to value undone" in text
    assert re.search(r"tornlog probe --replay \S+/failure.json", text)
    assert re.search(r"tornlog probe .*--faults failed-write .*-- \S*save.py 'a b'", text)


def test_the_probe_report_lists_recorded_calls_and_untried_faults(broken: Path, held: Path) -> None:
    text = page(broken).text

    assert re.search(r"by file\s+name\s*times\s*bar\s+new\s*2", text)
    assert "Other kinds of crash (--disk): os-crash, ext4, ext4-data, xfs, btrfs." in text
    assert "faults at calls" in text
    assert "Crashes during recovery by the check" not in text
    assert "Failing calls (--faults errors)." in page(held).text
    assert "Every promise held" in page(held).text


def test_a_failure_has_a_timeline_file_beside_the_probe_report(broken: Path) -> None:
    (timeline,) = [link for link in page(broken).links if link.startswith("timelines/")]
    html = (broken / timeline).read_text()

    assert '<h1 class="verdict broken">check: the value is &lt;lost&gt;</h1>' in html
    assert "rename of new to value undone" in html


def test_a_replay_can_write_its_timeline(broken: Path, tmp_path: Path) -> None:
    (failure,) = broken.rglob("failure.json")
    drawn, again = tmp_path / "one.html", tmp_path / "two.html"
    first = tornlog("probe", "--replay", failure, "--timeline", drawn, "--json", tmp_path / "replay.json")
    second = tornlog("replay", failure, "--timeline", again)

    assert (first.exit_code, second.exit_code) == (1, 1), first.output + second.output
    assert drawn.read_text() == again.read_text()
    assert json.loads((tmp_path / "replay.json").read_text())["drawn"] == [str(drawn)]
    assert str(again) in second.stdout


def test_a_replay_of_a_probed_program_has_no_trace_and_no_original(broken: Path) -> None:
    (failure,) = broken.rglob("failure.json")
    for option in (("--original",), ("--trace", "trace.json")):
        assert "not allowed with the failure of a program" in usage_error("replay", failure, *option)


def test_the_timeline_option_requires_a_replay(files: Path) -> None:
    assert "needs --replay" in usage_error(
        "probe", "--timeline", "one.html", "--check", files / "check.py", "--", files / "save.py"
    )


def test_junit_xml_has_a_test_case_for_each_disk_and_for_recovery_and_faults(broken: Path, held: Path) -> None:
    root = ElementTree.parse(broken.with_suffix(".xml")).getroot()
    failed = {case.get("name"): case.findtext("failure") for case in root.iter("testcase")}

    assert set(failed) == {
        *("strict-posix", "torn-sectors", "ext4-ordered", "process-kill", "crashes in recovery", "faults at calls")
    }
    assert failed["process-kill"] is None
    assert "rename of new to value undone" in str(failed["ext4-ordered"])
    assert root.get("failures") == str(len([text for text in failed.values() if text]))
    assert ElementTree.parse(held.with_suffix(".xml")).getroot().get("failures") == "0"


def test_the_probe_summary_has_a_table_and_the_breaches(broken: Path, held: Path) -> None:
    text = broken.with_suffix(".md").read_text()

    assert re.search(r"^\| \*\*ext4-ordered\*\* \| \d+ \| \d+ \| 1 \|$", text, re.MULTILINE)
    assert re.search(r"^\| process-kill \| \d+ \| \d+ \| 0 \|$", text, re.MULTILINE)
    assert "broken: the value is <lost>" in text
    assert "every promise held" in held.with_suffix(".md").read_text()


def test_the_probe_json_names_the_report(broken: Path) -> None:
    assert json.loads(broken.with_suffix(".json").read_text())["report"] == str(broken / "report.html")
