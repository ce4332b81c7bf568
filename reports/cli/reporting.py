"""Report directories of runs and of mutants: the page that a command leaves, and the timelines that it leads to."""

import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import Path

from ...scenarios.campaigns.failures.failure import Failure
from ...scenarios.mutants.known import applied_mutant
from ..html.results import FailureLinks, MutationResults, RunResults
from ..timeline.recording.record import Subject
from ..timeline.recording.recorder import replay_recorded
from .failure_files import signature_of
from .pages import TIMELINE_STEPS_MAX, TIMELINES_MAX, draw_run, write_page

Again = Callable[[Failure], str]
"""Returns the command that shows a failure again."""


def leave_run_report(results: RunResults, paths: Mapping[str, Path], out: Path, again: Again) -> Path:
    """Leave the page of a run, and timelines of what broke it; paths: its failure artefacts below `out`.

    Who interrupts a run does not wait for timelines: `tornlog replay` draws them.
    """
    from ..html.run_report import run_page  # templates: for those alone who want a page

    in_turn = zip_longest(*(row.failures for row in results.broken))  # the first of each kind come first
    failures = [failure for failure in chain.from_iterable(in_turn) if failure is not None]
    left = leave_timelines(failures, paths, out, again, draws=not results.reach.interrupted)
    return write_page(run_page(replace(results, failures=left)), out)


def leave_mutation_report(results: MutationResults, paths: Mapping[str, Path], out: Path) -> Path:
    """Leave the page of mutation runs, and timelines of what found mutants; paths: failure artefacts below `out`."""
    from ..html.mutation_report import mutation_page

    def again(failure: Failure) -> str:
        return replay_command(paths[mutant_name_of(failure)])

    failures = [one.failure for one in results.mutant_results if one.failure is not None]
    left = leave_timelines(failures, paths, out, again, mutant_name_of, draws=not results.reach.interrupted)
    return write_page(mutation_page(replace(results, failures=left)), out)


def mutant_name_of(failure: Failure) -> str:
    """Return what names a failure among those of other mutants."""
    return failure.name_of_mutant


def replay_command(path: Path) -> str:
    """Return the command that replays a failure artefact."""
    return shlex.join(["tornlog", "replay", str(path)])


def leave_timelines(
    failures: Iterable[Failure],
    paths: Mapping[str, Path],
    out: Path,
    again: Again,
    name_of: Callable[[Failure], str] = signature_of,
    *,
    draws: bool = True,
) -> dict[str, FailureLinks]:
    """Return the first failure of each name, by that, in the order given; the runs of the first few are drawn."""
    left: dict[str, FailureLinks] = {}
    drawn = 0
    for failure in failures:
        name = name_of(failure)
        if name in left:
            continue
        timeline = ""
        if draws and drawn < TIMELINES_MAX and failure.smallest.steps <= TIMELINE_STEPS_MAX:
            timeline = _draw(failure, name, out)
            drawn += 1
        file = paths[name].relative_to(out).as_posix()
        left[name] = FailureLinks(failure, again(failure), name, file, timeline)
    return left


def _draw(failure: Failure, name: str, out: Path) -> str:
    """Draw the smallest run that there is of a failure; return the page's path below `out`."""
    subject = Subject(failure.scenario, failure.claim, failure.seed, failure.mutant)
    with applied_mutant(failure.mutant):
        _, run_recording = replay_recorded(subject, failure.smallest.record)
    (page,) = draw_run(run_recording, out / "timelines" / f"{name}.html", None)
    return page.relative_to(out).as_posix()
