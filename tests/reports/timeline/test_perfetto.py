import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from tornlog.reports.timeline.perfetto import trace_events, trace_json
from tornlog.reports.timeline.recording.record import RunRecording

FIELDS = {
    "M": {"ph", "name", "pid", "tid", "ts", "args"},
    "X": {"ph", "name", "cat", "pid", "tid", "ts", "dur", "args"},
    "C": {"ph", "name", "pid", "tid", "ts", "args"},
    "i": {"ph", "s", "name", "cat", "pid", "tid", "ts", "args"},
}
"""The fields of an event, by phase."""


def malformed_events(events: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a text for each malformed trace event."""
    named: set[tuple[str, int, int]] = set()
    open_until: dict[tuple[int, int], list[float]] = defaultdict(list)
    last = 0.0
    for number, event in enumerate(events):
        phase = event.get("ph", "")
        if event.keys() != FIELDS.get(phase):
            yield f"{number}: phase {phase} with {sorted(event)}"
            continue
        if not isinstance(event["name"], str) or not event["name"]:
            yield f"{number}: no name"
        if phase == "M":
            named.add((event["name"], event["pid"], event["tid"]))
            continue
        if ("process_name", event["pid"], 0) not in named:
            yield f"{number}: process {event['pid']} has no name"
        if event["ts"] < last:
            yield f"{number}: at {event['ts']}, behind {last}"
        last = event["ts"]
        if phase == "C":
            if [type(value) for value in event["args"].values()] != [int]:
                yield f"{number}: a counter of {event['args']}"
            continue
        if ("thread_name", event["pid"], event["tid"]) not in named:
            yield f"{number}: thread {event['tid']} has no name"
        if phase != "X":
            continue
        if event["dur"] < 0:
            yield f"{number}: lasts {event['dur']}"
        around, end = open_until[event["pid"], event["tid"]], event["ts"] + event["dur"]
        while around and around[-1] <= event["ts"] + 1e-6:
            around.pop()
        if around and end > around[-1] + 1e-6:
            yield f"{number}: {event['name']} ends at {end}, outside of what it began in, {around[-1]}"
        around.append(end)


@pytest.fixture(params=["no-dir-fsync-on-rollover", "stale-tail-after-truncate", "fsync-retry-acks"])
def run(request: pytest.FixtureRequest, broken_by: Callable[[str], RunRecording]) -> RunRecording:
    return broken_by(request.param)


def test_perfetto_trace_events_are_well_formed_sorted_and_nested(run: RunRecording) -> None:
    document = json.loads(trace_json(run))
    assert len(document["traceEvents"]) > 100
    assert list(malformed_events(document["traceEvents"])) == []
    assert document["otherData"]["digest"] == run.digest
    assert document["displayTimeUnit"] == "ns"


def test_perfetto_trace_events_of_a_long_run_with_batches_and_delays_are_well_formed(
    long: RunRecording, held: RunRecording
) -> None:
    for run_recording in (long, held):
        assert list(malformed_events(trace_events(run_recording))) == []


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"ts": -5.0}, "behind"),
        ({"dur": 1e9}, "outside of what it began in"),
        ({"dur": -1}, "lasts"),
        ({"name": ""}, "no name"),
        ({"tid": 999}, "thread 999"),
        ({"pid": 999}, "process 999"),
        ({"ph": "Z"}, "phase Z"),
    ],
)
def test_the_trace_event_check_detects_malformed_events(lost: RunRecording, change: dict[str, Any], found: str) -> None:
    events = trace_events(lost)
    victim = next(
        number
        for number, event in enumerate(events)
        if event.get("cat") == "file"
        and any(
            outer.get("cat") == "put"
            and (outer["pid"], outer["tid"]) == (event["pid"], event["tid"])
            and outer["ts"] < event["ts"] < outer["ts"] + outer["dur"]
            for outer in events[:number]
        )
    )
    events[victim] |= change
    assert any(found in line for line in malformed_events(events))


def test_trace_times_are_microseconds_and_differ_for_different_moments(run: RunRecording) -> None:
    events = [event for event in trace_events(run) if event["ph"] == "X"]
    for event in events:
        assert 0 <= event["ts"] - event["args"]["now_ns"] / 1000 <= len(run.moments) / 1000
    assert len({event["ts"] for event in events}) > len(run.moments) / 3
    assert all(before["ts"] <= behind["ts"] for before, behind in pairwise(events))


def test_perfetto_trace_events_include_the_whole_recording(lost: RunRecording) -> None:
    events = trace_events(lost)
    counts = {
        kind: sum(event.get("cat") == kind for event in events) for kind in ("file", "lock", "put", "cut", "violation")
    }
    assert counts == {
        "file": len(lost.operations),
        "lock": len(lost.holds),
        "put": sum(put.answered >= 0 for put in lost.puts),
        "cut": 1,
        "violation": 1,
    }
    assert sum(event["ph"] == "C" for event in events) == len(lost.positions)
    waits = [event["name"] for event in events if event.get("cat") == "waiting"]
    assert any(re.match(r"waits: lock .* held by life-\d/", name) for name in waits)
    (violation,) = [event for event in events if event.get("cat") == "violation"]
    assert violation["args"]["invariant"] == "DUR"
