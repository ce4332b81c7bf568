"""Calibration: a program whose documentation says what a crash may take, and what probing finds that it takes.

    record the writer by the tracer → every crash of the record, every state → kinds of breach, disk by disk
        → held against what the setting promises

A setting that promises must be silent, or broken as is explained; a weaker one must be broken.
"""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from tornlog.faults.disk.image import Image
from tornlog.faults.probe.checks.check import BROKEN, DIED, CheckOutcome
from tornlog.faults.probe.checks.checkers import Checkers
from tornlog.faults.probe.checks.command import CheckServer
from tornlog.faults.probe.probe import ProbeReport, probe
from tornlog.faults.probe.programs import CALLS, RecorderChoice
from tornlog.faults.probe.record import ProgramRecord
from tornlog.faults.probe.recording.run import EMPTY, start_of
from tornlog.faults.probe.replay import Replayer

STRICT, EXT4, KILL = "strict-posix", "ext4-ordered", "process-kill"
DISKS = (STRICT, EXT4, KILL)
LOST, PART, UNUSABLE = "lost", "part", "unusable"
STATES_MAX = 48
"""Of one crash; what is broken is broken in many."""
_PROGRAM_SECONDS, _CHECK_SECONDS = 60.0, 15.0
_SCRIPTS = Path(__file__).parent / "programs"


class NotInstalled(Exception):
    """A program is not there; the message says what would bring it."""


@dataclass(frozen=True, slots=True)
class Expected:
    """Kinds of breach on one disk: those that have to be met, and those that may be, as they hang on threads."""

    always: frozenset[str] = frozenset()
    perhaps: frozenset[str] = frozenset()

    def agrees(self, found: frozenset[str]) -> bool:
        """Return whether what was found is what is expected."""
        return self.always <= found <= self.always | self.perhaps

    def __str__(self) -> str:
        words = [*sorted(self.always), *(f"({kind})" for kind in sorted(self.perhaps))]
        return " ".join(words) or "nothing"


SILENT = Expected()


def breaks(*always: str, perhaps: tuple[str, ...] = ()) -> Expected:
    """Return what is expected of a disk that takes something."""
    return Expected(frozenset(always), frozenset(perhaps))


@dataclass(frozen=True, slots=True)
class Setting:
    """One way to run a program. arguments: of its writer; is_made: whether its database is there before."""

    arguments: tuple[str, ...]
    expected: Mapping[str, Expected]
    """By disk."""
    why: str
    """What the documentation says, or the rule in the program that breaks its promise."""
    is_made: bool = False

    @property
    def name(self) -> str:
        """Return the setting as the table has it."""
        return " ".join(self.arguments) + (", made before" if self.is_made else "")


@dataclass(frozen=True, slots=True)
class CalibratedProgram:
    """A program with its settings. command: its writer and its check; NotInstalled: it is not here."""

    name: str
    command: Callable[[], list[str]]
    settings: tuple[Setting, ...]
    is_quick: bool = False
    """Whether one of its settings takes seconds, so that each change is tested with them."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What probing one setting came to."""

    setting: Setting
    found: Mapping[str, frozenset[str]]
    """Kinds of breach by disk."""
    report: ProbeReport
    record: ProgramRecord
    seconds: float
    breaches: list[str]
    """What was broken, in the check's words, with how often on each disk, and the least losses it takes."""

    @property
    def agrees(self) -> bool:
        """Return whether every disk takes what is expected."""
        return all(expected.agrees(self.found[disk]) for disk, expected in self.setting.expected.items())


def script(name: str, distribution: str = "", executable: str = "") -> Callable[[], list[str]]:
    """Return what gives the command of a script in `programs`, if what it needs is here."""

    def command() -> list[str]:
        if distribution:
            try:
                version(distribution)
            except PackageNotFoundError as error:
                raise NotInstalled(f"pip install '.[calibrate]' has {distribution}") from error
        if executable and shutil.which(executable) is None:
            raise NotInstalled(f"{executable} is not on the PATH")
        return [sys.executable, str(_SCRIPTS / f"{name}.py")]

    return command


def go_program(name: str) -> Callable[[], list[str]]:
    """Return what gives the command of a package in `programs/go`, which Go's own tools fetch what it needs for."""

    def command() -> list[str]:
        go = shutil.which("go")
        if go is None:
            raise NotInstalled("go is not on the PATH")
        target = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "tornlog", "go", name)
        build = [go, "build", "-o", str(target), f"./{name}"]
        done = subprocess.run(build, cwd=_SCRIPTS / "go", capture_output=True, text=True, check=False, timeout=600)
        if done.returncode:
            raise NotInstalled(f"go build: {done.stderr.strip().splitlines()[-1]}")
        return [str(target)]

    return command


def calibrate(command: list[str], setting: Setting, jobs: int = 1, states_max: int = STATES_MAX) -> Calibration:
    """Probe a program under one setting.

    Raises ProgramError if it cannot be recorded, RuntimeError if what is recorded is not all that it did, or the check
    does not accept what it leaves without any crash.
    """
    began = perf_counter()
    start = _made(command, setting) if setting.is_made else EMPTY
    recorder = RecorderChoice(CALLS, "step", _PROGRAM_SECONDS)
    record, unlike = recorder.record([*command, "write", *setting.arguments], start)
    unseen = [f"{one.event}: {one.detail}" for one in record.unseen]
    if unseen or unlike:
        raise RuntimeError(f"{setting.name}: not wholly recorded: {[*unseen, *unlike]}")
    with Checkers(CheckServer(shlex.join([*command, "check"])), jobs, _CHECK_SECONDS) as checkers:
        _accept_whole(setting, record, start, checkers)
        report = probe(record, start, checkers, disks=DISKS, limit=states_max)
    found = {disk: set[str]() for disk in DISKS}
    breaches = []
    for signature, breach in report.in_order:
        states = ", ".join(f"{disk} {count}" for disk, count in breach.disks.items())
        breaches.append(f"{signature} ({states}; {breach.smallest.losses} losses)")
        for disk in breach.disks:
            found[disk].add(_kind(breach.smallest.verdict))
    kinds = {disk: frozenset(each) for disk, each in found.items()}
    return Calibration(setting, kinds, report, record, perf_counter() - began, breaches)


def _kind(verdict: CheckOutcome) -> str:
    """Return the kind of a breach. A program that dies of what it opens is as unusable as one that says so."""
    if verdict.outcome == DIED:
        return UNUSABLE
    return verdict.lines[0].partition(":")[0] if verdict.outcome == BROKEN else verdict.outcome


def _made(command: list[str], setting: Setting) -> Image:
    with TemporaryDirectory(prefix="tornlog-calibration-") as place:
        subprocess.run([*command, "make", *setting.arguments], cwd=place, check=True, timeout=_PROGRAM_SECONDS)
        return start_of(Path(place))


def _accept_whole(setting: Setting, record: ProgramRecord, start: Image, checkers: Checkers) -> None:
    replayer = Replayer(record, start)
    for _ in replayer.points():
        pass
    (verdict,) = checkers.verdicts([(replayer.intact(), record.acknowledged)])
    if verdict.is_broken or not record.acknowledged:
        raise RuntimeError(f"{setting.name}: its check does not accept the whole: {verdict.lines}")
