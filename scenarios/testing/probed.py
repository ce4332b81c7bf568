"""The fixture `probe`: probes a program in a test, and fails the test for each broken promise.

    def test_survives(probe):
        probe([sys.executable, "writer.py"], check=check, disk="ext4-ordered")

The hook `pytest_tornlog_probe`, which `tornlog.reports` implements, records the program and crashes it.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import fspath
from os.path import relpath
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ...faults.simulation.failure_text import FailureText, LineKind, TextLine, plain_text
from .facts import file_name, pytest_command, test_id

PROBE_MARK = "tornlog_probe"
_CHECK_LINES_MAX = 20


class ProbeError(Exception):
    """A probe without a verdict: wrong arguments, a program that cannot be recorded, or crashes that were not tried."""


class ProbeProvesLittle(UserWarning):
    """A probe without a broken promise shows little, for example because the program made no promise."""


class ProbedFailure(NamedTuple):
    """A broken promise. file, page: the failure file and the timeline, if they were written."""

    text: FailureText
    file: Path | None
    page: Path | None


class ProbeAnswer(NamedTuple):
    """The result of a probe."""

    verdict: str
    crash_points: int
    states: int
    failures: Sequence[ProbedFailure]
    gaps: Sequence[str]
    """Requested parts of the probe without a verdict."""
    notes: Sequence[str]
    """Reasons why a result without a broken promise shows little."""
    check_output: str
    """The output of the check for all states."""


class NamedCheck(NamedTuple):
    """A check that is a function of the test run, with its name for reports."""

    name: str
    function: Callable[..., Any]
    raised: tuple[type[BaseException], ...]
    """Exceptions of pytest that mean a broken promise, although they do not derive from `Exception`."""


class ProgramProbe:
    """The value of the fixture `probe`. facts: one dictionary per call, for the session's report."""

    def __init__(self, item: pytest.Function) -> None:
        self._item = item
        self._id = test_id(item)
        self.facts: list[dict[str, Any]] = []
        self._marked: dict[str, Any] = {}
        for mark in reversed(list(item.iter_markers(PROBE_MARK))):  # the mark nearest to the test takes precedence
            if mark.args:
                raise ProbeError(f"the mark {PROBE_MARK} takes only keywords, found {mark.args[0]!r}")
            self._marked |= mark.kwargs

    def __call__(self, program: Sequence[str | Path], check: object = None, **options: Any) -> None:
        """Record a program, crash it at each of its file operations, and check every state.

        check: a function check(directory, acknowledged), or the path of a check. options: those of `tornlog probe`, as
        keywords, which take precedence over the marks. A broken promise fails the test. Raises ProbeError without a
        verdict.
        """
        __tracebackhide__ = True
        config = self._item.config
        if config.getoption("--tornlog-replay") is not None:
            pytest.skip("--tornlog-replay runs failures of simulations only; `tornlog probe --replay` runs others")
        try:
            answer = self._make_answer(_split_command(program), _load_check(check), {**self._marked, **options})
        except ProbeError as error:
            raise ProbeError(*error.args) from None  # the traceback ends at the line of the test
        again = f"{pytest_command(config)} {self._id}"
        is_in_file = not callable(check)
        stories = [_failure_text(one, again, is_in_file=is_in_file) for one in answer.failures]
        self.facts.append(self._facts_of(answer, again, is_in_file=is_in_file))
        if stories:
            pytest.fail("\n\n".join([*stories, *_check_output(answer), answer.verdict]), pytrace=False)
        if answer.gaps:
            raise ProbeError("\n".join([f"{answer.verdict}:", *answer.gaps, *_check_output(answer)]))
        for note in answer.notes:
            self._warn_of_little_proof(note)

    def _make_answer(self, program: list[str], check: NamedCheck | Path | None, options: dict[str, Any]) -> ProbeAnswer:
        answer: ProbeAnswer | None = self._item.config.hook.pytest_tornlog_probe(
            program=program, check=check, options=options, out=self._results_directory()
        )
        if answer is None:
            raise ProbeError("the plugin tornlog-timelines, which probes programs, is not loaded")
        return answer

    def _results_directory(self) -> Path | None:
        out = self._item.config.getoption("--tornlog-out")
        if out is None:
            return None
        number = len(self.facts) + 1
        place = Path(out, "probes", file_name(self._id) + (f"-{number}" if number > 1 else ""))
        began_in = self._item.config.invocation_params.dir
        return place if Path.cwd() == began_in else began_in / place  # a test may change the working directory

    def _facts_of(self, answer: ProbeAnswer, again: str, *, is_in_file: bool) -> dict[str, Any]:
        breaches = [
            {
                "signature": one.text.title,
                "failure": None if one.file is None else str(one.file),
                "timeline": None if one.page is None else str(one.page),
                "again": one.text.again if is_in_file and one.file is not None else again,
            }
            for one in answer.failures
        ]
        counts = {"crash_points": answer.crash_points, "states": answer.states}
        return {"id": self._id, **counts, "breaches": breaches, "gaps": list(answer.gaps), "notes": list(answer.notes)}

    def _warn_of_little_proof(self, note: str) -> None:
        __tracebackhide__ = True
        try:
            self._item.warn(ProbeProvesLittle(note))
        except ProbeProvesLittle:  # if pytest turns warnings into errors
            raise pytest.fail.Exception(note, pytrace=False) from None


