"""Story of a violation: the most relevant lines before it.

Events on the bytes or messages in the violation come first, and in runs with a network the judged request and the
requests about the same objects. Events on the same file, and events of blocked or dead tasks, fill the remaining lines.
Some lines are for faults, losses, errors of the store, and answers to users.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ....faults.simulation import story
from ....faults.simulation.story import BYTES, NO_EVIDENCE, OTHER, TASK, FailureSubjects
from ....sim.trace import TraceEvent
from ....store.config import StoreConfig
from ...oracle.evidence import Violation
from ...oracle.ledger import Ledger
from ...oracle.put_entry import PutEntry
from .events import (
    answers_of,
    count_to_violation,
    events_to_violation,
    merged,
    with_last_syncs,
    without_repetitions,
    without_times,
)
from .exchanges import REQUEST, ConcernedExchanges, Exchange

_PROGRESS = "config/delayOffset.json"
_FILE_OF = {"CKPT": "checkpoint", "IDX": "index", "REDEL": _PROGRESS, "SCHED": _PROGRESS}
"""The file below the root that an invariant concerns in addition to the file that its violation names."""
_OFFSETS_FILES = {False: "config/consumerOffset.json", True: "config/lmqConsumerOffset.json"}
"""enableLmq -> the file that a violation about the offset of a consumer group concerns instead."""
_OBJECTS_MAX = 3
STORY_LINES = 14
REPORTS_MAX = 7
_REPORTS_BESIDE_REQUESTS_MAX = 4
_NO_EVIDENCE = ("refused", "refused connection", "split delivery", "put refused", "paused task")
"""Kinds of events that are left out in runs of brokers. A request has its own refusal."""
_FAULTS = ("error", "fault", "damaged")
_LIFE = re.compile(r"(?:.*/)?(?:life-\d+|heal|again|after)")
"""Matches the machine of a store, not of a client."""
_RECORD_INVARIANTS = ("DUR", "PREFIX")
"""Invariants of records, without their queue entries."""
_NAME = re.compile(r"\bm\d+\.(\d+)\.\d+(?:\.\d+)?\b")
"""Matches a message name: number of the store's start, producer, number, and optional number in a batch."""
_QUEUE_OR_ADDRESS = re.compile(r"(?<![\w/%])(?:[%\w]+/\d+|\d+\.\d+\.\d+\.\d+(?:@\d+)?)(?![\w/.])")
"""Matches a queue, such as T0/1, a client, such as 10.0.0.71@1, and a machine, such as 10.0.0.2."""
_TASK_OF = (
    ("dispatch", "dispatch"),
    ("committed", "commit-real-time"),
    ("durable", "flush"),
    ("durable", "group-commit"),
    ("delayed", "schedule"),
    ("SCHED", "schedule"),
    ("REDEL", "schedule"),
    ("CLEAN", "retention"),
    ("CKPT", "flush-consume-queue"),
    ("consumequeue/", "dispatch"),
    ("/index/", "dispatch"),
    ("IDX", "dispatch"),
    ("waited", "group-commit"),
)
"""The service task for each word in a violation's text."""
_REQUEST_OF = (("sent back", "CONSUMER_SEND_MSG_BACK"), ("listed as a member", "GET_CONSUMER_LIST_BY_GROUP"))
"""The request for words in a violation's text."""


def story_of(
    events: Iterable[TraceEvent],
    violations: Sequence[Violation],
    config: StoreConfig,
    ledger: Ledger | None = None,
    *,
    is_alone: bool = True,
    exchanges: Sequence[Exchange] = (),
    judged: Exchange | None = None,
) -> list[str]:
    """Describe the relevant events in at most STORY_LINES lines, and count the events.

    is_alone: whether the run has one store. The files of several machines have the same paths. exchanges: requests and
    answers. judged: the exchange in which the violation was found, if known.
    """
    concern, root = subjects_of_violations(violations, config, ledger), config.store_path_root_dir
    place = (violations[0].file, violations[0].offset) if violations else ("", -1)
    reports_max, events = REPORTS_MAX, list(events)
    if exchanges:
        chosen = ConcernedExchanges(exchanges, judged, violations, count_to_violation(events) - 1)
        events = concern.add_exchanges(chosen, events)
        reports_max = _REPORTS_BESIDE_REQUESTS_MAX if concern.requests else REPORTS_MAX
    shown = list(events_to_violation(events))
    shown = without_repetitions(with_last_syncs(shown, place) if is_alone else shown)
    if ledger is not None:
        shown = merged(shown, without_repetitions(answers_of(ledger, concern.names)))
    lines = story.story_of(shown, concern, STORY_LINES, verdict="StopOnViolation", root=root, reports_max=reports_max)
    assert len(lines) <= STORY_LINES, len(lines)
    return lines


