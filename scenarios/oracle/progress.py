"""Progress: how far delayed delivery and consumer groups are, as it is kept beside the log.

Consumer groups commit to a ConsumerOffsetManager, which a broker runs beside its store; here the run does. It is
loaded behind the store and brought into the queues before there are puts. One `GroupProgress` sees all lives of a
store.
"""

from collections.abc import Callable, Iterator

from ...store.delivery.schedule import encoded_offsets
from ...store.formats.delay_level import SCHEDULE_TOPIC
from ...store.formats.side_json import decode_side_json, table_of
from ...store.message_store import MessageStore
from ...store.queues.consumer_offsets import ConsumerOffsetManager
from ..claims.machine import CONFIG, CONSUMER_OFFSET_INTERVAL_MS, DELAY_OFFSET_INTERVAL_MS, DELAYS_MS
from ..claims.plan import Plan
from .evidence import Violation, error_text, services_text
from .invariants import delivery, live, side_files
from .invariants.side_files import WatchedSideFile
from .ledger import Group, Ledger, Versions

_POLL_MS = 100


class GroupProgress:
    """The files of progress over all lives, and the manager of the present one."""

    def __init__(self, plan: Plan, ledger: Ledger) -> None:
        self.manager: ConsumerOffsetManager | None = None
        """What consumers and the check of transactions commit to in the present life, if the plan has any."""
        self._plan = plan
        self._ledger = ledger
        self._on_persist: Callable[[], None] | None = None

    def begin_life(self, on_persist: Callable[[], None] | None = None) -> None:
        """Begin a life of the store. on_persist is called once, when a file of progress is about to be written."""
        self._on_persist = on_persist

    def attach(self, store: MessageStore) -> None:
        """Watch the files of a store that is not loaded yet, and make the manager beside it."""
        files = store.world.files
        if self._plan.delay.chance:
            store.schedule.file = WatchedSideFile(files, self._ledger.delay_progress, self._on_begin)
        self.manager = None
        if self._plan.consuming.commits_offsets or self._plan.transactions.chance:
            self.manager = ConsumerOffsetManager(store.world, CONFIG, flush_interval_ms=CONSUMER_OFFSET_INTERVAL_MS)
            self.manager.on_failure = store.flags.service_failed
            self.manager.file = WatchedSideFile(files, self._ledger.group_progress, self._on_begin)

    def _on_begin(self) -> None:
        on_persist, self._on_persist = self._on_persist, None
        if on_persist is not None:
            on_persist()

    def load(self, store: MessageStore) -> Iterator[Violation]:
        """Load what is beside a store that is loaded, and yield what is wrong with what was found.

        Raises CorruptFileError if there is nothing that can be read, OSError if the disk fails.
        """
        if self._plan.delay.chance:
            yield from self._found(self._ledger.delay_progress)
            yield from side_files.check_levels(store)
        manager = self.manager
        if manager is None:
            return
        manager.load()
        yield from self._found(self._ledger.group_progress)
        found = self._offsets(manager)
        yield from side_files.check_reported(self._ledger, found)
        yield from delivery.check_groups(self._ledger, found)
        manager.clamp(store)
        clamped = self._offsets(manager)
        yield from side_files.check_clamped(store, found, clamped)
        self._ledger.reported = {group: offset for group, offset in clamped.items() if offset >= 0}

    def _found(self, versions: Versions) -> Iterator[Violation]:
        yield from side_files.check_version(versions)
        versions.settle()

    def _offsets(self, manager: ConsumerOffsetManager) -> dict[Group, int]:
        """Return what the manager knows of every group that ever reported."""
        return {group: manager.query_offset(*group) for group in self._ledger.furthest}

    def start(self, store: MessageStore) -> None:
        """Let consumers commit and delivery begin, from where they are now. Before the store's services start."""
        if self._plan.delay.chance:
            self._ledger.begin_delivery(store.log.max_offset, store.schedule.offsets)
        if self.manager is not None:
            self.manager.start()

    def shutdown(self) -> None:
        """End the manager as a broker does in a stop: what was committed is persisted."""
        if self.manager is not None:
            self.manager.shutdown()

    @property
    def is_persisted(self) -> bool:
        """Return whether no attempt to persist failed or is under way."""
        return self._ledger.delay_progress.is_persisted and self._ledger.group_progress.is_persisted

    def finish(self, store: MessageStore) -> Iterator[Violation]:
        """Wait until all that is delayed is delivered and all progress durable; yield what is not in time.

        Nothing may be broken, and nothing put, meanwhile.
        """
        if self._plan.delay.chance:
            limit_ms = max(DELAYS_MS.values()) + live.DISPATCH_MS_MAX
            while undelivered := _undelivered(store):
                if limit_ms <= 0:
                    yield from live.late_delivery(undelivered, services_text(store, store.schedule.name))
                    return
                limit_ms -= _POLL_MS
                store.world.tasks.sleep(_POLL_MS)
        limit_ms = self._plan.flush.thorough_interval_ms  # copies wait for no sync, but their progress for one
        limit_ms += max(DELAY_OFFSET_INTERVAL_MS, CONSUMER_OFFSET_INTERVAL_MS) + live.DISPATCH_MS_MAX
        while unpersisted := self._unpersisted(store):
            if limit_ms <= 0:
                yield from live.late_progress(unpersisted, self._causes_text(store))
                return
            limit_ms -= _POLL_MS
            store.world.tasks.sleep(_POLL_MS)

    def _causes_text(self, store: MessageStore) -> str:
        """Return what is known of why progress is late."""
        lines = services_text(store, store.schedule.name)
        if self.manager is not None and self.manager.last_error is not None:
            lines += f"\nconsumer offsets: last error: {error_text(self.manager.last_error)}"
        return lines

    def _unpersisted(self, store: MessageStore) -> str:
        """Return the file that does not have all progress, empty if there is none."""
        if self._plan.delay.chance:
            offsets = store.schedule.offsets
            if offsets and self._ledger.delay_progress.durable != encoded_offsets(offsets):
                return self._ledger.delay_progress.path
        if any(offset != self._durable(group) for group, offset in self._ledger.reported.items()):
            return self._ledger.group_progress.path
        return ""

    def _durable(self, group: Group) -> int | None:
        """Return the offset of a group that is durable."""
        content, path = self._ledger.group_progress.durable, self._ledger.group_progress.path
        if content is None:
            return None
        table = table_of(decode_side_json(content, file=path), "offsetTable", file=path)
        name, topic, queue_id = group
        offset = table.get(f"{topic}@{name}", {}).get(str(queue_id))
        return None if offset is None else int(offset)


def _undelivered(store: MessageStore) -> str:
    """Return a level whose delivery is behind, empty if there is none and all records are visible."""
    if store.dispatch.reput_from.get() < store.dispatch.readable_limit():
        return "records that are not visible yet"
    for queue in store.queues.all():
        if queue.topic == SCHEDULE_TOPIC:
            offset = max(store.schedule.offsets.get(queue.queue_id + 1, 0), queue.min_offset)
            if offset != queue.max_offset:
                return f"level {queue.queue_id + 1}: {offset} of {queue.max_offset}"
    return ""
