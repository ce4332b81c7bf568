"""Recording: plans a probe, and records one run of the program.

The module imports little, because a user waits for the start of the program.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from time import perf_counter
from typing import NamedTuple

import typer

from ....faults.crashes.at_rest import AT_REST
from ....faults.crashes.profiles import PROFILES
from ....faults.disk.image import Image
from ....faults.kinds import FaultKind
from ....faults.probe.checks.check import Check, CheckError
from ....faults.probe.checks.command import CHECK_KINDS
from ....faults.probe.programs import PYTHON, RecorderChoice, with_mount_points
from ....faults.probe.record import FILES, ProgramRecord, SeparateDisk
from ....faults.probe.recording.run import EMPTY, ProgramError, start_image_of
from ....faults.probe.story import where
from ....faults.probe.tracing.control import CallFault, CrashRule
from .command import ProbeOptions

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def machines_named(values: Sequence[str]) -> dict[str, str]:
    """Return machine name -> directory. Raises BadParameter for a value that is not NAME=DIR."""
    machines: dict[str, str] = {}
    for value in values:
        name, _, directory = value.partition("=")
        if not _NAME.fullmatch(name) or not directory:
            raise typer.BadParameter(f"expected NAME=DIR, such as n1=data/n1, found {value}", param_hint="--machine")
        if name in machines:
            raise typer.BadParameter(f"expected each name once, found {name} twice", param_hint="--machine")
        machines[name] = directory_inside(directory, "--machine")
    require_apart(list(machines.values()), "--machine")
    return machines


def separate_disks_given(machines: Sequence[str], disks: Sequence[str]) -> tuple[SeparateDisk, ...]:
    """Return the directories with their own disks, from the values of --machine and --disk-of."""
    found = dict.fromkeys(machines_named(machines).values(), "")
    for value in disks:
        directory, _, profile = value.rpartition("=")
        if not directory:
            raise typer.BadParameter(f"expected DIR=KIND, such as log=ext4, found {value}", param_hint="--disk-of")
        if profile not in PROFILES:
            known = ", ".join(PROFILES)
            raise typer.BadParameter(f"expected a kind of crash: {known}; found {profile}", param_hint="--disk-of")
        path = directory_inside(directory, "--disk-of")
        require_apart([*found, path], "--disk-of")
        found[path] = profile
    return tuple(SeparateDisk(f"{FILES}/{directory}", profile) for directory, profile in found.items())


def directory_inside(directory: str, option: str) -> str:
    """Return a directory relative to the program's. Raises BadParameter unless it is inside the program's directory."""
    path = PurePosixPath(directory)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise typer.BadParameter(
            f"expected a directory below the program's own, such as data, found {directory}", param_hint=option
        )
    return str(path)


def require_apart(directories: Sequence[str], option: str) -> None:
    """Raise BadParameter if one directory equals or contains another."""
    for number, one in enumerate(directories):
        for other in directories[number + 1 :]:
            outer, inner = sorted((one, other), key=len)
            if f"{inner}/".startswith(f"{outer}/"):
                raise typer.BadParameter(f"expected separate directories, found {one} and {other}", param_hint=option)


class ProbePlan(NamedTuple):
    """The options of a probe, converted to a check, disks and faults."""

    options: ProbeOptions
    program: list[str]
    recorder: RecorderChoice
    check: Check
    disks: tuple[str, ...]
    kinds: Sequence[FaultKind]
    baseline: Mapping[str, str]
    """Signature of a known finding -> reason."""
    call_faults: Sequence[CallFault] = ()
    crash_rules: Sequence[CrashRule] = ()

    @property
    def is_rerun(self) -> bool:
        return bool(self.kinds or self.call_faults or self.options.seeds)

    @property
    def crash_disks(self) -> list[str]:
        """Return the disks that model crashes, not damage at rest."""
        return [disk for disk in self.disks if disk not in AT_REST]


def check_given(names: Mapping[str, str]) -> Check:
    """Return the check that the options name. Raises BadParameter for an invalid check, or for several checks."""
    options = [f"--{kind.replace('_', '-')}" for kind in names]
    if len(names) > 1:
        raise typer.BadParameter(f"expected {' or '.join(options)}, found {'both' if len(names) == 2 else 'all'}")
    ((kind, name),) = names.items()
    try:
        return CHECK_KINDS[kind].make(name)
    except CheckError as error:
        raise typer.BadParameter(str(error), param_hint=options[0]) from error


class RefusedError(Exception):
    """The recorder missed calls of a program. Contains the record, the reasons and a hint for the user."""

    def __init__(self, record: ProgramRecord, reasons: list[str], hint: str) -> None:
        super().__init__("; ".join(reasons))
        self.record = record
        self.reasons = reasons
        self.hint = hint


CALLS_HINT = "--record calls records at the calls of the system, which every program makes"


class Recorded(NamedTuple):
    """A recorded run of a program."""

    record: ProgramRecord
    start: Image
    """The files at the start of the run."""
    allowed: list[str]
    """Calls that the recorder missed and --allow permits."""
    began: float
    """`perf_counter` at the start of the recording."""


def record_program(options: ProbeOptions, program: list[str], recorder: RecorderChoice) -> Recorded:
    """Run and record the program. Raises BadParameter if it cannot start, RefusedError after unrecorded calls."""
    began = perf_counter()
    try:
        start = with_mount_points(
            EMPTY if options.start is None else start_image_of(options.start), recorder.separate_disks
        )
        record, unlike = recorder.record(program, start)
    except ProgramError as error:
        raise typer.BadParameter(str(error)) from error
    harmless = options.allow or ()
    allowed = [one for one in record.unseen if one.event in harmless]
    refused = [one for one in record.unseen if one.event not in harmless]
    reasons = [f"{one.event}: {one.detail}  {where(record.stacks[one.stack])}".rstrip() for one in refused]
    reasons += [f"the directory differs from the record: {difference}" for difference in unlike]
    if reasons:
        raise RefusedError(record, reasons, CALLS_HINT if recorder.kind_for(program) == PYTHON else "")
    return Recorded(record, start, [f"{one.event}: {one.detail}" for one in allowed], began)