@dataclass(slots=True)
class RunSubjects(FailureSubjects):
    """The subjects of a violation, with the requests about its objects."""

    requests: set[tuple[str, str]] = field(default_factory=set)
    """Task and text of each chosen exchange."""
    connections: set[str] = field(default_factory=set)
    """Connections of clients, "client>server" and reverse."""
    first_ns: int = 0
    """Time of the first chosen exchange. Earlier deaths of a machine are no evidence."""

    def add_exchanges(self, concerned: ConcernedExchanges, events: Sequence[TraceEvent]) -> list[TraceEvent]:
        """Add the chosen exchanges, and return the events with one event for each exchange."""
        self.connections |= concerned.connections
        self.names = list(dict.fromkeys((*concerned.objects[:_OBJECTS_MAX], *self.names)))
        shown = []
        for event, is_chosen in concerned.events(events):
            shown.append(event)
            if is_chosen:
                self.first_ns = min(self.first_ns, event.now_ns) if self.requests else event.now_ns
                self.requests.add((event.task, event.text))
        return shown

    def relevance(self, event: TraceEvent) -> int:
        if (event.task, without_times(event.text)) in self.requests:
            return BYTES
        if event.kind in ("send", "receive") and event.text.partition(",")[0] in self.connections:
            return NO_EVIDENCE
        relevance = FailureSubjects.relevance(self, event)
        if self.connections and event.kind in _NO_EVIDENCE:
            return NO_EVIDENCE
        if not self.requests:
            return relevance
        if event.kind == REQUEST:
            return OTHER
        if event.kind == "kill" and (event.now_ns < self.first_ns or not _LIFE.fullmatch(event.text)):
            return NO_EVIDENCE
        # Requests tell more than the operations of a task.
        return OTHER if relevance == TASK and not event.kind.startswith(_FAULTS) else relevance


def subjects_of_violations(violations: Sequence[Violation], config: StoreConfig, ledger: Ledger | None) -> RunSubjects:
    """Return the messages, bytes, files and tasks in the violations. The ledger has the log offset of each message."""
    concern, root = RunSubjects(), config.store_path_root_dir
    for violation in violations[:1]:
        _add_place_of_violation(concern, violation, config)
        text = f"{violation.summary} {violation.expected} {violation.found}"
        named = rf"{re.escape(root)}/[^\s:,()']+"
        concern.paths |= set(re.findall(named, violation.summary + violation.detail))  # errors contain file names
        concern.tasks |= {line.partition(":")[0] for line in violation.detail.splitlines() if "last error" in line}
        for match in _NAME.finditer(text):
            name, producer = match[0], match[1]
            put = None if ledger is None else ledger.by_name.get(name)
            if put is not None:
                _add_put_subjects(concern, put, config, has_entry=violation.invariant not in _RECORD_INVARIANTS)
            if name not in concern.names:
                concern.names.append(name)
            concern.tasks.add(f"producer-{producer}")
        concern.names += [name for name in dict.fromkeys(_QUEUE_OR_ADDRESS.findall(text)) if name not in concern.names]
        concern.names += [request for words, request in _REQUEST_OF if words in violation.summary]
        known = f"{violation.invariant} {violation.file} {violation.summary.splitlines()[0]}"
        concern.tasks |= {task for word, task in _TASK_OF if word in known}
        concern.tasks |= set(re.findall(r"[\w-]+/([a-z][\w -]*?) (?:died|waits|sleeps)", violation.summary))
        for offset in re.findall(r"phyOffset (\d+)", f"{violation.expected} {violation.found}"):
            concern.ranges += [(log, int(offset), int(offset) + 1) for log in config.commit_log_directories]
        is_of_group = violation.invariant in ("META", "REDEL") and violation.field == "offset"
        if is_of_group or violation.invariant in _FILE_OF:
            file = _OFFSETS_FILES[config.enable_lmq] if is_of_group else _FILE_OF[violation.invariant]
            concern.paths.add(f"{root}/{file}")
    concern.names += sorted(path.removeprefix(f"{root}/") for path in concern.paths)
    concern.names += sorted(concern.tasks)
    return concern


def _add_place_of_violation(concern: RunSubjects, violation: Violation, config: StoreConfig) -> None:
    if not violation.file:
        return
    root = config.store_path_root_dir
    paths = [violation.file if violation.file.startswith(("/", f"{root}/")) else f"{root}/{violation.file}"]
    if violation.file == "commitlog":
        paths = list(config.commit_log_directories)
    if violation.offset >= 0:
        concern.ranges += [(path, violation.offset, violation.offset + 1) for path in paths]
    concern.paths |= {*paths} - {*config.commit_log_directories}


def _add_put_subjects(concern: RunSubjects, put: PutEntry, config: StoreConfig, *, has_entry: bool) -> None:
    if put.physical_offset is not None:
        end = put.physical_offset + put.record_bytes
        concern.ranges += [(log, put.physical_offset, end) for log in config.commit_log_directories]
    if has_entry and put.queue_offset is not None:
        topic, queue_id = put.place
        queue = f"{config.consume_queue_directory}/{topic}/{queue_id}"
        concern.ranges.append((queue, put.queue_offset * 20, put.queue_offset * 20 + 20))
