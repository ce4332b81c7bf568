"""Gallery results: the measurements of a row, stored in `docs/gallery/NAME/result.json`."""

import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from .measure import Measurement, Story
from .rows import DISKS, KIND_WORDS, Row, Setting

FORMAT = "tornlog-gallery/1"
CONFIRMED = "confirmed"


class ConfirmRun(msgspec.Struct, frozen=True):
    """The result of a script without tornlog. outcome: CONFIRMED, "not confirmed" or "cannot be run here"."""

    outcome: str
    said: tuple[str, ...] = ()
    date: str = ""


Runs = dict[str, ConfirmRun]
"""Results by the name of the script."""


class DiskResult(msgspec.Struct, frozen=True):
    """The number of states and broken states on one disk, and the kinds of breach."""

    states: int
    broken: int
    kinds: tuple[str, ...]


class SettingResult(msgspec.Struct, frozen=True):
    """The result of one setting. agrees: whether the result matches the row."""

    name: str
    agrees: bool
    steps: int
    promises: int
    checked: int
    disks: dict[str, DiskResult]
    stories: tuple[Story, ...]


class RowResult(msgspec.Struct, frozen=True):
    """The result of one program."""

    format: str
    version: str
    date: str
    system: str
    settings: tuple[SettingResult, ...]
    confirmed: Runs = {}

    @classmethod
    def of(cls, row: Row, version: str, measured: Sequence[Measurement], confirmed: Runs) -> "RowResult":
        """Return a result with the given measurements and the current date and machine."""
        system = f"{platform.system()} {platform.release().partition('-')[0]}, {platform.machine()}"
        settings = tuple(_setting(one) for one in measured)
        return cls(FORMAT, version, _today(), system, settings, confirmed)

    def with_confirmed(self, runs: Mapping[str, ConfirmRun]) -> "RowResult":
        """Return a copy with the results of new script runs."""
        dated = {script: msgspec.structs.replace(run, date=_today()) for script, run in runs.items()}
        return msgspec.structs.replace(self, confirmed={**self.confirmed, **dated})

    def setting(self, name: str) -> SettingResult:
        """Return the result of a setting. Raises KeyError."""
        return {setting.name: setting for setting in self.settings}[name]


def outcome_text(setting: Setting, disk: str, found: DiskResult) -> str:
    """Return the outcome of a setting on a disk, as the table shows it."""
    broken = setting.broken_by(disk, found.kinds)
    promised = ", ".join(KIND_WORDS[kind] for kind in found.kinds if kind in broken)
    if setting.promises_on(disk):
        return promised or "kept"
    other = ", ".join(KIND_WORDS[kind] for kind in found.kinds if kind not in broken)
    more = f"{other or 'kept'} (not promised)" if other or not promised else ""
    return "; ".join(words for words in (promised, more) if words)


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def _setting(found: Measurement) -> SettingResult:
    disks = {}
    for disk in DISKS:
        count = found.report.counts[disk]
        disks[disk] = DiskResult(count.states, count.broken, tuple(sorted(found.found[disk])))
    promises = len(found.record.acknowledged)
    facts = (len(found.record.steps), promises, found.report.judged)
    return SettingResult(found.setting.name, found.agrees, *facts, disks, found.stories)


def result_file(row: Row) -> Path:
    """Return the path of a row's result."""
    return row.folder / "result.json"


def read_result(row: Row) -> RowResult | None:
    """Return the stored result of a row; None without one. Raises ValueError for an unknown format."""
    file = result_file(row)
    if not file.exists():
        return None
    result = msgspec.json.decode(file.read_bytes(), type=RowResult)
    if result.format != FORMAT:
        raise ValueError(f"{file}: format: expected {FORMAT}, found {result.format}")
    return result


def write_result(row: Row, result: RowResult) -> None:
    """Store a result next to the program."""
    result_file(row).write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")