def _split_command(program: Sequence[str | Path]) -> list[str]:
    """Return the words of a command line. The program runs in another directory, so a script gets its absolute path."""
    if isinstance(program, str | Path) or not program:
        raise ProbeError(f"program: expected a list such as [sys.executable, 'writer.py'], found {program!r}")
    words = [fspath(word) for word in program]
    if len(words) > 1 and Path(words[0]).name.startswith("python") and Path(words[1]).is_file():
        words[1] = str(Path(words[1]).resolve())
    return words


def _load_check(check: object) -> NamedCheck | Path | None:
    if check is None or isinstance(check, str | Path):
        return None if check is None else Path(check)
    if not callable(check):
        raise ProbeError(f"check: expected a function check(directory, acknowledged) or a path, found {check!r}")

    name = getattr(check, "__qualname__", type(check).__qualname__)
    code = inspect.unwrap(check)
    file = relpath(inspect.getfile(code)) if inspect.isfunction(code) or inspect.ismethod(code) else ""
    return NamedCheck(f"{file}::{name}" if file else name, check, (pytest.fail.Exception,))


def _failure_text(failure: ProbedFailure, again: str, *, is_in_file: bool) -> str:
    text, lines = failure.text, list(failure.text.lines)
    if failure.page is not None:
        lines.append(TextLine(LineKind.TEXT, f"timeline: {failure.page}"))
    if not is_in_file and failure.file is not None:
        lines.append(TextLine(LineKind.TEXT, f"failure: {failure.file}"))
        lines.append(
            TextLine(LineKind.TEXT, "the check is a function of a test, so only a check in a file replays it:")
        )
        lines.append(TextLine(LineKind.TEXT, f"{text.again} --check CHECK.py"))
    if failure.file is None or not is_in_file:
        text = replace(text, again=again)
    return plain_text(replace(text, lines=lines))


def _check_output(answer: ProbeAnswer) -> list[str]:
    lines = answer.check_output.splitlines()[-_CHECK_LINES_MAX:]
    return ["\n".join(["output of the check for all states:", *lines])] if lines else []


def summary_of_probes(facts: Sequence[Mapping[str, Any]]) -> str:
    points, states = (sum(one[name] for one in facts) for name in ("crash_points", "states"))
    broken = sum(bool(one["breaches"]) for one in facts)
    counts = f"{len(facts):,} probed, {points:,} crash points, {states:,} states"
    return f"{counts}, {broken:,} broken" if broken else counts
