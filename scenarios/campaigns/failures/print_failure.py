"""A failure on the terminal: the claim, the violations, the story, and the command that shows it again.

Everything fits 80 columns. In a pipe, prose is not wrapped: lines there are for grep.
"""

from io import StringIO

from rich.console import Console
from rich.markup import escape

from ....faults.simulation.prose import prose
from ...oracle.evidence import Violation
from .failure import Failure

VIOLATIONS_MAX = 3


def print_failure(console: Console, failure: Failure, again: str = "", *, original: bool = False) -> None:
    """Print one failure: the claim, the violations, the story and the command that shows it again.

    It is printed as the shrunk run had it, if there is one; original: as the run that was found did.
    """
    breach = failure.original if original else failure.smallest
    seed = f"{'' if breach is failure.original else 'shrunk from '}seed {failure.seed}"
    console.print(f"\n[red]broken[/red]: {escape(failure.scenario)}, {seed}", soft_wrap=True)
    prose(console, 2, f"claim: {failure.claim}")
    for violation in breach.violations[:VIOLATIONS_MAX]:
        _print_violation(console, violation)
    more = len(breach.violations) - VIOLATIONS_MAX
    if more > 0:
        prose(console, 2, f"and {more} more like it")
    prose(console, 2, "before it:")
    for line in breach.story:
        prose(console, 2, line, style="dim")
    if again:
        console.print(f"  again: [bold]{escape(again)}[/bold]", soft_wrap=True)


def failure_text(failure: Failure, again: str = "") -> str:
    """Return what `print_failure` prints, as plain text."""
    text = StringIO()
    print_failure(Console(file=text, force_terminal=False, highlight=False), failure, again)
    return text.getvalue().strip()


def _print_violation(console: Console, violation: Violation) -> None:
    reason, *waits = violation.summary.splitlines()
    prose(console, 2, f"{violation.invariant}: {reason}")
    for line in (*waits, *violation.detail.splitlines()):
        prose(console, 4, line.strip())
    if violation.file:
        prose(console, 4, f"file:     {violation.file} @ {violation.offset}")
    for name, text in [("field", violation.field), *violation.facts] if violation.facts else []:
        prose(console, 4, f"{name + ':':<9} {text}")
