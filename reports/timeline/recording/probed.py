"""Probe recording: records the steps of a probed program, the crash, and the check.

A probed program runs in real time, so the recording has no virtual time. Moment 0 is before the first step. Each step
has two moments, its begin and end. The crash, the start of the check and its result follow with one moment each.
"""

import shlex
from collections import defaultdict
from pathlib import PurePath

from ....faults.crashes.at_rest import AT_REST
from ....faults.crashes.profiles import PROFILES
from ....faults.probe import record as steps
from ....faults.probe.checks.check import BROKEN, CheckOutcome
from ....faults.probe.failure import ProbeFinding
from ....faults.probe.record import FAILED_SYNC, FAULT, LYING_SYNC, PROMISE_TASK, ProgramRecord, Step
from ....faults.probe.shrink import CrashCaseReplay
from ....faults.probe.story import crash_text, file_names, named, task_name, where
from ....scenarios.oracle.evidence import Violation
from .cuts import file_map
from .record import (
    RUNNING,
    Cut,
    Fault,
    FileMap,
    MachineRecord,
    OperationRecord,
    PromiseMade,
    RecordedMoment,
    RunRecording,
    Span,
    Subject,
    TaskRecord,
    ViolationRecord,
)

_PAGES_MAX = 32
_OF_WHOLE_FILES = (steps.RENAME, steps.EXCHANGE, steps.LINK, steps.SYMLINK)


