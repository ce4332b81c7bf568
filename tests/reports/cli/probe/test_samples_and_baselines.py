"""`tornlog probe` on a sample of the crash points, and with known findings."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.command_line import usage_error
from tests.reports.cli.probe.programs import GONE, WriteFile, invoke


def test_stop_at_first_ends_with_one_breach_and_names_what_was_left_out(save: list[str]) -> None:
    options = ("--stop-at-first", "--faults", "failed-sync", "--json", "-", "--disk", "strict-posix")
    whole, stopped = invoke("--json", "-", "--disk", "strict-posix", *save), invoke(*options, *save)
    every, first = json.loads(whole.stdout), json.loads(stopped.stdout)

    assert stopped.exit_code == 1
    assert len(every["breaches"]) > 1
    assert len(first["breaches"]) == 1
    assert first["judged"] < every["judged"]
    assert (first["finished"], first["ended"]) == (False, "--stop-at-first")
    assert first["reruns"]["untried"] == ["failed sync"]
    assert "the probe was ended by --stop-at-first" in stopped.stderr
    assert "were not tried" in stopped.stderr


def test_a_sample_says_how_many_crash_points_were_tried(save: list[str], tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    result = invoke("--points", "5", "--json", str(found), *save, "sync")
    document = json.loads(found.read_text())

    assert result.exit_code == 0, result.output
    assert (document["points"], document["points_of"], document["finished"]) == (5, 13, True)
    assert "5 of 13 crash points, evenly over the record: no promise was broken in this sample" in result.stdout


def test_a_bug_at_the_end_of_a_long_run_is_found_in_a_sample(write_file: WriteFile) -> None:
    script = write_file(
        "append.py",
        """
        import os
        log = os.open("log", os.O_WRONLY | os.O_CREAT)
        for number in range(300):
            os.write(log, b"x")
            if number < 250:
                os.fsync(log)
            print(number)
        """,
    )
    check = write_file(
        "check.py",
        """
        def check(directory, acknowledged):
            size = (directory / "log").stat().st_size if (directory / "log").exists() else 0
            if size < len(acknowledged):
                yield "the log is short"
        """,
    )
    result = invoke("--points", "20", "--disk", "ext4-ordered", "--check", str(check), "--jobs", "0", "--", str(script))

    assert result.exit_code == 1, result.output
    assert "20 of 852 crash points, evenly over the record" in result.stdout


def test_known_findings_pass_and_those_that_did_not_occur_are_named(save: list[str], tmp_path: Path) -> None:
    options = ("--faults", "failed-write", "--recovery-crashes", "1", "--disk", "strict-posix")
    printed = invoke(*options, *save).stdout
    signatures = [line.partition(": ")[2] for line in printed.splitlines() if line.startswith("broken")]
    baseline, found, junit = (tmp_path / name for name in ("baseline", "found.json", "junit.xml"))
    lines = [f"{signature}  # issue #7" for signature in dict.fromkeys(signatures)]
    baseline.write_text("\n".join([*lines, "", "# entries are lost  # fixed # soon"]))
    files = ("--baseline", str(baseline), "--json", str(found), "--junit", str(junit))
    result = invoke(*files, *options, *save)
    document = json.loads(found.read_text())

    assert len(lines) > 1
    assert result.exit_code == 0, result.output
    assert f"known: {GONE}: issue #7" in result.stdout
    assert "gone: # entries are lost: fixed # soon" in result.stdout
    assert f"no new violation, {len(signatures)} known" in result.stdout
    assert document["baseline"]["gone"] == {"# entries are lost": "fixed # soon"}
    assert {one["known"] for one in document["breaches"]} == {"issue #7"}
    assert ElementTree.parse(junit).getroot().get("failures") == "0"
    skipped = ElementTree.parse(junit).getroot().iter("skipped")
    assert all("issue #7" in (one.get("message") or "") for one in skipped)
    assert "skipped" in junit.read_text()


@pytest.mark.parametrize(
    ("more", "known", "new"),
    [((), GONE, "value '…' is lost: found '…'"), (("--stop-at-first",), "value '…' is lost: found '…'", GONE)],
)
def test_a_new_finding_fails_beside_a_known_one(
    save: list[str], tmp_path: Path, more: tuple[str, ...], known: str, new: str
) -> None:
    baseline = tmp_path / "baseline"
    baseline.write_text(f"{known}  # issue 7\n")
    result = invoke(*more, "--baseline", str(baseline), "--disk", "strict-posix", *save)

    assert result.exit_code == 1, result.output
    assert f"known: {known}: issue 7" in result.stdout
    assert [line for line in result.stdout.splitlines() if line.startswith("broken")] == [f"broken: {new}"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("\nversion # is lost", ":2: expected a signature, two spaces, # and a reason, found 'version # is lost'"),
        ("lost  #  ", ":1: expected a signature, two spaces, # and a reason, found 'lost  #'"),
        ("a  # why\na  # why not", ":2: expected each signature once, found 'a' again"),
    ],
)
def test_a_baseline_line_without_a_reason_is_refused(save: list[str], tmp_path: Path, text: str, found: str) -> None:
    baseline = tmp_path / "b"
    baseline.write_text(text)
    result = invoke("--baseline", str(baseline), *save)

    assert result.exit_code == 2
    assert "".join(found.split()) in "".join(re.sub("[│╭╮╰╯─]", "", result.output).split())


def test_a_written_baseline_is_refused_until_each_finding_has_a_reason(save: list[str], tmp_path: Path) -> None:
    file = tmp_path / "known" / "b"

    found = invoke("--write-baseline", str(file), *save)
    refused = invoke("--baseline", str(file), *save)
    lines = file.read_text().replace("TODO", "issue 12")
    file.write_text(lines)
    accepted = invoke("--baseline", str(file), "--write-baseline", str(file), "--reason", "new", *save)

    assert found.exit_code == 1
    assert f"wrote {file}: 2 findings" in found.stderr.replace("\n", "")
    assert refused.exit_code == 2
    assert "expected a reason in place of TODO" in " ".join(re.sub("[│╭╮╰╯─]", "", refused.output).split())
    assert accepted.exit_code == 0, accepted.output
    assert file.read_text() == lines


def test_the_reason_of_new_findings_is_written_into_the_baseline(save: list[str], tmp_path: Path) -> None:
    file = tmp_path / "b"

    invoke("--write-baseline", str(file), "--reason", "issue 12", *save)

    assert f"{GONE}  # issue 12" in file.read_text().splitlines()
    assert invoke("--baseline", str(file), *save).exit_code == 0


@pytest.mark.parametrize("reason", ["", "TODO", "one\ntwo", "one  # two"])
def test_a_reason_that_a_baseline_cannot_have_is_refused(save: list[str], tmp_path: Path, reason: str) -> None:
    assert "--reason" in usage_error("--write-baseline", str(tmp_path / "b"), "--reason", reason, *save, run=invoke)
    assert not (tmp_path / "b").exists()
