"""`tornlog inspect` and `tornlog verify`: look into a store directory without changing it.

Exit codes: 0 all held, 1 damage or a broken promise, 2 usage. Damage goes to stderr, one line each, as
`file @ offset: field: expected X, found Y`, with files relative to the store directory.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand

from .config import MIB
from .geometry import Geometry
from .inspect import Inspection, inspect_directory, relative_to
from .real.world import overlay_world
from .verify import Verification, verify_directory

_ROWS_MAX = 40
_LINES_MAX = 50
_LONG_BYTES = 256 * MIB


class JsonCommand(TyperCommand):
    """A command whose `--json` may stand without a FILE, at the end or before another option: then it is `-`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the line, with the `-` put in."""
        completed = []
        for number, arg in enumerate(args):
            completed.append(arg)
            following = args[number + 1] if number + 1 < len(args) else "--"
            if arg == "--json" and following.startswith("-") and following != "-":
                completed.append("-")
        return super().parse_args(ctx, completed)


Directory = Annotated[
    Path,
    typer.Argument(
        metavar="DIR", exists=True, file_okay=False, help="A store directory; its files are only read."
    ),
]
JsonFile = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Write everything as JSON to FILE, - for stdout.")
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", exists=True, dir_okay=False, help="The broker's broker.conf."),
]
LogBytes = Annotated[
    int | None,
    typer.Option("--commit-log-size", metavar="BYTES", min=1, help="Segment size, if files cannot tell."),
]
QueueBytes = Annotated[
    int | None,
    typer.Option("--consume-queue-size", metavar="BYTES", min=1, help="Queue segment size, likewise."),
]


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    app.command("inspect", cls=JsonCommand)(inspect)
    app.command("verify", cls=JsonCommand)(verify)


def inspect(
    directory: Directory,
    json_file: JsonFile = None,
    config: ConfigFile = None,
    commit_log_size: LogBytes = None,
    consume_queue_size: QueueBytes = None,
) -> None:
    """Open a store directory as the store would, recovery included but only in memory, and show what is in it."""
    root = os.path.abspath(directory)
    told = _told(config, commit_log_size, consume_queue_size)
    found = inspect_directory(overlay_world(), root, told)
    if json_file is not None:
        write_json(json_file, found.everything())
    else:
        _show_inspection(found)
    _complain(
        [str(finding).replace(finding.file, relative_to(root, finding.file), 1) for finding in found.findings]
    )
    raise typer.Exit(1 if found.findings else 0)


def verify(
    directory: Directory,
    json_file: JsonFile = None,
    config: ConfigFile = None,
    commit_log_size: LogBytes = None,
    consume_queue_size: QueueBytes = None,
) -> None:
    """Check every record, queue entry and the checkpoint of a store directory as it stands, without recovery."""
    root = os.path.abspath(directory)
    told = _told(config, commit_log_size, consume_queue_size)
    with _progress(root) as advance:
        found = verify_directory(overlay_world().files, root, told, advance)
    if json_file is not None:
        write_json(json_file, found.fields())
    else:
        _show_verification(found)
    _complain([str(violation) for violation in found.findings.violations])
    raise typer.Exit(1 if found.findings.violations else 0)


def _told(config: Path | None, log_bytes: int | None, queue_bytes: int | None) -> Geometry:
    """Put together what the options say; those for sizes win over the file."""
    try:
        conf = Geometry() if config is None else Geometry.of_broker_conf(config.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise typer.BadParameter(f"{config}: {error}", param_hint="--config") from error
    return Geometry(
        log_bytes or conf.commit_log_bytes,
        queue_bytes or conf.consume_queue_bytes,
        conf.max_message_bytes,
        conf.delay_levels,
    )


def write_json(file: str, fields: Any) -> None:
    """Write a result as JSON to a file, - for stdout. A file that cannot be written is a usage error."""
    if file == "-":
        json.dump(fields, sys.stdout)
        sys.stdout.write("\n")
        return
    try:
        with open(file, "w", encoding="utf-8") as out:
            json.dump(fields, out)
            out.write("\n")
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}", param_hint="--json") from error


def _complain(lines: list[str]) -> None:
    for line in lines[:_LINES_MAX]:
        typer.echo(line, err=True)
    if len(lines) > _LINES_MAX:
        typer.echo(f"... and {len(lines) - _LINES_MAX} more; --json lists all", err=True)


@contextmanager
def _progress(root: str) -> Iterator[Callable[[int], None]]:
    """Yield what counts log bytes, on a bar if there is a terminal to see it and the log is long."""
    console = Console(stderr=True)
    log_bytes = _log_bytes(root)
    if not console.is_terminal or log_bytes < _LONG_BYTES:
        yield _nobody
        return
    columns = TextColumn("reading the log"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("log", total=log_bytes)
        yield lambda read_bytes: progress.advance(task, read_bytes)


def _log_bytes(root: str) -> int:
    try:
        with os.scandir(f"{root}/commitlog") as found:
            return sum(entry.stat().st_size for entry in found)
    except OSError:
        return 0  # whatever is wrong there, the verification says it better


def _nobody(_: int) -> None:
    """Count nothing."""


# -- tables ----------------------------------------------------------------------------------------


def _show_inspection(found: Inspection) -> None:
    fields = found.summary()
    if not fields["load"]:
        return
    console = Console()
    recovery = fields["recovery"]
    console.print(
        _pairs(
            "store",
            {
                "directory": found.root,
                "last exit": "clean" if recovery["cleanExit"] else "unclean (abort file)",
                "log": f"{fields['minPhyOffset']} to {fields['maxPhyOffset']}, {recovery['records']} records",
                "log files": _files_line(fields["commitLogFiles"]),
                "queue entries changed by recovery": recovery["changedEntries"],
                "earliest message, ms": fields["earliestMessageTime"],
                "checkpoint, ms": ", ".join(f"{name} {at}" for name, at in fields["checkpoint"].items()),
                "damage": len(found.findings),
            },
        )
    )
    table = Table("topic", "queue", "min", "max", "messages", "files", "earliest, ms", title="consume queues")
    for queue in fields["queues"][:_ROWS_MAX]:
        names = ("topic", "queueId", "minOffset", "maxOffset", "messageTotal")
        row = [queue[name] for name in names] + [len(queue["files"]), queue["earliestMessageTime"]]
        table.add_row(*map(_text, row))
    if len(fields["queues"]) > _ROWS_MAX:
        table.add_row(f"... and {len(fields['queues']) - _ROWS_MAX} more")
    console.print(table)


def _files_line(files: list[dict[str, Any]]) -> str:
    if not files:
        return "none"
    last = files[-1]
    return (
        f"{len(files)} of {last['size']} bytes, the last, {last['name']}, filled to {last['wrotePosition']}"
    )


def _show_verification(found: Verification) -> None:
    console = Console()
    counts: dict[str, Any] = {"directory": found.findings.root}
    counts |= {_spaced(name): count for name, count in found.counts.items()}
    counts["violations"] = len(found.findings.violations)
    console.print(_pairs("checked", counts))
    for note in found.findings.notes[:_LINES_MAX]:
        console.print(f"note: {note}", markup=False, highlight=False, soft_wrap=True)
    if len(found.findings.notes) > _LINES_MAX:
        console.print(f"... and {len(found.findings.notes) - _LINES_MAX} more notes; --json lists all")


def _pairs(title: str, values: dict[str, Any]) -> Table:
    table = Table(title=title, show_header=False)
    for name, value in values.items():
        table.add_row(name, _text(value))
    return table


def _text(value: object) -> Text:
    """Return a value as it is to be seen: no markup, and names that are no UTF-8 with their bytes spelled out."""
    return Text(str(value).encode(errors="backslashreplace").decode())


def _spaced(name: str) -> str:
    """Spell a JSON field as words."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)
