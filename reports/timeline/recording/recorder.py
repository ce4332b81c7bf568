"""Run recorder: a trace that collects the data of a timeline.

Pass the recorder to a run as its trace, and `recorder.on_request` as the observer of puts. The recorder observes the
tasks and files of all machines that mount the recorded disk. The recorder only reads, so the digest stays the same.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ....faults.disk.aftermath import Aftermath
from ....faults.disk.disk import Disk
from ....faults.simulation import trials
from ....faults.simulation.finding import Finding
from ....faults.simulation.simulation import Scenario as OwnScenario
from ....faults.simulation.simulation import WorldTrace
from ....scenarios.campaigns.failures.failure import RunRecord
from ....scenarios.campaigns.failures.replay import RunReplay, replay
from ....scenarios.campaigns.seeds import draw_plan_of_seed
from ....scenarios.claims.plan import Plan
from ....scenarios.claims.scenario import Scenario
from ....scenarios.mutants.known import applied_mutant
from ....scenarios.oracle.evidence import Evidence, Violation
from ....scenarios.runs.execution import life_name
from ....scenarios.runs.run_of import run_of, simulation_of
from ....sim.machine import Machine as SimMachine
from ....sim.machine import Scheduler, SimTask, WaitReason
from ....sim.policies import Policy
from ....sim.process import collect_garbage_at_end
from ....sim.trace import RollingDigest
from ....store.message_store import MessageStore
from .cuts import DISTURBANCES, Cuts, Faults
from .record import MachineRecord, RunRecording, Subject, ViolationRecord
from .store_activity import Positions, Puts
from .task_activity import Moments, Operations, TaskSpans
from .watched_world import WatchedCell, WatchedFiles, WatchedLock, WatchedTasks


class RunRecorder(WorldTrace):
    """Records the events of one run up to the first violation. Afterwards the tasks only unwind."""

    def __init__(self) -> None:
        super().__init__()
        self._moments = Moments()
        self._tasks = TaskSpans(self._moments)
        self._operations = Operations(self._moments, self._tasks)
        self._positions = Positions(self._moments)
        self._puts = Puts(self._moments, self._tasks)
        self._cuts = Cuts(self._puts.all)
        self._machines: list[MachineRecord] = []
        self._faults = Faults(self._moments)
        self._broken: list[ViolationRecord] = []
        self._page_bytes = self._sector_bytes = 0
        self.on_request = self._puts.on_put_sent

    # -- reports of the kernel ------------------------------------------------------------------

    def attach_to_kernel(self, kernel: Scheduler, digest: RollingDigest) -> None:
        """Called by the kernel: use its time, step and current task."""
        super().attach_to_kernel(kernel, digest)
        self._moments.attach(kernel)

    def add_event(self, kind: str, text: str) -> None:
        if not self._record_pending():
            return
        if kind == "switch":
            self._tasks.record_switch(text)
        elif kind == "start":
            self._moments.resume()  # a new task proves that a machine runs
            self._tasks.record_start(text)
        elif kind == "end":
            self._tasks.record_end(text)
        elif kind == "kill":
            self._record_kill(text)
        elif kind in DISTURBANCES:
            self._faults.record_fault(kind, text)
        else:
            self._operations.done(kind, text)

    def on_parked(self, why: WaitReason) -> None:
        if self._record_pending():
            self._tasks.on_parked(why)

    def on_ready(self, task: SimTask) -> None:
        if self._record_pending():
            self._tasks.on_ready(task)

    def emit(self, fact: object) -> None:
        if isinstance(fact, Violation):
            self._record_violation(fact)
        if not self._record_pending():
            return
        if isinstance(fact, MessageStore):
            self._positions.follow(fact)
            self._puts.follow(fact)
        elif isinstance(fact, Evidence):
            self._puts.recovered(fact, self._moments.kernel.current.machine.name)
        elif isinstance(fact, Aftermath) and self._cuts.is_of_the_disk_shown:
            if not self._cuts.is_open:  # a kill is not reported if the machine had finished its work
                self._record_kill(self._machines[-1].name)
            self._cuts.crashed(fact)

    def _record_pending(self) -> bool:
        """Record answers and faults since the last call. Return whether to record further events."""
        if self._broken:
            return False
        self._puts.record_answers()
        self._faults.record_injected(self._cuts.disk, self._operations)
        return True

    def _record_kill(self, machine: str) -> None:
        if not self._machines or machine != self._machines[-1].name:
            return  # ignore machines that are not recorded
        at = self._moments.mark()
        self._moments.stop()
        self._puts.on_producers_died()
        self._cuts.on_kill(at)
        self._end_machine(at, "killed")

    def _end_machine(self, at: int, ending: str) -> None:
        if self._machines and self._machines[-1].end < 0:
            self._machines[-1].end = at
            self._machines[-1].ending = ending

    def _record_violation(self, violation: Violation) -> None:
        """All violations of a check have the same moment."""
        if not self._broken:
            self._puts.record_answers()
            self._moments.resume()
            self._operations.finish(self._moments.mark())
            self._moments.stop()
        at = self._moments.last()
        puts = self._puts.puts_concerned_by(violation)
        self._broken.append(ViolationRecord(at, self._tasks.current(), violation, puts))

    # -- calls of the watched world -----------------------------------------------

    def watch(self, machine: SimMachine, disk: Disk, tasks: Any, files: Any) -> tuple[Any, Any]:
        if self._broken:
            return tasks, files
        began = self._tasks.tasks[self._tasks.current()].begin
        self._end_machine(began, "stopped")
        self._cuts.on_mount(machine, disk, began)
        self._faults.watch_disk(disk)
        state = disk.content_state()
        self._page_bytes, self._sector_bytes = state.page_bytes, state.sector_bytes
        self._machines.append(MachineRecord(machine.name, began))
        return WatchedTasks(tasks, self), WatchedFiles(files, self)

    @contextmanager
    def operation_recorded(self, kind: str, path: str, start: int = -1, stop: int = -1) -> Iterator[None]:
        if not self._record_pending():
            yield
            return
        with self._operations.operation_recorded(kind, path, start, stop):
            try:
                yield
            finally:
                self._record_pending()  # record the faults of this call

    def before_write(self, path: str, at: int, data: bytes) -> None:
        if self._record_pending():
            self._puts.before_write(path, at, data)

    def after_write(self, path: str, at: int, data: bytes) -> None:
        if self._record_pending():
            self._operations.after_write(path, at, at + len(data))
            self._positions.after_write(path, at, data)

    def on_lock_acquired(self, lock: WatchedLock) -> None:
        if self._record_pending():
            self._tasks.on_lock_acquired(lock.name, lock.number)

    def on_lock_released(self, lock: WatchedLock) -> None:
        if self._record_pending():
            self._tasks.on_lock_released(lock.number)

    def on_cell_written(self, cell: WatchedCell) -> None:
        if self._record_pending():
            self._positions.on_cell_written(cell)

    # -- after the run --------------------------------------------------------------------------------

    def run_recording(
        self, subject: Subject, plan: Plan | None, digest: str, injected: Mapping[str, int]
    ) -> RunRecording:
        """Return the recording of a finished run. plan: None for a user's own scenario."""
        at = self._moments.last()
        self._tasks.finish(at)
        self._operations.finish(at)
        self._end_machine(at, "" if self._broken else "stopped")
        self._cuts.finish()
        lives = {} if plan is None else {life_name(number): life for number, life in enumerate(plan.lives)}
        for cut in self._cuts.all:
            if cut.operation and cut.machine in lives:
                cut.when = lives[cut.machine].moment
        spans = sorted(self._tasks.spans, key=lambda span: (span.begin, span.task))
        assert all(task.end >= task.begin for task in self._tasks.tasks), "every task has ended"
        assert all(hold.end >= hold.begin for hold in self._tasks.holds), "every lock is released"
        run = (subject, plan, digest, dict(sorted(injected.items())), self._page_bytes, self._sector_bytes)
        tasks = (self._moments.all, self._machines, self._tasks.tasks, spans, self._tasks.holds)
        log = (self._operations.all, self._positions.all, self._positions.checkpoints)
        mishaps = (self._faults.all, self._cuts.all)
        return RunRecording(*run, *tasks, *log, *mishaps, self._puts.all, self._broken)


