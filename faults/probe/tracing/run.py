"""Traced run: runs any program in a temporary directory and verifies the record."""

import os
import platform
import shutil
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from ....sim.interruption import current_interruption
from ...disk.export import export_image
from ...disk.image import Image
from ..endings import failed_process_text, signal_or_code_text
from ..record import ProgramRecord
from ..recording.run import ProgramError, record_differences, remove_special_files
from .control import AS_IT_IS, RunControl
from .machines import MACHINES, this_machine
from .process import TracedRun, TraceRequest, run_recording_process
from .shadows import PAGE_BYTES
from .source_lines import TOOL, is_addr2line_installed, source_lines

_FORK = get_context("fork")
_GRACE_SECONDS = 20.0  # extra time for the recorder on a busy machine


def record_traced(
    program: Sequence[str],
    start: Image,
    seconds_max: float,
    stores: str = "step",
    *,
    takes_stacks: bool = False,
    ignores_special_files: bool = False,
) -> tuple[ProgramRecord, list[str]]:
    """Run any program. Return the record, and the differences between the program's files and the record.

    stores: "step" records each store to a shared mapping, "call" records stores together at the next recorded call.
    takes_stacks: whether to find source lines. ignores_special_files: whether to ignore sockets, FIFOs and devices
    among the program's files.

    Raises ProgramError if the program cannot be recorded on this machine, fails, or exceeds seconds_max. The program's
    standard error is not redirected.
    """
    run = run_traced(
        program, start, seconds_max, stores, takes_stacks=takes_stacks, ignores_special_files=ignores_special_files
    )
    if run.record.exit:
        refusals = "".join(f". The recorder refused {what} ({error})" for what, error in run.refused.items())
        raise ProgramError(failed_process_text("the program", run.record.exit, run.last_printed) + refusals)
    return run.record, run.unlike


def run_traced(
    program: Sequence[str],
    start: Image,
    seconds_max: float,
    stores: str = "step",
    control: RunControl = AS_IT_IS,
    *,
    is_quiet: bool = False,
    takes_stacks: bool = False,
    ignores_special_files: bool = False,
) -> TracedRun:
    """Run and record a program like `record_traced`, but allow the program to fail.

    is_quiet: whether to discard the program's standard error.
    """
    assert stores in ("step", "call"), stores
    require_recordable()
    if takes_stacks and not is_addr2line_installed():
        raise ProgramError(f"source lines need {TOOL}, which is not installed: install binutils")
    executable = shutil.which(program[0])
    if executable is None:
        raise ProgramError(f"{program[0]}: expected an executable, found none")
    with TemporaryDirectory(prefix="tornlog-probe-") as scratch:
        root = Path(scratch, "disk")
        root.mkdir()
        export_image(start, "/", root)
        absolute = os.path.abspath(executable)
        how = (seconds_max, stores, control, is_quiet, takes_stacks)
        found = _trace(TraceRequest(str(root), absolute, program, *how))
        record = replace(found.record, before=tuple(start.files))
        if found.stacks:
            record = replace(record, stacks=source_lines(found.stacks))
        if ignores_special_files:
            remove_special_files(root)
        return found._replace(record=record, unlike=list(record_differences(record, start, root)))


def require_recordable() -> None:
    """Raise ProgramError if programs cannot be recorded on this machine."""
    if this_machine() is None:
        known = " or ".join(MACHINES)
        raise ProgramError(f"recording needs Linux on {known}, found {platform.system()} on {platform.machine()}")
    if (page_bytes := os.sysconf("SC_PAGE_SIZE")) != PAGE_BYTES:
        raise ProgramError(f"recording needs pages of {PAGE_BYTES} bytes, found {page_bytes}")


def _trace(request: TraceRequest) -> TracedRun:
    """Trace the program in a child process, because the kernel reports the program's threads to one process only.

    Forking is safe, because this process has no other threads.
    """
    ours, theirs = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=run_recording_process, args=(theirs, request), daemon=True)
    process.start()
    theirs.close()
    seconds_max = request.seconds_max + _GRACE_SECONDS
    try:
        with current_interruption().interrupts_allowed():
            has_ended = ours.poll(seconds_max)
        if not has_ended:
            raise ProgramError(f"the recorder has not ended within {seconds_max:g} s")
        found: TracedRun | str = ours.recv()
    except EOFError as error:
        process.join()
        assert process.exitcode is not None, "joined"
        raise ProgramError(f"the recorder's process has ended with {signal_or_code_text(process.exitcode)}") from error
    finally:
        ours.close()
        process.kill()  # if the child is still running, its program must end with it
        process.join()
    if isinstance(found, str):
        raise ProgramError(found)
    return found
