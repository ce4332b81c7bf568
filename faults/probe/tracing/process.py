"""Recording process: records a program, and sends the record to its parent.

The process is forked, so it starts fast. Its only child is the program. The program's standard output is a
pseudo-terminal, so C's stdio flushes each line. Printed lines are recorded, not displayed. One environment variable has
the descriptor number of a pipe for promises. Another variable has the path of a FIFO for rules of faults. So a test
that starts a server can write rules without an inherited descriptor.
"""

import gc
import os
import resource
import signal
import termios
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import NamedTuple

from ..record import FILES, TEMPORARY, ProgramRecord
from .calls import ASKED, PRINTED, PROMISED
from .control import AS_IT_IS, CONTROL, MatchedCall, RunControl
from .machines import this_machine
from .notes import ProgramNotes
from .ptrace import TraceRefusedError
from .schedule import SeededOrder
from .stacks import StackFrame, StackWalker
from .tracer import ProgramTimeoutError, Tracer

PROMISES = "TORNLOG_PROMISES"
"""Environment variable with the descriptor number of a pipe. Each line that the program writes to the pipe is a
promise."""
_PLAIN = {"TERM": "dumb", "PAGER": "cat"}  # prevent colours and similar behaviour on a terminal


class ProgramOutputs:
    """Context manager that reads the program's outputs until its end. rules_path: the path of the rule FIFO."""

    def __init__(self, rules_path: str) -> None:
        master, self.terminal = os.openpty()
        attributes = termios.tcgetattr(self.terminal)
        attributes[1] &= ~termios.OPOST
        termios.tcsetattr(self.terminal, termios.TCSANOW, attributes)
        read_end, self.promises = os.pipe()
        os.set_inheritable(self.promises, True)
        self.rules_path = rules_path
        os.mkfifo(rules_path, 0o600)
        rules_end = os.open(rules_path, os.O_RDONLY | os.O_NONBLOCK)  # a blocking open would wait for a writer
        self.rules = os.open(rules_path, os.O_WRONLY)
        os.set_blocking(rules_end, True)
        for descriptor in (master, read_end, rules_end):
            threading.Thread(target=_drain, args=(descriptor,), daemon=True).start()

    def __enter__(self) -> "ProgramOutputs":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.terminal)
        os.close(self.promises)
        os.close(self.rules)
        os.unlink(self.rules_path)


def _drain(descriptor: int) -> None:
    with suppress(OSError):  # EIO means that the last writer has closed the terminal
        while os.read(descriptor, 1 << 16):
            pass
    os.close(descriptor)


def trace(
    root: str,
    executable: str,
    program: Sequence[str],
    seconds_max: float,
    stores: str,
    notes: ProgramNotes,
    order: SeededOrder | None = None,
    control: RunControl = AS_IT_IS,
    walker: StackWalker | None = None,
) -> tuple[ProgramRecord, list[MatchedCall]]:
    """Run a program on the disk at root, a real path. Raises the errors of Tracer.run.

    Return the record, and the listed calls or those with an injected fault. walker: assigns stack numbers to steps.
    """
    machine = this_machine()
    assert machine is not None, "checked by the caller"
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with (
        ProgramOutputs(f"{root}-rules") as outputs,
        closing(Tracer(machine, root, notes, stores, order, control, walker)) as tracer,
    ):
        resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))  # the recorder keeps each file open

        def prepare() -> None:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            os.dup2(outputs.terminal, 1)

        tracer.files.add_output(PRINTED, outputs.terminal)
        tracer.files.add_output(PROMISED, outputs.promises)
        tracer.files.add_output(ASKED, outputs.rules)
        added = {"TMPDIR": root + TEMPORARY, PROMISES: str(outputs.promises), CONTROL: outputs.rules_path}
        environment = {**os.environ, **_PLAIN, **added}
        code = tracer.run(executable, program, root + FILES, environment, seconds_max, prepare)
    faults = tracer.faults
    record = notes.record(program, code)
    if faults is None:
        return record, []
    return replace(record, rules=tuple(faults.asked_by_program)), faults.matched


class TracedRun(NamedTuple):
    """The result of one run of a program."""

    record: ProgramRecord
    unlike: list[str]
    """Differences between the program's files and the record."""
    choices: int = 0
    """Number of thread choices, and of choices while another thread was still running."""
    hurried: int = 0
    last_printed: Sequence[str] = ()
    """The last lines of standard output."""
    refused: Mapping[str, str] = {}
    """Features that the recorder refused to the program, each with the returned error."""
    matched: Sequence[MatchedCall] = ()
    """The calls that the control lists, or at which its fault was injected."""
    stacks: Sequence[tuple[StackFrame, ...]] = ()
    """Stacks by their numbers in the record. Empty if stacks are not recorded."""


class TraceRequest(NamedTuple):
    """The arguments of one recorded run."""

    root: str
    """The host directory that serves as the program's disk."""
    executable: str
    program: Sequence[str]
    """The program as the user named it, and its arguments."""
    seconds_max: float
    stores: str
    control: RunControl
    is_quiet: bool
    takes_stacks: bool


def run_recording_process(results: Connection, request: TraceRequest) -> None:
    """Run the recording process. Send a TracedRun, or the reason as text if recording failed."""
    drop_inherited_resources(results.fileno(), is_quiet=request.is_quiet)
    control = request.control
    order = None if control.seed is None else SeededOrder(control.seed, control.depth, control.horizon_steps)
    try:
        real, notes = os.path.realpath(request.root), ProgramNotes()
        machine = this_machine()
        walker = StackWalker(machine) if request.takes_stacks and machine is not None else None
        called = (request.executable, request.program, request.seconds_max, request.stores)
        record, matched = trace(real, *called, notes, order, control, walker)
        counts = (0, 0) if order is None else (order.choices, order.hurried)
        stacks = [] if walker is None else walker.stacks
        results.send(TracedRun(record, [], *counts, notes.last_printed(), notes.refused, matched, stacks))
    except (ProgramTimeoutError, TraceRefusedError) as error:
        results.send(str(error))
    except OSError as error:
        if error.filename != request.executable:
            raise
        results.send(f"{request.program[0]}: {error.strerror}")


def drop_inherited_resources(kept: int, *, is_quiet: bool) -> None:
    """Close inherited descriptors and standard input, and reset signal handlers."""
    gc.disable()  # garbage collection of a parent's object could close a reused descriptor
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2) if is_quiet else (0, 1):
        os.dup2(null, standard)
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor > 2 and descriptor != kept:
            with suppress(OSError):  # the directory listing's own descriptor is closed
                os.close(descriptor)
    for number in (signal.SIGINT, signal.SIGTERM):
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
