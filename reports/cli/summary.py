"""Results of a run in Markdown, as CI services show it (GITHUB_STEP_SUMMARY): a table, what broke, what fired."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ...faults.kinds import FAULTS
from ...scenarios.campaigns.coverage import faults_of
from ...scenarios.campaigns.failures.failure import Failure
from ...scenarios.campaigns.failures.print_failure import failure_text
from ...scenarios.campaigns.runner import ALL, Reach, Tally, verdict_of

_FENCE = "~~~~"
_ERROR_LINES = 20


def append_summary(
    file: Path,
    tallies: Sequence[Tally],
    seconds: float,
    again: Callable[[Failure], str],
    reach: Reach = ALL,
) -> None:
    """Append the summary to a file, which may have others in it. again: the command that shows a failure again."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as page:
        page.writelines(f"{line}\n" for line in _lines(tallies, seconds, again, reach))


def _lines(
    tallies: Sequence[Tally], seconds: float, again: Callable[[Failure], str], reach: Reach
) -> Iterator[str]:
    seeds = sum(tally.seeds for tally in tallies)
    yield f"### tornlog: {seeds:,} seeds in {seconds:.1f} s, {verdict_of(tallies, reach)}"
    yield ""
    yield "| scenario | seeds | crash points | faults fired | broken |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for tally in tallies:
        broken = tally.violations + len(tally.errors) + len(tally.nondeterministic)
        fired = faults_of(tally.fired).total()
        name = f"**{tally.scenario.name}**" if broken else tally.scenario.name
        yield f"| {name} | {tally.seeds:,} | {tally.crash_points:,} | {fired:,} | {broken:,} |"
    yield from (f"| {name} | not run | | | |" for name in reach.not_run)
    yield ""
    for tally in tallies:
        yield from _broken(tally, again)
    yield from _fired(tallies)


def _broken(tally: Tally, again: Callable[[Failure], str]) -> Iterator[str]:
    """Yield the first failure of a scenario, and what went wrong with the harness."""
    for failure in tally.failures[:1]:
        yield f"#### {tally.scenario.name}: {failure.violations[0].invariant} is broken"
        yield from _fenced(again(failure))
        yield "<details><summary>What happened</summary>"
        yield ""
        yield from _fenced(failure_text(failure))
        yield "</details>"
        yield ""
    for error in (*tally.nondeterministic[:1], *tally.errors[:1]):
        yield f"#### {tally.scenario.name}: no verdict"
        yield from _fenced("\n".join(error.splitlines()[-_ERROR_LINES:]))


def _fenced(text: str) -> Iterator[str]:
    yield from ("", _FENCE, text, _FENCE, "")


def _fired(tallies: Sequence[Tally]) -> Iterator[str]:
    """Yield which faults came about how often, and which never did: of those nothing is known."""
    fired: Counter[str] = sum((faults_of(tally.fired) for tally in tallies), Counter())
    kinds = [f"| {kind} | {times:,} |" for kind, times in fired.most_common()]
    never = [kind for kind in FAULTS if not fired[kind]]
    yield f"<details><summary>{fired.total():,} faults of {len(kinds)} kinds fired</summary>"
    yield ""
    if kinds:
        yield from ("| fault | times |", "| --- | ---: |", *kinds, "")
    if never:
        yield f"Never: {', '.join(never)}."
        yield ""
    yield "</details>"
    yield ""
