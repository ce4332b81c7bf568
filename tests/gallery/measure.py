"""Gallery measurement: probes one setting of a program, and compares the breaches with its row.

record the writer → every crash of the record, every state → kinds of breach by disk
    → comparison with the row → the smallest story of each kind
"""

import os
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from tornlog.faults.disk.image import Image
from tornlog.faults.probe.checks.check import BROKEN, DIED, Check, CheckOutcome
from tornlog.faults.probe.checks.checkers import Checkers
from tornlog.faults.probe.checks.command import CheckServer
from tornlog.faults.probe.failure import ProbeFinding, write_failure_cases
from tornlog.faults.probe.probe import Prober, probe_final_state
from tornlog.faults.probe.programs import CALLS, PYTHON, RecorderChoice
from tornlog.faults.probe.record import ProgramRecord
from tornlog.faults.probe.recording.run import EMPTY, start_image_of
from tornlog.faults.probe.report import ProbeReport, ViolationGroup
from tornlog.faults.probe.shrink import shrink
from tornlog.faults.simulation.failure_text import plain_text
from tornlog.reports.cli.probe.results import ProbeBreach

from .install import InstalledProgram
from .rows import DISKS, UNUSABLE, Row, Setting

_PROGRAM_SECONDS, _CHECK_SECONDS = 120.0, 30.0


@dataclass(frozen=True, slots=True)
class Story:
    """The smallest case of one kind of breach on one disk. text: the text that `tornlog probe` prints."""

    kind: str
    disk: str
    disks: tuple[str, ...]
    """All disks with breaches of this kind."""
    text: str


@dataclass(frozen=True, slots=True)
class Measurement:
    """The result of probing one setting."""

    setting: Setting
    found: Mapping[str, frozenset[str]]
    """Kinds of breach by disk."""
    report: ProbeReport
    record: ProgramRecord
    stories: tuple[Story, ...]
    seconds: float
    breaches: tuple[str, ...]
    """The messages of the check, with counts by disk and the minimum number of losses."""

    @property
    def agrees(self) -> bool:
        """Return whether every disk has exactly the expected breaches."""
        return all(self.setting.expected(disk).agrees(self.found[disk]) for disk in DISKS)


def measure(
    row: Row, program: InstalledProgram, setting: Setting, jobs: int = 1, out: Path | None = None
) -> Measurement:
    """Probe a program with one setting. out: directory for the smallest case of each kind of breach.

    Raises ProgramError if it cannot be recorded, RuntimeError if the recording is incomplete or the check rejects the
    state without a crash.
    """
    began = perf_counter()
    with _environment(program.environment):
        start = _image_made_by(program, setting) if setting.is_made else EMPTY
        record = _record(row, program, setting, start)
        check = CheckServer(shlex.join([*program.command, "check"]))
        with Checkers(check, jobs, _CHECK_SECONDS) as checkers:
            _accept_whole(setting, record, start, checkers)
            report = Prober(record, start, checkers, disks=DISKS, limit=row.states_max).probe()
            kinds = {disk: set[str]() for disk in DISKS}
            groups: dict[tuple[str, str], list[ViolationGroup]] = {}
            for _, group in report.in_order:
                kind = _kind_of(group.smallest.verdict)
                groups.setdefault((kind, group.smallest.disk), []).append(group)
                for disk in group.disks:
                    kinds[disk].add(kind)
            stories = tuple(_story(record, start, same, checkers, check, out) for same in groups.values())
    breaches = tuple(
        f"{signature} ({', '.join(f'{disk} {count}' for disk, count in group.disks.items())}; "
        f"{group.smallest.losses} losses)"
        for signature, group in report.in_order
    )
    found = {disk: frozenset(each) for disk, each in kinds.items()}
    return Measurement(setting, found, report, record, stories, perf_counter() - began, breaches)


@contextmanager
def _environment(added: Mapping[str, str]) -> Iterator[None]:
    """During the block, set environment variables for child processes."""
    before = {name: os.environ.get(name) for name in added}
    os.environ.update(added)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _record(row: Row, program: InstalledProgram, setting: Setting, start: Image) -> ProgramRecord:
    """Record the writer. The recorder of Python calls starts its own interpreter, so only the script is passed."""
    kind = PYTHON if row.record == "python" else CALLS
    command = program.command[1:] if kind == PYTHON else program.command
    recorder = RecorderChoice(kind, "step", _PROGRAM_SECONDS, takes_stacks=row.stacks)
    record, unlike = recorder.record([*command, "write", *setting.arguments], start)
    unseen = [f"{one.event}: {one.detail}" for one in record.unseen]
    if unseen or unlike:
        raise RuntimeError(f"{setting.name}: not wholly recorded: {[*unseen, *unlike]}")
    return record


def _story(
    record: ProgramRecord, start: Image, same: list[ViolationGroup], checkers: Checkers, check: Check, out: Path | None
) -> Story:
    """Return the smallest case of one kind of breach on one disk, without irrelevant losses."""
    best = min(same, key=lambda group: group.smallest.rank).smallest
    kind = _kind_of(best.verdict)
    finding = ProbeFinding(best.verdict.signature, record, start, shrink(record, start, best, checkers))
    places = write_failure_cases([finding], check, None if out is None else out / kind / best.disk)
    disks = tuple(disk for disk in DISKS if any(disk in group.disks for group in same))
    points = set().union(*(group.points for group in same))
    breach = ProbeBreach(finding, sum(group.states for group in same), len(points), (best.disk, *disks))
    text = plain_text(breach.text(next(iter(places.values()), None)))
    return Story(kind, best.disk, disks, text)


def _kind_of(verdict: CheckOutcome) -> str:
    """Return the kind of a breach. A program that crashes on opening counts as unusable."""
    if verdict.outcome == DIED:
        return UNUSABLE
    return verdict.lines[0].partition(":")[0] if verdict.outcome == BROKEN else verdict.outcome


def _image_made_by(program: InstalledProgram, setting: Setting) -> Image:
    with TemporaryDirectory(prefix="tornlog-gallery-") as place:
        subprocess.run([*program.command, "make", *setting.arguments], cwd=place, check=True, timeout=_PROGRAM_SECONDS)
        return start_image_of(Path(place))


def _accept_whole(setting: Setting, record: ProgramRecord, start: Image, checkers: Checkers) -> None:
    broken = list(probe_final_state(record, start, checkers).breaches)
    if broken or not record.acknowledged:
        raise RuntimeError(f"{setting.name}: its check does not accept the whole: {broken}")
