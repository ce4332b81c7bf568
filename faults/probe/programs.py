"""Programs: selects a recorder for a program, and runs the program under it.

A Python script (`.py`) or module (`-m`) is recorded at Python's function calls, so that each step has a source line. A
tracer records all other programs at system calls, and scripts and modules on request. Checks are recorded in the same
way, for crashes during recovery.
"""

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from ..disk.image import Image
from .checks.check import Check
from .record import ANSWERS, FILES, Answers, CrossDeviceError, ProgramRecord, SeparateDisk
from .recording.run import ProgramError, record_program
from .tracing.control import RunControl
from .tracing.process import TracedRun
from .tracing.run import record_traced, run_traced

PYTHON, CALLS = "python", "calls"
RECORDERS = (CALLS, PYTHON)
STORES = ("step", "call")
"""Ways to record stores through maps: one by one ("step"), or together at the next system call ("call")."""
_MODULE_CODE = "import runpy, sys; {path}; sys.argv[0] = ''; runpy.run_module({name!r}, None, '__main__', True)"


@dataclass(frozen=True, slots=True)
class RecorderChoice:
    """A recorder and its options. kind: one of RECORDERS, or "" for the default of the program.

    seconds_max: time limit of the program. takes_stacks: whether to find the source line of each system call.
    takes_refusals: whether promises with the prefix `refused ` are refusals. separate_disks: existing directories, each
    on its own disk.
    """

    kind: str
    stores: str
    seconds_max: float
    takes_stacks: bool = False
    takes_refusals: bool = False
    separate_disks: tuple[SeparateDisk, ...] = ()

    def record(
        self, program: Sequence[str], start: Image, *, ignores_special_files: bool = False
    ) -> tuple[ProgramRecord, list[str]]:
        """Run a program. Return its record, and differences between the record and the program's files.

        ProgramError: the program does not exist or fails. The program inherits standard error.
        """
        command = runnable_command(program)
        if self.kind_for(program) == PYTHON:
            record, unlike = record_program(
                program, start, self.seconds_max, ignores_special_files=ignores_special_files
            )
        else:
            record, unlike = record_traced(
                command,
                start,
                self.seconds_max,
                self.stores,
                takes_stacks=self.takes_stacks,
                ignores_special_files=ignores_special_files,
            )
        return self._converted(record), unlike

    def rerun(self, program: Sequence[str], start: Image, control: RunControl) -> TracedRun:
        """Run a program with a fault or a seeded thread order, recorded at system calls. The program may fail."""
        run = run_traced(
            runnable_command(program),
            start,
            self.seconds_max,
            self.stores,
            control,
            is_quiet=True,
            takes_stacks=self.takes_stacks,
            ignores_special_files=True,  # a program may leave sockets after an injected fault
        )
        return run._replace(record=self._converted(run.record))

    def _converted(self, record: ProgramRecord) -> ProgramRecord:
        """Add refusals and separate disks to a record. ProgramError: a step has names on two disks."""
        if self.takes_refusals:
            record = record.with_refusals()
        try:
            return record.with_separate_disks(self.separate_disks)
        except CrossDeviceError as error:
            raise ProgramError(str(error)) from error

    def record_check(self, check: Check, start: Image, answers: Answers) -> tuple[ProgramRecord, list[str]]:
        """Run a check on a crash state and record it as `record` does, without promises.

        A server starts for this state alone.
        """
        with TemporaryDirectory(prefix="tornlog-probe-") as scratch:
            program = check.program(Path(scratch, "promises"), answers, self.seconds_max)
            # a killed server leaves sockets
            record, unlike = self.record(program, start, ignores_special_files=True)
        silent = tuple(step for step in record.steps if step.kind not in ANSWERS)
        return replace(record, steps=silent), unlike

    def kind_for(self, program: Sequence[str]) -> str:
        """Return the kind of recorder. ProgramError: the requested kind does not support the program."""
        is_python = is_python_program(program)
        if self.kind == PYTHON and not is_python:
            raise ProgramError(f"{program[0]}: expected a script, .py, or -m and a module to record calls of Python")
        return self.kind or (PYTHON if is_python else CALLS)


def with_mount_points(start: Image, separate_disks: Sequence[SeparateDisk]) -> Image:
    """Return the image with a mount point for each separate disk."""
    made = dict.fromkeys(start.directories)
    for separate in separate_disks:
        above = [str(path) for path in PurePosixPath(separate.path).parents if str(path).startswith(f"{FILES}/")]
        made |= dict.fromkeys([*reversed(above), separate.path])
    return Image(start.files, tuple(made), start.symlinks)


def is_python_program(program: Sequence[str]) -> bool:
    return program[0] == "-m" or program[0].endswith(".py")


def runnable_command(program: Sequence[str]) -> list[str]:
    """Return a command line that works in any directory. ProgramError: the program does not exist."""
    first, *arguments = program
    if first == "-m":
        code = _MODULE_CODE.format(path=f"sys.path.insert(0, {str(Path.cwd())!r})", name=arguments[0])
        return [sys.executable, "-c", code, *arguments[1:]]
    if first.endswith(".py") and Path(first).is_file():
        return [sys.executable, str(Path(first).resolve()), *arguments]
    found = None if first.endswith(".py") else shutil.which(first)
    if found is None:
        raise ProgramError(f"{first}: expected a program, found no executable of that name")
    return [str(Path(found).absolute()), *arguments]
