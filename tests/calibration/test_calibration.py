"""Probing finds of known programs what is documented: settings that promise are silent, weaker ones break."""

import pytest

from .calibrated import (
    DISKS,
    KILL,
    LOST,
    SILENT,
    UNUSABLE,
    CalibratedProgram,
    NotInstalled,
    Setting,
    breaks,
    calibrate,
)
from .settings import PROGRAMS

_ALL = [(program, setting) for program in PROGRAMS for setting in program.settings]
_QUICK = [(program, setting) for program, setting in _ALL if program.is_quick]


def name_of(case: object) -> str:
    return case.name if isinstance(case, CalibratedProgram | Setting) else str(case)


@pytest.mark.parametrize("name", ["delete off", "delete extra"])
def test_sqlite_corrupts_without_syncs_and_with_all_of_them_loses_nothing(name: str) -> None:
    (sqlite,) = (program for program in PROGRAMS if program.name == "SQLite")
    (setting,) = (setting for setting in sqlite.settings if setting.name == name)

    found = calibrate(sqlite.command(), setting)

    assert found.agrees, found.breaches
    assert found.report.judged > 200


@pytest.mark.slow
@pytest.mark.parametrize(("program", "setting"), _QUICK, ids=name_of)
def test_what_a_setting_loses_is_what_is_documented(program: CalibratedProgram, setting: Setting) -> None:
    try:
        command = program.command()
    except NotInstalled as missing:
        pytest.skip(str(missing))

    found = calibrate(command, setting)

    assert found.agrees, found.breaches


def test_every_program_has_a_setting_that_is_broken_and_says_of_each_disk_what_it_takes() -> None:
    for program in PROGRAMS:
        assert any(setting.expected[disk].always for setting in program.settings for disk in DISKS), program.name
        for setting in program.settings:
            assert set(setting.expected) == set(DISKS), setting.name


def test_most_programs_have_a_setting_that_is_silent_on_all_disks() -> None:
    silent = {p.name for p, s in _ALL if all(expected == SILENT for expected in s.expected.values())}

    assert silent == {"SQLite", "LMDB", "RocksDB", "bbolt"}


def test_a_kill_breaks_none_but_those_whose_reason_is_given() -> None:
    broken = {f"{p.name} {s.name}": s.why for p, s in _ALL if s.expected[KILL] != SILENT}

    assert len(broken) == 5, broken
    assert all(broken.values())


def test_what_is_found_agrees_only_if_it_is_all_that_is_expected_and_no_more() -> None:
    expected = breaks(LOST, perhaps=(UNUSABLE,))

    assert expected.agrees(frozenset({LOST}))
    assert expected.agrees(frozenset({LOST, UNUSABLE}))
    assert not expected.agrees(frozenset())
    assert not expected.agrees(frozenset({UNUSABLE}))
    assert not expected.agrees(frozenset({LOST, "part"}))
