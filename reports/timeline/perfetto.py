"""Trace events: converts a run for Perfetto and Chrome's tracing page.

    process             threads             content
    MACHINE             its tasks           when each task runs, is ready or waits, and the reason for a wait
    MACHINE: calls      its tasks           puts, locks and file operations, nested by caller
    log                 -                   counters: positions in bytes
    run                 machines, faults    machines, cuts, faults, violations

Format: "Trace Event Format", Google; phases X (complete), C (counter), i (instant) and M (names). Times are µs. Events
with the same virtual nanosecond are drawn 1 ns apart; args contain the exact time and step.
"""

import json
from collections.abc import Iterator
from typing import Any

from .recording.record import WAITING, RunRecording
from .story import cut_text, shorten_paths, task_name_text

Event = dict[str, Any]
_RUN, _LOG = 1, 2
_FIRST_MACHINE = 10
_MACHINES, _MISHAPS = 1, 2


def trace_json(run: RunRecording) -> str:
    subject = run.subject
    document = {
        "traceEvents": trace_events(run),
        "displayTimeUnit": "ns",
        "otherData": {**subject._asdict(), "digest": run.digest},
    }
    return json.dumps(document, separators=(",", ":"))


def trace_events(run: RunRecording) -> list[Event]:
    """Return metadata events, then all other events by begin; of those with the same begin, the longest first."""
    return _TraceEvents(run).all()


class _TraceEvents:
    def __init__(self, run: RunRecording) -> None:
        self._run = run
        self._times_ns: list[int] = []
        for moment in run.moments:
            least = self._times_ns[-1] + 1 if self._times_ns else 0
            self._times_ns.append(max(moment.now_ns, least))
        numbers = {machine.name: _FIRST_MACHINE + 2 * at for at, machine in enumerate(run.machines)}
        self._processes = [numbers.get(task.machine, _RUN) for task in run.tasks]

    def all(self) -> list[Event]:
        events = [*self._state_events(), *self._call_events(), *self._counter_events(), *self._fault_events()]
        events.sort(key=lambda event: (event["ts"], -event.get("dur", 0)))
        return [*self._name_events(), *events]

    def _name_events(self) -> Iterator[Event]:
        yield _name_event("process_name", _RUN, 0, "run")
        yield _name_event("thread_name", _RUN, _MACHINES, "machines")
        yield _name_event("thread_name", _RUN, _MISHAPS, "cuts, faults, violations")
        yield _name_event("process_name", _LOG, 0, "log")
        for at, machine in enumerate(self._run.machines):
            yield _name_event("process_name", _FIRST_MACHINE + 2 * at, 0, machine.name)
            yield _name_event("process_name", _FIRST_MACHINE + 2 * at + 1, 0, f"{machine.name}: calls")
        for number, task in enumerate(self._run.tasks):
            process = self._processes[number]
            if process != _RUN:
                yield _name_event("thread_name", process, number + 1, task_name_text(task.name))
                yield _name_event("thread_name", process + 1, number + 1, task_name_text(task.name))

    def _state_events(self) -> Iterator[Event]:
        for span in self._run.spans:
            name = f"waits: {shorten_paths(span.why)}" if span.state == WAITING else span.state
            process = self._processes[span.task]
            yield self._slice_event(name, span.state, process, span.task + 1, span.begin, span.end, {})

    def _call_events(self) -> Iterator[Event]:
        for put in self._run.puts:
            if put.answered >= 0:
                about: Event = {
                    "status": put.status,
                    "record": f"{put.path} [{put.start}, {put.stop})" if put.path else "",
                }
                yield self._call(put.task, f"put {put.name}", "put", put.asked, put.answered, about)
        for hold in self._run.holds:
            yield self._call(hold.task, f"lock {hold.lock}", "lock", hold.begin, hold.end, {})
        for one in self._run.operations:
            about = {"path": one.path, "ending": one.ending}
            if one.start >= 0:
                about |= {"start": one.start, "stop": one.stop}
            name = f"{', '.join(one.parts) or one.kind} {shorten_paths(one.path)}"
            yield self._call(one.task, name, "file", one.begin, one.end, about)

    def _counter_events(self) -> Iterator[Event]:
        for position in self._run.positions:
            what, at = {"ph": "C", "name": position.name, "pid": _LOG, "tid": 0}, self._microseconds(position.at)
            yield {**what, "ts": at, "args": {"bytes": position.value}}

    def _fault_events(self) -> Iterator[Event]:
        for machine in self._run.machines:
            yield self._slice_event(machine.name, "machine", _RUN, _MACHINES, machine.begin, machine.end, {})
        for cut in self._run.cuts:
            yield self._instant_event(f"{cut.machine}: {cut_text(cut)}", "cut", cut.at, {"lost": list(cut.lost)})
        for fault in self._run.faults:
            yield self._instant_event(fault.kind, "fault", fault.at, {"about": fault.about})
        for broken in self._run.broken:
            yield self._instant_event(str(broken.violation), "violation", broken.at, broken.violation.to_json())

    def _call(self, task: int, name: str, kind: str, begin: int, end: int, about: Event) -> Event:
        return self._slice_event(name, kind, self._processes[task] + 1, task + 1, begin, end, about)

    def _slice_event(
        self, name: str, kind: str, process: int, thread: int, begin: int, end: int, about: Event
    ) -> Event:
        return {
            "ph": "X",
            "name": name,
            "cat": kind,
            "pid": process,
            "tid": thread,
            "ts": self._microseconds(begin),
            "dur": round(self._microseconds(end) - self._microseconds(begin), 3),
            "args": {**self._time_fields(begin), **about},
        }

    def _instant_event(self, name: str, kind: str, at: int, about: Event) -> Event:
        what = {"ph": "i", "s": "g", "name": name, "cat": kind, "pid": _RUN, "tid": _MISHAPS}
        return {**what, "ts": self._microseconds(at), "args": {**self._time_fields(at), **about}}

    def _time_fields(self, at: int) -> Event:
        moment = self._run.moments[at]
        return {"now_ns": moment.now_ns, "step": moment.step}

    def _microseconds(self, at: int) -> float:
        return self._times_ns[at] / 1000


def _name_event(kind: str, process: int, thread: int, name: str) -> Event:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "ts": 0, "args": {"name": name}}
