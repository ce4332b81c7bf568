"""Baseline of `tornlog probe`: reads and writes accepted findings with reasons.

    version # was promised, found none  # issue 12: the directory is not synced yet

A line consists of a signature as the output prints it after `broken:`, two spaces, `#`, a space, and the reason. A
signature can contain `#` instead of numbers, so the last separator of a line counts. Blank lines are skipped.
`--write-baseline` writes the reason TODO, which `read_baseline` rejects, so that a person must review each finding.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import typer

from ..options import results_written

NO_REASON = "TODO"
"""The reason of a new finding, which a person must replace."""
_SEPARATOR = re.compile(r"\s{2,}#\s+")


def read_baseline(path: Path) -> dict[str, str]:
    """Return signature -> reason. Raises BadParameter for an invalid file."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise _invalid(f"{path}: expected a text file in UTF-8: {error}") from error
    reasons: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        separators = list(_SEPARATOR.finditer(line))
        signature = line[: separators[-1].start()].strip() if separators else ""
        reason = line[separators[-1].end() :].strip() if separators else ""
        if not (signature and reason):
            raise _invalid(f"{path}:{number}: expected a signature, two spaces, # and a reason, found {line.strip()!r}")
        if reason == NO_REASON:
            raise _invalid(f"{path}:{number}: expected a reason in place of {NO_REASON}, for {signature!r}")
        if signature in reasons:
            raise _invalid(f"{path}:{number}: expected each signature once, found {signature!r} again")
        reasons[signature] = reason
    return reasons


def write_baseline(path: Path, reasons: Mapping[str, str]) -> None:
    """Write a baseline. reasons: signature -> reason. Raises BadParameter if the file cannot be written."""
    text = "".join(f"{signature}  # {reason}\n" for signature, reason in sorted(reasons.items()))
    with results_written("--write-baseline"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def require_reason(reason: str) -> None:
    """Raise BadParameter for a reason that a baseline line cannot contain."""
    if not reason.strip() or reason == NO_REASON or len(reason.splitlines()) > 1 or _SEPARATOR.search(reason):
        raise typer.BadParameter(f"expected a line of text without '  # ', found {reason!r}", param_hint="--reason")


def _invalid(text: str) -> typer.BadParameter:
    return typer.BadParameter(text, param_hint="--baseline")
