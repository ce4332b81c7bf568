"""Program notes: collect recorded steps, tasks and unsupported actions."""

from collections.abc import Sequence

from .. import record as steps
from ..endings import SHOWN_LINES_MAX
from ..record import ProgramRecord, ProgramTask, Step, UnseenAction, has_promised, only_promises


class ProgramNotes:
    """The growing record of one program."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._tasks: list[ProgramTask] = []
        self._unseen: dict[tuple[str, str], None] = {}
        self._printed: set[int] = set()
        self._stepped: set[int] = set()  # tasks with at least one step
        self.begun = {True: b"", False: b""}
        """The bytes after the last line break in standard output (True) and in the promise pipe (False)."""
        self.refused: dict[str, str] = {}
        """Features that the recorder refused to the program, each with the returned error."""
        self.data_bytes = 0
        """Number of bytes that the program has written by calls and stores."""
        self._cuts: list[int] = []  # numbers of the steps after marked crash points
        self._is_full = False
        self.task = 0
        """Number of the current step's task."""
        self._call = ""
        self._stack = 0

    def new_task(self, process: int, thread: int, name: str) -> int:
        self._tasks.append(ProgramTask(process, thread, name))
        return len(self._tasks) - 1

    def has_stepped(self, task: int) -> bool:
        return task in self._stepped

    def rename(self, task: int, name: str) -> None:
        """Set the name of a thread. A new thread has its parent's name."""
        self._tasks[task] = self._tasks[task]._replace(name=name)

    def set_context(self, task: int, call: str, stack: int = 0) -> None:
        """Set task, call and stack of the next steps. call: "" for a store instruction."""
        assert 0 <= task < len(self._tasks), task
        self.task, self._call, self._stack = task, call, stack

    def add(self, kind: str, path: str = "", target: str = "", file: int = -1, at: int = 0, size: int = 0) -> None:
        """Add a step without data. Steps beyond the limit are dropped, and the limit is reported."""
        if at + size > steps.FILE_BYTES_MAX:
            self._stop_at_limit(f"more than {steps.FILE_BYTES_MAX} bytes in a file")
        self._append_step(Step(kind, path, target, file, at, size, b"", self._stack, self.task, self._call))

    def record_written(self, file: int, at: int, data: bytes) -> None:
        self._add_bytes(Step(steps.WRITE, "", "", file, at, 0, data, self._stack, self.task, self._call))

    def record_store(self, file: int, at: int, data: bytes, by: tuple[int, str] | None = None) -> None:
        """Add data stored to one page of a mapping. by: task and call of the store, if not the current ones."""
        task, call = by or (self.task, self._call)
        self._add_bytes(Step(steps.STORE, "", "", file, at, 0, data, 0 if by else self._stack, task, call))

    def acknowledged(self, text: str, *, printed: bool) -> None:
        if printed:
            self._printed.add(len(self.steps))
        self._append_step(Step(steps.ACKNOWLEDGE, text, "", -1, 0, 0, b"", self._stack, self.task, self._call))

    def _add_bytes(self, step: Step) -> None:
        self.data_bytes += len(step.data)
        if step.at + len(step.data) > steps.FILE_BYTES_MAX or self.data_bytes > steps.RECORD_BYTES_MAX:
            self._stop_at_limit(f"more than {steps.FILE_BYTES_MAX} bytes in a file, or {steps.RECORD_BYTES_MAX} in all")
        self._append_step(step)

    def _append_step(self, step: Step) -> None:
        if len(self.steps) >= steps.STEPS_MAX:
            self._stop_at_limit(f"more than {steps.STEPS_MAX} steps")
        if not self._is_full:
            self.steps.append(step)
            self._stepped.add(step.by)

    def mark_crash_point(self) -> None:
        self._cuts.append(len(self.steps))

    def _stop_at_limit(self, why: str) -> None:
        self.report_unseen("limit", why)
        self._is_full = True

    def report_unseen(self, event: str, detail: str) -> None:
        """Report an unsupported action. Repetitions are ignored."""
        if len(self._unseen) < steps.UNSEEN_MAX:
            self._unseen.setdefault((event, detail))

    def last_printed(self) -> list[str]:
        lines = [self.steps[number].path for number in sorted(self._printed)[-SHOWN_LINES_MAX:]]
        begun = self.begun[True].decode(errors="replace")
        return [*lines, begun][-SHOWN_LINES_MAX:] if begun else lines

    def record(self, program: Sequence[str], code: int) -> ProgramRecord:
        kept = only_promises(self.steps, self._printed)
        unseen = tuple(UnseenAction(event, detail, 0) for event, detail in self._unseen)
        tasks = tuple(self._tasks) or (ProgramTask(0, 0, ""),)
        begun = self.begun[False] or self.begun[not has_promised(self.steps, self._printed)]
        cuts = tuple(len(only_promises(self.steps[:cut], self._printed)) for cut in self._cuts)
        unended = begun.decode(errors="replace")
        return ProgramRecord(tuple(program), tuple(kept), ((),), unseen, code, tasks, unended, cuts=cuts)
