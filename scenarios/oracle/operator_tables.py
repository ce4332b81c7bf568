"""Operator tables: the topics, groups and settings that operators have changed at one broker (META).

    acknowledged change   the table has it until the next change; topics and groups also after a restart
    other change          the table may have it; the broker may execute it until its next restart

There is one operator per table, which waits for each answer. None stands for a missing entry.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .evidence import Violation, record_tried

Settings = tuple[object, ...]
PERM_READ = 4
_PERM_READ_WRITE = 6
BROKER_PERMISSION = "brokerPermission"
_TOPIC_SETTINGS = ("readQueueNums", "writeQueueNums", "perm", "order", "topicSysFlag", "topicFilterType")
GROUP_SETTINGS = (
    *("consumeEnable", "retryQueueNums", "retryMaxTimes", "consumeFromMinEnable", "consumeBroadcastEnable"),
    *("notifyConsumerIdsChangedEnable", "brokerId", "whichBrokerWhenConsumeSlowly"),
)


def topic_settings(entry: Mapping[str, Any]) -> Settings:
    return tuple(entry[name] for name in _TOPIC_SETTINGS)


def group_settings(entry: Mapping[str, Any]) -> Settings:
    return tuple(entry[name] for name in GROUP_SETTINGS)


@dataclass(slots=True, eq=False)
class PendingChange:
    """A change that a broker may execute."""

    settings: Settings | None
    is_given_up: bool = False
    """Whether the operator no longer waits for the answer, so that only the present broker process can execute it."""
    has_ended: bool = False
    """Whether that process has ended. The next start may find the change; then it is past."""


@dataclass(slots=True)
class OperatorTable:
    """One table of one broker: `kind` is "topic", "group" or "setting"."""

    kind: str
    _known: dict[str, tuple[Settings | None, int]] = field(default_factory=dict)
    """Name -> acknowledged settings, and the time of the answer or of a start."""
    _pending: dict[str, list[PendingChange]] = field(default_factory=dict)
    """Name -> changes without SUCCESS."""
    _last_version: tuple[object, Mapping[str, Settings]] | None = None

    def restart(self, entries: Mapping[str, Settings], now_ns: int) -> None:
        """Record a start that finds these entries. A request in flight may reach the new process."""
        self._known = {name: (settings, now_ns) for name, settings in entries.items()}
        self._last_version = None
        self._forget_ended()

    def begin_process(self) -> None:
        """Record that no earlier process of the broker executes a change any more. Call this before a load.

        A process accepts connections during its load, and executes their requests afterwards, even if the operator has
        given them up by then.
        """
        for pending in self._pending.values():
            for change in pending:
                change.has_ended = change.is_given_up

    def record_request(self, name: str, settings: Settings | None) -> PendingChange:
        change = PendingChange(settings)
        self._pending.setdefault(name, []).append(change)
        return change

    def record_success(self, name: str, change: PendingChange, now_ns: int) -> None:
        self._pending[name].remove(change)
        self._known[name] = change.settings, now_ns

    def record_refusal(self, name: str, change: PendingChange) -> None:
        self._pending[name].remove(change)

    def is_changed(self, name: str) -> bool:
        """Return whether an operator has changed the entry, or has tried to."""
        return name in self._known or name in self._pending

    def certain(self, name: str, since_ns: int) -> tuple[Settings | None] | None:
        """Return the settings that the table has had since a time, None if they are uncertain."""
        known = self._known.get(name)
        return None if known is None or known[1] > since_ns or self._pending.get(name) else (known[0],)

    def check_answer(self, found: Mapping[str, Settings], version: object, asked_ns: int) -> Iterator[Violation]:
        """META: yield each wrong entry in an answer with the whole table, and a version that stays after a change."""
        record_tried("META")
        for name in self._known:
            certain = self.certain(name, asked_ns)
            if certain is not None and found.get(name) != certain[0]:
                yield self._violation(name, "is not as an operator has set it", certain[0], found.get(name))
        last, self._last_version = self._last_version, (version, found)
        if last is not None and last[0] == version and last[1] != found:
            yield self._violation("the table", "changes and keeps its version", "another version", version)

    def check_of_system(self, found: Mapping[str, Settings], names: Iterable[str]) -> Iterator[Violation]:
        """META: yield each missing entry that a broker creates when it starts, and that no operator can remove."""
        for name in names:
            record_tried("META")
            if name not in found:
                yield self._violation(name, "of the system is missing", "an entry", None)

    def check_loaded(self, found: Mapping[str, Settings], now_ns: int) -> Iterator[Violation]:
        """META: yield each entry that a start does not find as acknowledged, or as in a request without an answer."""
        self._last_version = None
        for name in sorted(self._known):
            record_tried("META")
            allowed = [self._known[name][0], *(each.settings for each in self._pending.get(name, ()))]
            if found.get(name) not in allowed:
                yield self._violation(name, "is not as set before the last stop", allowed, found.get(name))
            self._known[name] = found.get(name), now_ns  # the last process may have had a change that was lost
        self._forget_ended()

    def _forget_ended(self) -> None:
        for name, pending in self._pending.items():
            self._pending[name] = [each for each in pending if not each.has_ended]

    def _violation(self, name: str, what: str, expected: object, found: object) -> Violation:
        summary = f"{self.kind} {name} {what}"
        return Violation("META", summary, field=self.kind, expected=str(expected), found=str(found))


@dataclass(slots=True)
class OperatorTables:
    """The tables of one broker."""

    topics: OperatorTable = field(default_factory=lambda: OperatorTable("topic"))
    groups: OperatorTable = field(default_factory=lambda: OperatorTable("group"))
    settings: OperatorTable = field(default_factory=lambda: OperatorTable("setting"))

    def begin_process(self) -> None:
        for table in (self.topics, self.groups, self.settings):
            table.begin_process()

    def setting(self, key: str, since_ns: int) -> str | None:
        """Return the text of a setting that the broker has had since a time, None if it is uncertain."""
        certain = self.settings.certain(key, since_ns)
        return None if certain is None or certain[0] is None else str(certain[0][0])

    def is_readable(self, topic: str, since_ns: int) -> bool | None:
        """Return whether topic and broker have had the permission to read since a time, None if it is uncertain."""
        certain, text = self.topics.certain(topic, since_ns), self.setting(BROKER_PERMISSION, since_ns)
        perms = [None if certain is None or certain[0] is None else int(str(certain[0][2]))]
        perms.append(None if text is None else int(text))
        if any(perm is not None and not perm & PERM_READ for perm in perms):
            return False
        return None if None in perms else True

    def check_pull(self, topic: str, *, is_refused: bool, is_done: bool, asked_ns: int) -> Iterator[Violation]:
        """STATUS: yield an answer to a pull that contradicts the permission of the topic or the broker.

        is_refused: whether the answer is NO_PERMISSION. RocketMQ's brokers do not refuse a send because of the
        permission: clients follow the routes.
        """
        is_readable = self.is_readable(topic, asked_ns)
        if is_readable is None:
            return
        record_tried("STATUS")
        if (is_refused and is_readable) or (is_done and not is_readable):
            found = "refused" if is_refused else "executed"
            summary, expected = "the answer to a pull contradicts a permission", str(is_readable)
            yield Violation("STATUS", summary, field=f"{topic} is readable", expected=expected, found=found)

    def check_registered(self, topic: str, found: Settings | None, since_ns: int) -> Iterator[Violation]:
        """META: yield a topic that a name server knows otherwise than the broker has had it since a time.

        found: (read queues, write queues, perm); None if the name server has no such topic, which an operator of the
        name server may cause. A topic that no operator changes has the permission to read and write.
        """
        certain, permission = self.topics.certain(topic, since_ns), self.setting(BROKER_PERMISSION, since_ns)
        if found is None or permission is None or (certain is None and self.topics.is_changed(topic)):
            return
        record_tried("META")
        expected: Settings | None = None
        if certain is None:
            expected = (*found[:2], int(permission) & _PERM_READ_WRITE)
            found = (*found[:2], int(str(found[2])) & _PERM_READ_WRITE)
        elif certain[0] is not None:
            expected = (*certain[0][:2], int(str(certain[0][2])) & int(permission))
        if found != expected:
            summary = f"a name server knows {topic} with other settings than its broker"
            yield Violation("META", summary, field="registration", expected=str(expected), found=str(found))

    def check_route(self, topic: str, found: Settings | None, asked_ns: int) -> Iterator[Violation]:
        """META: yield a route at the broker's own name server that differs from the topic's settings.

        found: (read queues, write queues, perm) of this broker's queues, None without a route.
        """
        certain, permission = self.topics.certain(topic, asked_ns), self.setting(BROKER_PERMISSION, asked_ns)
        if certain is None or permission is None:
            return
        record_tried("META")
        reads, writes, perm = (None, None, 0) if certain[0] is None else certain[0][:3]
        expected = None if certain[0] is None else (reads, writes, int(str(perm)) & int(permission))
        if found != expected:
            summary = f"the route of {topic} is not as an operator has set the topic"
            yield Violation("META", summary, field="route", expected=str(expected), found=str(found))