def record_probe(found: ProbeFinding, check: str) -> RunRecording:
    """Create a recording from a finding. check: the command that checked the crash image."""
    case = found.shown.case
    record = found.record.with_first_steps(case.point.step + 1)
    scene = CrashCaseReplay(record, found.start, case)
    before = scene.before()
    machine = "recovery" if found.recovery else "program"
    tasks = [TaskRecord(f"{machine}/{name}", 0) for name in _task_names(record)]
    drawn = _RecordedSteps(record, found)
    cut_at, end = 2 * len(record.steps) + 1, 2 * len(record.steps) + 3
    for task in tasks:
        task.end = cut_at
    cut = Cut(cut_at, machine, case.disk, lost=tuple(loss.what for loss in found.shown.losses), following="check")
    cut.files = _file_maps(scene, found)
    keeps_cache = case.disk in AT_REST or PROFILES[case.disk].page_cache_survives
    numbers = [0, *(number // 2 + 1 for number in range(2 * len(record.steps))), *[len(record.steps)] * 3]
    assert len(numbers) == end + 1, f"{len(numbers)} moments, the last is {end}"
    return RunRecording(
        subject=Subject(shlex.join(record.program), _promise_text(found), None, None),
        plan=None,
        digest=case.digest,
        injected={},
        page_bytes=before.page_bytes,
        sector_bytes=before.sector_bytes,
        moments=[RecordedMoment(0, number) for number in numbers],
        machines=[
            MachineRecord(machine, 0, cut_at, "killed" if keeps_cache else "without power"),
            MachineRecord("check", cut_at + 1, end),
        ],
        tasks=[*tasks, TaskRecord(f"check/{PurePath(check).name}", cut_at + 1, end)],
        spans=[*drawn.spans, Span(len(tasks), RUNNING, cut_at + 1, end, "")],
        holds=[],
        operations=drawn.operations,
        positions=[],
        checkpoints=[],
        faults=drawn.faults,
        cuts=[cut],
        puts=[],
        broken=[ViolationRecord(end, len(tasks), one, ()) for one in _violations(case.verdict)],
        promises=drawn.promises,
        facts=(
            ("disk", case.disk),
            ("steps", f"{len(record.steps):,}"),
            ("promises", f"{len(drawn.promises):,}"),
            ("losses", f"{len(found.shown.losses):,}"),
        ),
    )


class _RecordedSteps:
    def __init__(self, record: ProgramRecord, found: ProbeFinding) -> None:
        self.operations: list[OperationRecord] = []
        self.promises: list[PromiseMade] = []
        self.spans: list[Span] = []
        self.faults: list[Fault] = []
        self._names = file_names(record)
        self._taken = _taken_operations(found)
        for number, step in enumerate(record.steps):
            place = ", ".join(filter(None, (where(record.stacks[step.stack]), step.call)))
            self._add_step(number, step, place)

    def _add_step(self, number: int, step: Step, place: str) -> None:
        begin = 2 * number + 1
        self.spans.append(Span(step.by, RUNNING, begin, begin + 1, ""))
        if step.kind in steps.INJECTED:
            about = step.path if step.kind == FAULT else _first_path(step, self._names)
            self.faults.append(Fault(begin, step.kind, f"{about} {step.target}".strip()))
        if step.kind in steps.ANSWERS:
            text = step.path if step.kind == steps.ACKNOWLEDGE else f"refused: {step.path}"
            self.promises.append(PromiseMade(step.by, text, begin, begin + 1, place))
        elif step.kind != FAULT:  # the failed call had no effect
            operation = _operation_record(step, self._names, begin)
            operation.place, operation.taken = place, "; ".join(self._taken[number])
            self.operations.append(operation)


def _violations(verdict: CheckOutcome) -> list[Violation]:
    if verdict.outcome == BROKEN:
        return [Violation("check", line) for line in verdict.lines]
    return [Violation("check", "; ".join(verdict.lines) or verdict.outcome)] if verdict.is_broken else []


def _promise_text(found: ProbeFinding) -> str:
    case = found.shown.case
    crash = f"{crash_text(found.record, case.point, case.disk)}, on {case.disk}"
    if found.recovery:
        return f"The program: {'; '.join(found.recovery)}. Then the check, as it recovers from that: {crash}"
    return f"with {found.rerun}; {crash}" if found.rerun else crash


def _taken_operations(found: ProbeFinding) -> defaultdict[int, list[str]]:
    taken = defaultdict[int, list[str]](list)
    for loss in found.shown.losses:
        for number in loss.steps:
            taken[number].append(loss.what)
    return taken


def _task_names(record: ProgramRecord) -> list[str]:
    own = shlex.join(record.program)
    names = list[str]()
    for by, task in enumerate(record.tasks):
        if task == PROMISE_TASK:
            names.append("promised before")
            continue
        words = task_name(record, Step(steps.SYNC_ALL, by=by)).removeprefix("by ")
        name = words or task.name or own
        names.append(name if name not in names else f"{name} ({task.thread})")
    return names


def _first_path(step: Step, names: dict[int, str]) -> str:
    if step.path:
        return named(step.path)
    if step.kind in (steps.SYNC_ALL, steps.FAILED_SYNC) and step.file < 0:
        return "all files"
    return names.get(step.file, f"file {step.file}")


def _operation_record(step: Step, names: dict[int, str], begin: int) -> OperationRecord:
    start, stop = -1, -1
    if step.data or step.size:
        start, stop = step.at, step.at + max(len(step.data), step.size)
    operation = OperationRecord(step.by, step.kind, _first_path(step, names), start, stop, begin, begin + 1)
    if step.kind in (steps.TRUNCATE, steps.ALLOCATE):
        operation.parts = [f"{step.kind} to {step.at + step.size:,}"]
    elif step.kind in _OF_WHOLE_FILES:
        joined = "with" if step.kind == steps.EXCHANGE else "to"
        target = step.target if step.kind == steps.SYMLINK else named(step.target)
        operation.parts = [f"{step.kind} {joined} {target}"]
    elif step.kind == FAILED_SYNC:
        operation.kind, operation.ending = steps.SYNC, "EIO: its pages are marked clean but are not durable"
    elif step.kind == LYING_SYNC:
        operation.kind, operation.ending = steps.SYNC, "false success: data is only in the drive's cache"
    elif step.kind not in (steps.WRITE, steps.STORE, steps.SYNC, steps.SYNC_DIRECTORY, steps.SYNC_ALL):
        operation.parts = [step.kind]
    return operation


def _file_maps(scene: CrashCaseReplay, found: ProbeFinding) -> list[FileMap]:
    before, left = scene.before(), found.shown.image.files
    torn = scene.torn(found.shown.case)
    maps = []
    for path in sorted(before.files.keys() | left.keys()):
        content = left[path].held if path in left else None
        pages = tuple(sorted(page for name, page in torn if name == path))
        one = file_map(path, before.files.get(path), content, content, pages, before, _PAGES_MAX)
        maps.append(one._replace(path=named(path)))
    return maps
