"""Group model: the state of groups that a broker must have after the requests of a single user.

    offsets         the last commit, clone or removal
    members         clients by heartbeat, until they unregister or their connections end
    subscriptions   the topics of the newest heartbeat; for each topic the newest version
    notices         one to every member, also to a new one, after each change of members or topics
    producers       as members, without notices
    locks           of the first client that asks, until it unlocks; no act is as long as their expiry
    retry topics    of groups that exist at a heartbeat
    replies         to the connection of a client that joined the producers of a group last

A client may have several connections, and each is a member of its own. Each change has taken effect before its answer,
so all later answers are certain.
Source: RocketMQ ConsumerManager, ConsumerGroupInfo, ProducerManager, ConsumerOffsetManager.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .evidence import Violation, record_tried
from .group_delivery import Queue
from .group_members import NOTIFY_CONSUMER_IDS_CHANGED, RESET_CONSUMER_CLIENT_OFFSET


class Subscribed(NamedTuple):
    """A subscription to one topic."""

    kind: str
    text: str
    version: int


class GroupSettings(NamedTuple):
    """The settings of a group that decide about its pulls and notices."""

    consumes: bool = True
    broadcasts: bool = True
    notifies: bool = True


class ConsumeMode(NamedTuple):
    """How a group consumes, by its newest heartbeat: type, model and start."""

    consume_type: str
    model: str
    begins: str


class MemberConnection(NamedTuple):
    """One of the connections of a client."""

    client_id: str
    number: int


class Notice(NamedTuple):
    """A request that the broker sends to a client: its code, and the group or the content."""

    code: int
    content: str


@dataclass(slots=True)
class _Consumers:
    mode: ConsumeMode
    members: dict[MemberConnection, None] = field(default_factory=dict)
    subscriptions: dict[str, Subscribed] = field(default_factory=dict)


@dataclass(slots=True)
class GroupModel:
    """The model begins without offsets and members."""

    creates_groups: bool
    """Whether the broker creates a missing group at its first heartbeat or pull."""
    notifies: bool
    """Whether the broker notifies members at all."""
    offsets: dict[str, dict[Queue, int]] = field(default_factory=dict)
    """Group -> offset by queue."""
    settings: dict[str, GroupSettings] = field(default_factory=dict)
    """The settings of existing groups."""
    notices: dict[MemberConnection, list[Notice]] = field(default_factory=dict)
    """Connection -> the requests that the client must have received over it."""
    retry_groups: set[str] = field(default_factory=set)
    """Groups with a retry topic."""
    _consumers: dict[str, _Consumers] = field(default_factory=dict)
    """Group -> its members and subscriptions."""
    _producers: dict[tuple[str, MemberConnection], None] = field(default_factory=dict)
    """The producers of all groups, in the order in which they joined."""
    _locks: dict[tuple[str, Queue], str] = field(default_factory=dict)
    """Group and queue -> the client with the lock."""

    # -- changes -----------------------------------------------------------------------------------

    def commit(self, group: str, queue: Queue, offset: int) -> None:
        self.offsets.setdefault(group, {})[queue] = offset

    def clone(self, source: str, target: str, topic: str) -> None:
        """topic: empty for all."""
        for queue, offset in self.offsets.get(source, {}).items():
            if topic in ("", queue[0]):
                self.commit(target, queue, offset)

    def delete(self, group: str, *, removes_offsets: bool) -> None:
        self.settings.pop(group, None)
        if removes_offsets:
            self.offsets.pop(group, None)

    def set_group(self, group: str, settings: GroupSettings) -> None:
        self.settings[group] = settings

    def need(self, group: str) -> GroupSettings | None:
        """Return the settings of a group that a request names; None if the group is missing and stays so."""
        if self.creates_groups:
            self.settings.setdefault(group, GroupSettings())
        return self.settings.get(group)

    def register(
        self, client: MemberConnection, group: str, mode: ConsumeMode, wanted: Mapping[str, Subscribed]
    ) -> None:
        found = self._consumers.setdefault(group, _Consumers(mode))
        found.mode = mode
        before, is_new = found.subscriptions, client not in found.members
        found.members[client] = None
        found.subscriptions = {
            topic: before[topic] if topic in before and before[topic].version >= one.version else one
            for topic, one in wanted.items()
        }
        settings = self.need(group)
        if settings is not None:
            self.retry_groups.add(group)
        if (is_new or before.keys() != found.subscriptions.keys()) and (settings is None or settings.notifies):
            self._notify(group)

    def register_producer(self, client: MemberConnection, group: str) -> None:
        self._producers[group, client] = None

    def unregister(self, client: MemberConnection, group: str) -> None:
        settings = self.settings.get(group)
        self._remove(client, group, notifies=settings is None or settings.notifies)

    def unregister_producer(self, client: MemberConnection, group: str) -> None:
        self._producers.pop((group, client), None)

    def reply(self, client_id: str, content: Notice) -> bool:
        """Return whether a client gets a reply."""
        found = [client for _, client in self._producers if client.client_id == client_id]
        if found:
            self.notices.setdefault(found[-1], []).append(content)
        return bool(found)

    def lock(self, client: str, group: str, queues: Sequence[Queue]) -> list[Queue]:
        """Return the queues that the answer grants."""
        return [queue for queue in queues if self._locks.setdefault((group, queue), client) == client]

    def unlock(self, client: str, group: str, queues: Sequence[Queue]) -> None:
        for queue in queues:
            if self._locks.get((group, queue)) == client:
                del self._locks[group, queue]

    def end_connection(self, client: MemberConnection) -> None:
        """The setting of a group does not matter then."""
        for group in list(self._consumers):
            self._remove(client, group, notifies=True)
        self._producers = {each: None for each in self._producers if each[1] != client}

    def reset(self, group: str, body: bytes) -> None:
        """Every member receives the offsets in the answer to an operator."""
        for client in self.members(group):
            self.notices.setdefault(client, []).append(Notice(RESET_CONSUMER_CLIENT_OFFSET, body.decode()))

    def _remove(self, client: MemberConnection, group: str, *, notifies: bool) -> None:
        found = self._consumers.get(group)
        if found is None or client not in found.members:
            return
        del found.members[client]
        if not found.members:
            del self._consumers[group]
        elif notifies:
            self._notify(group)

    def _notify(self, group: str) -> None:
        if self.notifies:
            for client in self.members(group):
                self.notices.setdefault(client, []).append(Notice(NOTIFY_CONSUMER_IDS_CHANGED, group))

    # -- views -------------------------------------------------------------------------------------

    def members(self, group: str) -> list[MemberConnection]:
        found = self._consumers.get(group)
        return [] if found is None else list(found.members)

    def member_ids(self, group: str) -> list[str]:
        return sorted({client.client_id for client in self.members(group)})

    def producers(self, group: str) -> list[MemberConnection]:
        return [client for each, client in self._producers if each == group]

    def mode(self, group: str) -> ConsumeMode | None:
        """Return None for a group without members."""
        found = self._consumers.get(group)
        return None if found is None else found.mode

    def subscriptions(self, group: str) -> dict[str, Subscribed]:
        found = self._consumers.get(group)
        return {} if found is None else found.subscriptions

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that subscribe to a topic or have offsets in it."""
        found = {group for group in self._consumers if topic in self.subscriptions(group)}
        found |= {group for group, offsets in self.offsets.items() if any(queue[0] == topic for queue in offsets)}
        return sorted(found)

    def progress(self, group: str, topic: str, topics: Iterable[str]) -> dict[str, int]:
        """Return the progress of a group that an operator sees in a topic, or in all `topics` where it has offsets.

        A group with subscriptions shows only topics to which it subscribes. The result has only queues with offsets.
        """
        subscribed = self.subscriptions(group)
        shown = [each for each in topics if topic in ("", each) and (not subscribed or each in subscribed)]
        offsets = self.offsets.get(group, {})
        return {f"{name}/{number}": offset for (name, number), offset in offsets.items() if name in shown}


def check_view(invariant: str, summary: str, expected: object, found: object) -> Iterator[Violation]:
    """Yield an answer that differs from the model."""
    record_tried(invariant)
    if expected != found:
        yield Violation(invariant, summary, field="answer", expected=str(expected), found=str(found))
