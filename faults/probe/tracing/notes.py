"""The notes that become a record: steps in their order, who took them, and what could not be recorded."""

from collections.abc import Sequence

from ..endings import SHOWN_LINES_MAX
from ..record import (
    ACKNOWLEDGE,
    FILE_BYTES_MAX,
    RECORD_BYTES_MAX,
    STORE,
    WRITE,
    ProgramRecord,
    ProgramTask,
    Step,
    Unseen,
    has_promised,
    only_promises,
)

STEPS_MAX = 1_000_000
_UNSEEN_MAX = 100


class ProgramNotes:
    """Takes notes of one program. Whoever notes a step has said before, by `present`, who takes it by which call."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._tasks: list[ProgramTask] = []
        self._unseen: dict[tuple[str, str], None] = {}
        self._printed: set[int] = set()
        self._stepped: set[int] = set()
        """Threads that have taken a step."""
        self.begun = {True: b"", False: b""}
        """Of what is printed, and of what is promised, the line that is not at its end yet."""
        self.refused: dict[str, str] = {}
        """Features that the recorder has refused the program because they cannot be recorded, each with its error."""
        self._data_bytes = 0
        self._is_full = False
        self.task = 0
        """Who takes the present step."""
        self._call = ""
        self._stack = 0

    def new_task(self, process: int, thread: int, name: str) -> int:
        """Return the number of a thread that was not noted before, or not by this name."""
        self._tasks.append(ProgramTask(process, thread, name))
        return len(self._tasks) - 1

    def has_stepped(self, task: int) -> bool:
        """Return whether a thread has taken a step."""
        return task in self._stepped

    def rename(self, task: int, name: str) -> None:
        """Note the name that a thread has by now: it begins with that of the one that made it."""
        self._tasks[task] = self._tasks[task]._replace(name=name)

    def present(self, task: int, call: str, stack: int = 0) -> None:
        """Say who takes the next steps, by which call, "" if by an instruction of its own, and with which stack."""
        self.task, self._call, self._stack = task, call, stack

    def add(self, kind: str, path: str = "", target: str = "", file: int = -1, at: int = 0, size: int = 0) -> None:
        """Note a step without bytes. What is past the limits is not noted, but that there is some is."""
        if at + size > FILE_BYTES_MAX:
            self._stop(f"more than {FILE_BYTES_MAX} bytes in a file")
        self._add(Step(kind, path, target, file, at, size, b"", self._stack, self.task, self._call))

    def wrote(self, file: int, at: int, data: bytes) -> None:
        """Note what a call has written."""
        self._add_bytes(Step(WRITE, "", "", file, at, 0, data, self._stack, self.task, self._call))

    def stored(self, file: int, at: int, data: bytes, by: tuple[int, str] | None = None) -> None:
        """Note what has been stored to one page of a map. by: task and call, if these are not the present ones."""
        task, call = by or (self.task, self._call)
        self._add_bytes(Step(STORE, "", "", file, at, 0, data, 0 if by else self._stack, task, call))

    def acknowledged(self, text: str, *, printed: bool) -> None:
        """Note a promise, or a line that was printed."""
        if printed:
            self._printed.add(len(self.steps))
        self._add(Step(ACKNOWLEDGE, text, "", -1, 0, 0, b"", self._stack, self.task, self._call))

    def _add_bytes(self, step: Step) -> None:
        self._data_bytes += len(step.data)
        if step.at + len(step.data) > FILE_BYTES_MAX or self._data_bytes > RECORD_BYTES_MAX:
            self._stop(f"more than {FILE_BYTES_MAX} bytes in a file, or {RECORD_BYTES_MAX} in all")
        self._add(step)

    def _add(self, step: Step) -> None:
        if len(self.steps) >= STEPS_MAX:
            self._stop(f"more than {STEPS_MAX} steps")
        if not self._is_full:
            self.steps.append(step)
            self._stepped.add(step.by)

    def _stop(self, why: str) -> None:
        self.unseen("limit", why)
        self._is_full = True

    def unseen(self, event: str, detail: str) -> None:
        """Note something that is not recorded, once."""
        if len(self._unseen) < _UNSEEN_MAX:
            self._unseen.setdefault((event, detail))

    def last_printed(self) -> list[str]:
        """Return the last lines of standard output."""
        lines = [self.steps[number].path for number in sorted(self._printed)[-SHOWN_LINES_MAX:]]
        begun = self.begun[True].decode(errors="replace")
        return [*lines, begun][-SHOWN_LINES_MAX:] if begun else lines

    def record(self, program: Sequence[str], code: int) -> ProgramRecord:
        """Return all that was noted."""
        steps = only_promises(self.steps, self._printed)
        unseen = tuple(Unseen(event, detail, 0) for event, detail in self._unseen)
        tasks = tuple(self._tasks) or (ProgramTask(0, 0, ""),)
        begun = self.begun[False] or self.begun[not has_promised(self.steps, self._printed)]
        return ProgramRecord(tuple(program), tuple(steps), ((),), unseen, code, tasks, begun.decode(errors="replace"))
