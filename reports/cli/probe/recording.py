"""Recording for `probe`: the plan of a probe, and one run of the program.

It imports only modules needed for the recording, because a user waits for the start of the program.
"""

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import NamedTuple

import typer

from ....faults.disk.image import Image
from ....faults.kinds import FaultKind
from ....faults.probe.checks.check import Check, CheckError
from ....faults.probe.checks.kinds import CHECK_KINDS
from ....faults.probe.programs import PYTHON, RecorderChoice
from ....faults.probe.record import ProgramRecord
from ....faults.probe.recording.run import EMPTY, ProgramError, start_of
from ....faults.probe.story import where
from .command import ProbeOptions


class ProbePlan(NamedTuple):
    """The options of a probe, with their check, disks and faults."""

    options: ProbeOptions
    program: list[str]
    recorder: RecorderChoice
    check: Check
    disks: tuple[str, ...]
    kinds: Sequence[FaultKind]


def check_given(names: Mapping[str, str]) -> Check:
    """Return the check of the one name given, by kind. Raises BadParameter for a bad or a second one."""
    options = [f"--{kind.replace('_', '-')}" for kind in names]
    if len(names) > 1:
        raise typer.BadParameter(f"expected {' or '.join(options)}, found {'both' if len(names) == 2 else 'all'}")
    ((kind, name),) = names.items()
    try:
        return CHECK_KINDS[kind].make(name)
    except CheckError as error:
        raise typer.BadParameter(str(error), param_hint=options[0]) from error


class RefusedError(Exception):
    """A program made calls that the recorder does not see. It has the record, the reasons, and perhaps a remedy."""

    def __init__(self, record: ProgramRecord, reasons: list[str], hint: str) -> None:
        super().__init__("; ".join(reasons))
        self.record = record
        self.reasons = reasons
        self.hint = hint


CALLS_HINT = "--record calls records at the calls of the system, which every program makes"
"""The remedy for a limit of the recorder of Python calls."""


class Recorded(NamedTuple):
    """A run of a program."""

    record: ProgramRecord
    start: Image
    """The files at its start."""
    allowed: list[str]
    """Unrecorded events that --allow permits."""
    began: float
    """Start of the recording, by `perf_counter`."""


def record_program(asked: ProbePlan) -> Recorded:
    """Run the program. Raises RefusedError, and BadParameter for a program that cannot be recorded."""
    began = perf_counter()
    try:
        options = asked.options
        start = EMPTY if options.start is None else start_of(options.start)
        record, unlike = asked.recorder.record(asked.program, start)
    except ProgramError as error:
        raise typer.BadParameter(str(error)) from error
    harmless = options.allow or ()
    allowed = [one for one in record.unseen if one.event in harmless]
    refused = [one for one in record.unseen if one.event not in harmless]
    reasons = [f"{one.event}: {one.detail}  {where(record.stacks[one.stack])}".rstrip() for one in refused]
    reasons += [f"the directory is not what was recorded: {difference}" for difference in unlike]
    if reasons:
        raise RefusedError(record, reasons, CALLS_HINT if asked.recorder.kind_for(asked.program) == PYTHON else "")
    return Recorded(record, start, [f"{one.event}: {one.detail}" for one in allowed], began)
