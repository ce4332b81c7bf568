from pathlib import Path

import pytest
from matplotlib.patches import Rectangle

from .overview import (
    DURABLE,
    KEPT,
    KNOWN,
    MODEL,
    NO_PROMISE,
    PAGE,
    PICTURE,
    PROMISES,
    REAL_EXT4,
    Measured,
    figure,
    outcome,
    page,
    stored,
    tally,
    verdict,
    way,
    write,
)
from .results import CONFIRMED, FORMAT, ConfirmRun, DiskResult, RowResult, SettingResult, outcome_text
from .rows import (
    CRASHES,
    DEFAULT,
    EXT4,
    KILL,
    LEVELS,
    LOST,
    NOTHING,
    POWER_CUT,
    PROCESS_KILL,
    STRICT,
    STRICTEST,
    UNUSABLE,
    Finding,
    Row,
    RowError,
    Setting,
    read_row,
)

_STRENGTH = (NOTHING, PROCESS_KILL, POWER_CUT)


def case(found: dict[str, tuple[str, ...]], **fields: object) -> tuple[Row, RowResult]:
    """Return a program with one setting of both levels, and its result with these kinds of breach."""
    setting = Setting(("sync",), says="s", found={}, why="w", **({"promise": POWER_CUT, "levels": LEVELS} | fields))  # type: ignore[arg-type]
    disks = {disk: DiskResult(9, len(found.get(disk, ())), found.get(disk, ())) for disk in CRASHES}
    result = RowResult(FORMAT, "1", "2026-01-01", "Linux", (SettingResult("sync", True, 1, 1, 1, disks, ()),))
    return Row("T", "C", "a", "c", (setting,), is_widely_used=True, name="t"), result


CASES: Measured = [
    case({}),
    case({STRICT: (LOST,)}),
    case({STRICT: (LOST,), EXT4: (LOST,)}),
    case(dict.fromkeys(CRASHES, (LOST,))),
    case({EXT4: (LOST,)}, promise=PROCESS_KILL),
    case({EXT4: (LOST,)}, promise=PROCESS_KILL, leaves="prefix"),
    case({EXT4: (LOST, UNUSABLE)}, promise=NOTHING, leaves="whole file"),
    case({KILL: (LOST,)}, promise=NOTHING),
]


def test_the_page_agrees_with_the_stored_results() -> None:
    assert PAGE.read_text() == page(stored()), "make gallery-page"
    assert PICTURE.read_bytes().startswith(b"\x89PNG")


def test_the_page_has_a_line_and_an_anchor_for_each_program_with_a_finding() -> None:
    text = page(stored())
    for row, _ in stored():
        assert text.count(f'<a id="{row.name}"></a>') == bool(row.findings), row.name
        assert text.count(f"ONLY={row.name}`") == len(row.findings), row.name


def test_an_outcome_is_the_mildest_crash_that_breaks_the_promise() -> None:
    found = [outcome(row, result, DEFAULT) for row, result in CASES]

    assert found == [KEPT, STRICT, EXT4, KILL, KEPT, KEPT, EXT4, NO_PROMISE]


def test_programs_are_counted_by_promise_and_outcome() -> None:
    counts = tally([*CASES, case({}, levels=(STRICTEST,))], DEFAULT)

    assert counts == {
        DURABLE: {KEPT: 1, STRICT: 1, EXT4: 1, KILL: 1},
        "prefix": {KEPT: 1},
        "whole file": {EXT4: 1},
        "kill": {KEPT: 1},
        NOTHING: {NO_PROMISE: 1},
    }
    assert verdict(counts) == "4 of 7 hold on ext4, 3 on strict POSIX"


@pytest.mark.parametrize("level", LEVELS)
def test_the_bars_of_the_picture_are_the_counts(level: str) -> None:
    counts = tally(stored(), level)
    panel = figure(stored()).axes[LEVELS.index(level)]

    bars = [round(bar.get_width()) for bar in panel.patches if isinstance(bar, Rectangle) and bar.get_width()]
    assert bars == [count for promise in PROMISES for count in _in_order(counts[promise])]
    assert [text.get_text() for text in panel.texts] == [str(count) for count in bars]
    assert verdict(counts) in panel.get_title()


def _in_order(counts: dict[str, int]) -> list[int]:
    return [counts[one] for one in (KEPT, STRICT, EXT4, KILL, NO_PROMISE) if counts[one]]


def test_the_page_and_its_picture_are_written(tmp_path: Path) -> None:
    write(stored(), tmp_path / "page.md", tmp_path / "picture.png")

    assert (tmp_path / "page.md").read_text() == page(stored())
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("fields", "run", "said"),
    [
        ({"confirm": "kill.sh", "on_real_ext4": True}, CONFIRMED, "a real kill"),
        ({"confirm": "cut.sh"}, CONFIRMED, "a file cut as a kill cuts a write"),
        ({"confirm": "kill.sh"}, "cannot be run here", MODEL),
        ({"on_real_ext4": True, "known": "issue 1"}, "", REAL_EXT4),
        ({"known": "issue 1"}, "", KNOWN),
        ({}, "", MODEL),
    ],
)
def test_a_finding_has_its_strongest_confirmation(fields: dict[str, object], run: str, said: str) -> None:
    finding = Finding("F", "sync", "ext4", "s.c", **fields)  # type: ignore[arg-type]
    _, result = case({})

    assert way(result.with_confirmed({finding.confirm: ConfirmRun(run)}), finding) == said


def test_the_report_of_a_finding_on_a_real_ext4_says_so() -> None:
    shown = [row for row, _ in stored() if any(finding.on_real_ext4 for finding in row.findings)]

    assert shown
    assert all("On a real ext4" in (row.folder / "report.md").read_text() for row in shown)


def test_the_strictest_setting_has_the_strongest_promise_of_its_program() -> None:
    for row, _ in stored():
        strictest = {setting.promise for setting in row.settings if STRICTEST in setting.levels}
        assert strictest == {max((setting.promise for setting in row.settings), key=_STRENGTH.index)}, row.name


def test_an_outcome_separates_broken_promises_from_other_losses() -> None:
    row, result = CASES[6]
    found = result.setting("sync").disks

    assert outcome_text(row.settings[0], EXT4, found[EXT4]) == "cannot open; data lost (not promised)"
    assert outcome_text(row.settings[0], KILL, found[KILL]) == "kept (not promised)"
    assert outcome_text(CASES[0][0].settings[0], KILL, found[KILL]) == "kept"


def test_settings_of_a_level_with_different_promises_are_refused(tmp_path: Path) -> None:
    setting = (
        '[[settings]]\narguments = ["{0}"]\npromise = "{1}"\nlevels = ["default"]\nsays = "s"\nwhy = "w"\n'
        "found.strict-posix = []\nfound.ext4 = []\nfound.process-kill = []\n"
    )
    head = 'title = "T"\nlanguage = "C"\nabout = "a"\nruntime = "c"\nis_widely_used = true\n'
    text = head + setting.format("one", "kill") + setting.format("two", "power cut")
    (tmp_path / "row.toml").write_text(text)

    with pytest.raises(RowError, match="expected one promise at the level 'default'"):
        read_row(tmp_path)