def replay_recorded(subject: Subject, record: RunRecord) -> tuple[RunReplay, RunRecording]:
    """Replay a record. The caller applies the subject's mutant."""
    recorder = RunRecorder()
    replayed = replay(record, recorder, on_request=recorder.on_request)
    outcome = replayed.result
    return replayed, recorder.run_recording(subject, record.setup, outcome.digest, outcome.injected)


def record_seed(
    scenario: Scenario, seed: int, *, mutant: str | None = None, policy: Policy | None = None
) -> RunRecording:
    recorder = RunRecorder()
    with collect_garbage_at_end(), applied_mutant(mutant):
        choices, plan = draw_plan_of_seed(scenario, seed)
        simulation = simulation_of(plan, choices, policy, recorder)
        outcome = run_of(plan, simulation, on_request=recorder.on_request).execute()
    subject = Subject(scenario.name, scenario.claim, seed, mutant)
    return recorder.run_recording(subject, plan, outcome.digest, outcome.injected)


def record_finding(scenario: OwnScenario, finding: Finding) -> RunRecording:
    recorder = RunRecorder()
    outcome = trials.replay(scenario, finding.record, recorder).result
    if outcome.failure is not None:
        promise, _, found = outcome.error.partition(": ")
        recorder.emit(Violation("PROMISE", promise, found=found, detail=outcome.raised))
    name = getattr(scenario, "__name__", "scenario")
    subject = Subject(name, finding.signature, finding.seed, None)
    return recorder.run_recording(subject, None, outcome.digest, outcome.injected)
