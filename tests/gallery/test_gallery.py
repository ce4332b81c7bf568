import os
import re
from pathlib import Path

import pytest

from .install import NotInstalled, _make_whole, install
from .measure import measure
from .results import CONFIRMED, outcome_text, read_result
from .rows import (
    DISKS,
    EXT4,
    GALLERY,
    KILL,
    LOST,
    POWER_CUT,
    PROCESS_KILL,
    STRICT,
    UNUSABLE,
    Expected,
    Row,
    RowError,
    Setting,
    all_rows,
    read_row,
)

ROWS = all_rows()
README = GALLERY.parents[1] / "README.md"
_QUICK = [(row, setting) for row in ROWS if row.is_quick for setting in row.settings]
_ROW = """
title = "T"
language = "C"
about = "A store."
runtime = "python"
is_widely_used = false

[[settings]]
arguments = ["sync"]
promise = "power cut"
says = "It says so."
found.strict-posix = ["lost", "part?"]
found.ext4 = []
found.process-kill = []
why = "It syncs."
"""


def name_of(case: object) -> str:
    return case.name if isinstance(case, Row | Setting) else str(case)


def written(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "row.toml").write_text(text)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", ["delete off", "delete extra"])
def test_sqlite_is_corrupted_without_syncs_and_loses_no_data_with_them(name: str) -> None:
    row = read_row(GALLERY / "sqlite")

    found = measure(row, install(row), row.setting(name))

    assert found.agrees, found.breaches
    assert found.report.judged > 200
    assert {story.kind for story in found.stories} == set().union(*found.found.values())


@pytest.mark.slow
@pytest.mark.parametrize(("row", "setting"), _QUICK, ids=name_of)
def test_each_gallery_setting_has_the_breaches_that_its_row_expects(row: Row, setting: Setting) -> None:
    try:
        program = install(row)
    except NotInstalled as missing:
        if os.environ.get("CI") and not row.apt:
            raise
        pytest.skip(str(missing))

    found = measure(row, program, setting)

    assert found.agrees, found.breaches


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_each_gallery_setting_with_a_breach_has_a_finding_or_shares_its_reason(row: Row) -> None:
    broken = {
        (setting.name, disk)
        for setting in row.settings
        for disk in DISKS
        if setting.broken_by(disk, setting.expected(disk).always)
    }

    assert not broken or row.findings, broken
    for finding in row.findings:  # a finding can be worth a fix even if the program promises nothing
        assert row.setting(finding.setting).expected(finding.disk).always, finding.title


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_each_gallery_row_agrees_with_its_stored_result(row: Row) -> None:
    result = read_result(row)

    assert result is not None, f"make gallery ONLY={row.name}"
    assert [setting.name for setting in result.settings] == [setting.name for setting in row.settings]
    for setting in row.settings:
        for disk, found in result.setting(setting.name).disks.items():
            assert setting.expected(disk).agrees(frozenset(found.kinds)), (setting.name, disk)
            assert bool(found.kinds) == bool(found.broken), (setting.name, disk)


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_a_breach_after_a_process_kill_has_a_report_and_a_confirming_script(row: Row) -> None:
    result = read_result(row)
    for finding in row.findings:
        if finding.disk != KILL:
            continue
        assert result is not None
        assert (row.folder / "report.md").is_file(), finding.title
        assert finding.confirm, finding.title
        assert result.confirmed[finding.confirm].outcome == CONFIRMED, finding.title


def test_the_rows_in_the_readme_agree_with_the_stored_results() -> None:
    lines = re.findall(r"^\| \[.+?\]\(docs/gallery/(.+?)\) \| (.+?) \|(.+)\|$", README.read_text(), re.MULTILINE)

    assert len(lines) == 6
    for name, setting_name, cells in lines:
        row = read_row(GALLERY / name)
        setting, result = next(one for one in row.settings if one.title == setting_name), read_result(row)
        assert result is not None
        found = result.setting(setting.name).disks
        expected = [outcome_text(setting, disk, found[disk]) for disk in (KILL, EXT4, STRICT)]
        assert [cell.strip().replace("**", "") for cell in cells.split("|")] == expected, (name, setting_name)


