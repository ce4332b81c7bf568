"""Kinds of check: a table for options, failure files and recorded recoveries.

To add a kind, write a subclass of `Check` and add a row. The row gives it an option with help text, the replay of
failures, and crashes in recovery.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .check import Check, PythonCheck
from .command import CheckServer, CommandCheck


def check_in_file(path: Path) -> Check:
    """Return the check in a file: a Python function or an executable. CheckError: the file is neither."""
    return PythonCheck(path) if path.suffix == ".py" else CommandCheck(path)


@dataclass(frozen=True, slots=True)
class CheckKind:
    """One way to select a check on the command line. make: returns the check for a value, or raises CheckError."""

    make: Callable[[str], Check]
    help_text: str
    metavar: str = ""
    """The option's value in help texts. "": the value is a file."""


CHECK_KINDS: Mapping[str, CheckKind] = {
    "check": CheckKind(
        lambda name: check_in_file(Path(name)),
        "A Python file with check(directory, acknowledged), or an executable that ends with 0 if all is well.",
    ),
    CheckServer.kind: CheckKind(
        CheckServer, "A check that stays up: a JSON line in, a JSON line out for each state.", metavar="COMMAND"
    ),
}
"""Kinds by `Check.kind`, which is the option's name with `_` for `-`."""
assert {check.kind for check in (PythonCheck, CommandCheck, CheckServer)} <= set(CHECK_KINDS)
