"""Annotation writer: prints failures as GitHub's workflow commands, which mark lines of a pull request.

    ::error file=store/log/segment.py,line=99,title=tornlog run%3A sync-flush-power-cut::STATUS: …

GitHub reads these lines from the output of a step. A failure without a line of code in the checkout gets an annotation
without a place, which GitHub shows on the page of the job.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from ...faults.simulation.failure_text import FailureText, LineKind
from ..cli.console import print_note
from .model import Failures, On, Result

_SHOWN_MAX = 10
"""Maximum number of errors that GitHub shows per step."""
_ESCAPED_IN_TEXT = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_ESCAPED_IN_FIELDS = _ESCAPED_IN_TEXT | str.maketrans({":": "%3A", ",": "%2C"})


def print_annotations(result: Result) -> None:
    """Print an error for each failure, if this is a job of GitHub."""
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in annotation_lines(result, Path(os.environ.get("GITHUB_WORKSPACE", "."))):
            print_note(line)


def annotation_lines(result: Result, workspace: Path) -> Iterator[str]:
    """Yield one command per failure, or one with the verdict if the command failed for another reason."""
    if not result.exit_code:
        return
    groups = [group for block in _failures_in_summary(result) for group in block.groups]
    failures = [one for group in groups for one in group.failures]
    for failure in failures[:_SHOWN_MAX]:
        text = next((line.text for line in failure.lines if line.kind is LineKind.TEXT), failure.title)
        again = f"\nreproduce: {failure.again}" if failure.again else ""
        yield _error(_place_fields(failure, workspace), f"tornlog {result.command}: {failure.title}", text + again)
    if not failures:
        yield _error({}, f"tornlog {result.command}", result.verdict.text)


def _failures_in_summary(result: Result) -> list[Failures]:
    return [block for block in result.blocks if isinstance(block, Failures) and block.on & On.SUMMARY]


def _place_fields(failure: FailureText, workspace: Path) -> dict[str, str]:
    file, _, line = failure.code.rpartition(":")
    path, root = (workspace / file).resolve(), workspace.resolve()
    if not file or not path.is_file() or not path.is_relative_to(root):
        return {}
    return {"file": path.relative_to(root).as_posix(), "line": line}


def _error(place: dict[str, str], title: str, text: str) -> str:
    fields = {**place, "title": title}
    written = ",".join(f"{name}={value.translate(_ESCAPED_IN_FIELDS)}" for name, value in fields.items())
    return f"::error {written}::{text.translate(_ESCAPED_IN_TEXT)}"
