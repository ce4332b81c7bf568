"""Log lines for operators."""

import errno
import json
import threading
import time
from datetime import UTC, datetime

import pytest

from tornlog.reports.cli.serve import line_writer
from tornlog.store.broker.operator_log import (
    LINE_CHARACTERS_MAX,
    LINES_MAX,
    LineLevel,
    OperatorLog,
    debug_line,
    failure_line,
    level_of,
    warning_line,
)
from tornlog.store.real.world import real_world


def test_log_lines_beyond_the_rate_limit_are_counted_and_not_shown() -> None:
    lines: list[str] = []
    log = OperatorLog(real_world(), lines.append)
    log.start()

    for number in range(LINES_MAX + 5):
        log.emit(f"line {number}")

    assert log.close()
    assert lines == [*(f"line {number}" for number in range(LINES_MAX)), "... and 5 more lines"]


def test_control_characters_and_long_lines_are_not_logged_unchanged() -> None:
    lines: list[str] = []
    log = OperatorLog(real_world(), lines.append)
    log.start()

    log.emit("\x1b[2J\r\n" + "x" * 10_000)

    assert log.close()
    assert lines[0].startswith("?[2J??x")
    assert len(lines[0]) == LINE_CHARACTERS_MAX


def test_a_stopped_terminal_delays_no_caller_of_the_operator_log() -> None:
    written = threading.Event()
    log = OperatorLog(real_world(), lambda line: assert_true(written.wait(120)))
    log.start()

    began = time.monotonic()
    for number in range(10_000):
        log.emit(f"line {number}")
    took = time.monotonic() - began

    assert took < 20
    assert not log.close()
    written.set()


def test_a_log_line_that_cannot_be_written_is_dropped_and_the_next_is_written() -> None:
    lines: list[str] = []

    def write(line: str) -> None:
        if line == "no room":
            raise OSError(errno.ENOSPC, line)
        lines.append(line)

    log = OperatorLog(real_world(), write)
    log.start()

    log.emit("no room")
    log.emit("room")
    end = time.monotonic() + 60
    while not lines and time.monotonic() < end:
        time.sleep(0.005)

    assert log.close()
    assert lines == ["room", "... and 1 more lines"]


def assert_true(condition: bool) -> None:
    assert condition


def test_log_lines_below_the_level_are_ignored_and_not_counted() -> None:
    lines: list[str] = []
    log = OperatorLog(real_world(), lines.append, LineLevel.WARNING)
    log.start()

    for number in range(LINES_MAX + 5):
        log.emit(debug_line(f"{number}"))
        log.emit(f"{number}")
    log.emit(warning_line("a disk is nearly full"))
    log.emit(failure_line("\ta disk is full"))

    assert log.close()
    assert lines == ["a disk is nearly full", "?a disk is full"]
    assert [level_of(line) for line in lines] == [LineLevel.WARNING, LineLevel.ERROR]


def test_a_log_line_is_written_as_text_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    at = datetime(2026, 11, 24, 10, 0, 0, 123_000, UTC)
    line_writer(lambda: at, as_json=False)(warning_line("a disk is full"))
    line_writer(lambda: at, as_json=True)("now it has room")
    plain, as_json = capsys.readouterr().err.splitlines()
    assert plain == "2026-11-24T10:00:00.123Z WARNING a disk is full"
    assert json.loads(as_json) == {"at": "2026-11-24T10:00:00.123Z", "level": "info", "message": "now it has room"}
