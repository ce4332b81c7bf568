"""Terminal tables: print the results of the commands for store directories."""

from collections.abc import Mapping
from typing import Any

from rich.table import Column, Table
from rich.text import Text

from ...store.settings.describe_config import Setting, setting_text
from ...store.tools.inspect import Inspection
from ...store.tools.rebuild import RebuildResult
from ...store.tools.verify import Verification
from .console import PipedConsole

_ROWS_MAX = 40
_NOTES_MAX = 50


def show_inspection(found: Inspection) -> None:
    fields = found.summary()
    if not fields["load"]:
        return
    console = PipedConsole()
    recovery, earliest_ms = fields["recovery"], fields["earliestMessageTime"]
    no_time = "-1, as RocketMQ answers for an empty or short log"
    console.print(
        _two_column_table(
            "store",
            {
                "directory": found.root,
                "last exit": "clean" if recovery["cleanExit"] else "unclean (abort file)",
                "log": f"{fields['minPhyOffset']} to {fields['maxPhyOffset']}, {recovery['records']} records",
                "log files": _files_line(fields["commitLogFiles"]),
                "queue entries changed by recovery": recovery["changedEntries"],
                "index": _index_line(fields["indexFiles"]),
                "earliest message, ms": no_time if earliest_ms < 0 else earliest_ms,
                "checkpoint, ms": ", ".join(f"{name} {at}" for name, at in fields["checkpoint"].items()),
                "damage": len(found.findings),
            },
        )
    )
    table = Table("topic", "queue", "min", "max", "messages", "files", "earliest, ms", title="consume queues")
    for queue in fields["queues"][:_ROWS_MAX]:
        names = ("topic", "queueId", "minOffset", "maxOffset", "messageTotal")
        row = [queue[name] for name in names] + [len(queue["files"]), queue["earliestMessageTime"]]
        table.add_row(*map(_escaped_text, row))
    if len(fields["queues"]) > _ROWS_MAX:
        table.add_row(f"... and {len(fields['queues']) - _ROWS_MAX} more")
    console.print(table)
    _show_notes(console, found.notes)


def _files_line(files: list[dict[str, Any]]) -> str:
    if not files:
        return "none"
    last = files[-1]
    return f"{len(files)} of {last['size']} bytes, the last, {last['name']}, filled to {last['wrotePosition']}"


def _index_line(files: list[dict[str, Any]]) -> str:
    entries = sum(max(file["indexCount"] - 1, 0) for file in files)
    return f"{entries} entries in {len(files)} files" if files else "none"


def show_verification(found: Verification) -> None:
    console = PipedConsole()
    counts: dict[str, Any] = {"directory": found.findings.root}
    counts |= {_spaced_name(name): count for name, count in found.counts.items()}
    counts["violations"] = len(found.findings.violations)
    console.print(_two_column_table("checked", counts))
    _show_notes(console, found.findings.notes)


def _show_notes(console: PipedConsole, notes: list[str]) -> None:
    for note in notes[:_NOTES_MAX]:
        console.print(f"note: {note}", markup=False, highlight=False, soft_wrap=True)
    if len(notes) > _NOTES_MAX:
        console.print(f"... and {len(notes) - _NOTES_MAX} more notes; --json lists all")


def show_settings(settings: list[Setting], others: Mapping[str, str]) -> None:
    """Print every setting in the syntax of broker.conf, with its meaning. Values other than the default are bold."""
    console = PipedConsole()
    table = Table(Column("setting", overflow="fold"), "meaning", title="settings (bold: not the default)")
    for one in settings:
        value = f"{one.key}={setting_text(one.value)}"
        default = f" (default {setting_text(one.default) or 'none'})" if one.differs_from_default else ""
        unit = f" {one.unit}" if one.unit else ""
        table.add_row(
            _escaped_text(value + unit + default),
            _escaped_text(one.meaning),
            style="bold" if one.differs_from_default else None,
        )
    console.print(table)
    if others:
        console.print(_two_column_table("broker settings without effect here", dict(others)))


def show_rebuilt(rebuilt: RebuildResult) -> None:
    PipedConsole().print(
        _two_column_table(
            "rebuilt",
            {
                "directory": rebuilt.root,
                "log": f"{rebuilt.min_phy_offset} to {rebuilt.max_phy_offset}, {rebuilt.records} records, copied",
                "consume queues": len(rebuilt.queues),
                "damage": len(rebuilt.findings),
            },
        )
    )


def _two_column_table(title: str, values: dict[str, Any]) -> Table:
    table = Table(title=title, show_header=False)
    for name, value in values.items():
        table.add_row(name, _escaped_text(value))
    return table


def _escaped_text(value: object) -> Text:
    """Return a value as text without markup, with escapes for bytes that are not UTF-8."""
    return Text(str(value).encode(errors="backslashreplace").decode())


def _spaced_name(name: str) -> str:
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)
