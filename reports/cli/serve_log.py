"""How lines of a server's log are written: one a line on stderr, to read or as JSON; rotation is the system's.

2026-11-24T10:00:00.123Z WARNING the disk is full (...)
{"at": "2026-11-24T10:00:00.123Z", "level": "warning", "message": "the disk is full (...)"}
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from enum import Enum

import typer

from ...store.broker.operator_log import Emit, Level, level_of


class LogLevel(Enum):
    """What --log-level takes."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def level(self) -> Level:
        """Return it as the log knows it."""
        return Level[self.name]


def line_writer(now: Callable[[], datetime] = lambda: datetime.now(UTC), *, as_json: bool) -> Emit:
    """Return what writes a line to stderr."""

    def write(line: str) -> None:
        at = now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        level = level_of(line)
        if as_json:
            fields = {"at": at, "level": level.name.lower(), "message": line}
            typer.echo(json.dumps(fields, ensure_ascii=False), err=True)
        else:
            typer.echo(f"{at} {level.name} {line}", err=True)

    return write
