"""Recording: plans a probe, and records one run of the program.

The module imports little, because a user waits for the start of the program.
"""

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import NamedTuple

import typer

from ....faults.crashes.at_rest import AT_REST
from ....faults.disk.image import Image
from ....faults.kinds import FaultKind
from ....faults.probe.checks.check import Check, CheckError
from ....faults.probe.checks.kinds import CHECK_KINDS
from ....faults.probe.programs import PYTHON, RecorderChoice, with_mount_points
from ....faults.probe.record import ProgramRecord
from ....faults.probe.recording.run import EMPTY, ProgramError, start_image_of
from ....faults.probe.story import where
from ....faults.probe.tracing.control import CallFault
from ....faults.probe.tracing.rules import CrashRule
from .command import ProbeOptions


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
    reasons += [f"the directory is not what was recorded: {difference}" for difference in unlike]
    if reasons:
        raise RefusedError(record, reasons, CALLS_HINT if recorder.kind_for(program) == PYTHON else "")
    return Recorded(record, start, [f"{one.event}: {one.detail}" for one in allowed], began)