def test_the_gallery_has_durable_settings_and_settings_that_lose_data() -> None:
    settings = [setting for row in ROWS for setting in row.settings]
    kept = [one for one in settings if one.promise == POWER_CUT and not any(one.expected(d).always for d in DISKS)]
    lost = [one for one in settings if one.promise == PROCESS_KILL and one.expected(EXT4).always]

    assert len(kept) > 5
    assert len(lost) > 5


def test_a_result_agrees_only_if_it_has_exactly_the_expected_breaches() -> None:
    expected = Expected.of([LOST, f"{UNUSABLE}?"])

    assert expected.agrees(frozenset({LOST}))
    assert expected.agrees(frozenset({LOST, UNUSABLE}))
    assert not expected.agrees(frozenset())
    assert not expected.agrees(frozenset({UNUSABLE}))
    assert not expected.agrees(frozenset({LOST, "part"}))


def test_a_gallery_row_is_read_from_its_folder(tmp_path: Path) -> None:
    row = read_row(written(tmp_path / "one", _ROW))

    assert row.name == "one"
    assert row.setting("sync").expected("strict-posix") == Expected(frozenset({"lost"}), frozenset({"part"}))


@pytest.mark.parametrize(
    ("changed", "by", "said"),
    [
        ("about", "abuot", "unknown field `abuot`"),
        ('"power cut"', '"always"', "Invalid enum value 'always' - at `$.settings[0].promise`"),
        ("found.ext4", "found.ext5", "settings[0].found: expected strict-posix, ext4, process-kill"),
        ('"part?"', '"torn"', "expected some of lost, part, unusable, wrong, found torn"),
        ('"T"', "", "row.toml"),
    ],
)
def test_an_invalid_gallery_row_is_refused_with_file_and_field(
    changed: str, by: str, said: str, tmp_path: Path
) -> None:
    folder = written(tmp_path / "one", _ROW.replace(changed, by, 1))

    with pytest.raises(RowError) as refused:
        read_row(folder)

    assert said in str(refused.value)


def test_each_finding_names_an_existing_setting_and_script(tmp_path: Path) -> None:
    finding = (
        '\n[[findings]]\ntitle = "F"\nsetting = "sync"\ndisk = "strict-posix"\nsource = "s.c"\nconfirm = "no.sh"\n'
    )

    with pytest.raises(RowError, match=r"findings\[0\].confirm: expected a file, found none: no.sh"):
        read_row(written(tmp_path / "one", _ROW + finding))
    with pytest.raises(RowError, match=r"findings\[0\].setting: expected one of"):
        read_row(written(tmp_path / "one", _ROW + finding.replace('"sync"', '"none"')))


def test_a_directory_that_another_process_has_made_meanwhile_is_kept(tmp_path: Path) -> None:
    target = tmp_path / "site"

    def fill(scratch: Path) -> None:
        _make_whole(target, lambda other: (other / "file").write_text("first"))
        (scratch / "file").write_text("second")

    _make_whole(target, fill)
    assert [(each.name, each.read_text()) for each in target.iterdir()] == [("file", "first")]
    assert list(tmp_path.iterdir()) == [target]


def test_the_error_for_a_missing_program_names_the_package_to_install(tmp_path: Path) -> None:
    declared = 'apt = ["no-such-package"]\ncommands = ["no-such-command"]\n\n[[settings]]'
    row = read_row(written(tmp_path / "one", _ROW.replace("[[settings]]", declared, 1)))

    with pytest.raises(NotInstalled, match="no-such-command: not on the PATH; apt-get install no-such-package"):
        install(row)
