"""Baseline of `tornlog probe`: known findings, each with the reason why it is accepted.

    version # was promised, found none  # issue 12: the directory is not synced yet

A line has a signature as the output prints it after `broken:`, two spaces, `#`, a space, and the reason. A signature
can contain `#` itself, in place of numbers, so the last separator of a line counts. Blank lines are skipped.
"""

import re
from pathlib import Path

import typer

_SEPARATOR = re.compile(r"\s{2,}#\s+")


def read_baseline(path: Path) -> dict[str, str]:
    """Return the reasons by signature. Raises BadParameter for a file that is no baseline."""
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
        if signature in reasons:
            raise _invalid(f"{path}:{number}: expected each signature once, found {signature!r} again")
        reasons[signature] = reason
    return reasons


def _invalid(text: str) -> typer.BadParameter:
    return typer.BadParameter(text, param_hint="--baseline")
