"""Failure reports: writes files, timelines and replay commands of failures."""

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from ...faults.simulation.artefact import ArtefactError
from ...faults.simulation.failure_text import FailureText
from ...scenarios.campaigns.failures.failure import Failure
from ...scenarios.campaigns.failures.failure_text import failure_text
from ...scenarios.campaigns.kept_files import keep_file
from ...scenarios.campaigns.runner import CampaignReach
from ...scenarios.mutants.known import applied_mutant
from ..results.model import Case, Outcome
from ..timeline.recording.record import Subject
from ..timeline.recording.recorder import replay_recorded
from .named import is_mutant
from .options import TIMELINE_STEPS_MAX, TIMELINES_MAX, draw_run

Again = Callable[[Failure], str]
"""Returns the command that reproduces a failure."""


@dataclass(frozen=True, slots=True)
class FailureLinks:
    """A failure with the paths of its files, relative to the page; "" for a missing file."""

    failure: Failure
    again: str
    name: str
    """A name that is unique on the page."""
    file: str = ""
    timeline: str = ""

    def text(self, title: str = "", about: str = "") -> FailureText:
        failure = failure_text(self.failure, self.again)
        links = (("timeline", self.timeline), ("failure file", self.file))
        return replace(
            failure,
            title=title or failure.title,
            about=about or failure.about,
            anchor=self.name,
            links=[(words, place) for words, place in links if place],
        )


def signature_of(failure: Failure) -> str:
    return failure.signature


def write_failures(
    failures: Iterable[Failure], out: Path | None, name_of: Callable[[Failure], str] = signature_of
) -> dict[str, Path]:
    """Write the first failure of each name below `out`; return name -> path, empty if `out` is None."""
    paths: dict[str, Path] = {}
    if out is None:
        return paths
    directory = out / "failures"
    for failure in failures:
        name = name_of(failure)
        if name not in paths:
            path = paths[name] = directory / f"{name}.json"
            keep_file(path, failure.to_json())
    return paths


def read_failure(file: Path) -> Failure:
    """Raises BadParameter if this version cannot read the file."""
    try:
        failure = Failure.from_json(file.read_text())
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}") from error
    except (UnicodeDecodeError, ArtefactError) as error:
        raise typer.BadParameter(f"{file}: {error}") from error
    if failure.mutant is not None and not is_mutant(failure.mutant, f"mutant in {file}"):
        raise typer.BadParameter(f"{file}: there is no mutant {failure.mutant}")
    return failure


def mutant_name_of(failure: Failure) -> str:
    return failure.file_stem_of_mutant


def replay_command(path: Path) -> str:
    return shlex.join(["tornlog", "replay", str(path)])


def skipped_cases(reach: CampaignReach) -> Iterator[Case]:
    message = "not run: interrupted" if reach.interrupted else "not run: time limit reached"
    yield from (Case(name, outcomes=[Outcome("skipped", "not run", message)]) for name in reach.not_run)


def write_timelines(
    failures: Iterable[Failure],
    paths: Mapping[str, Path],
    out: Path | None,
    again: Again,
    name_of: Callable[[Failure], str] = signature_of,
    *,
    draws: bool = True,
) -> dict[str, FailureLinks]:
    """Return the first failure of each name, in order. If `out` is set, also draw timelines of the first few."""
    left: dict[str, FailureLinks] = {}
    drawn = 0
    for failure in failures:
        name = name_of(failure)
        if name in left:
            continue
        file = timeline = ""
        if out is not None:
            assert name in paths, f"{name} was not written"
            file = paths[name].relative_to(out).as_posix()
            if draws and drawn < TIMELINES_MAX and failure.smallest.steps <= TIMELINE_STEPS_MAX:
                timeline = _draw_timeline(failure, name, out)
                drawn += 1
        left[name] = FailureLinks(failure, again(failure), name, file, timeline)
    return left


def _draw_timeline(failure: Failure, name: str, out: Path) -> str:
    subject = Subject(failure.scenario, failure.claim, failure.seed, failure.mutant)
    with applied_mutant(failure.mutant):
        _, run_recording = replay_recorded(subject, failure.smallest.record)
    (page,) = draw_run(run_recording, out / "timelines" / f"{name}.html", None)
    return page.relative_to(out).as_posix()
