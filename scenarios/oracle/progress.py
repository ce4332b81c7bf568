"""Progress: how far delayed delivery and consumer groups are, as it is kept beside the log.

Consumer groups commit to a ConsumerOffsetManager, which a broker runs beside its store; here the run does. It is
loaded behind the store and brought into the queues before there are puts. One `GroupProgress` sees all lives of a
store.
"""

from collections.abc import Callable, Iterator

from ...faults.disk.disk import Disk
from ...store.message_store import MessageStore
from ...store.services.consumer_offsets import ConsumerOffsetManager
from ..claims.machine import CONSUMER_OFFSET_INTERVAL_MS
from ..claims.plan import Plan
from .evidence import Violation, error_text
from .group_commits import Group
from .invariants import delivery, live, quiescence, side_files
from .invariants.quiescence import Cursor
from .invariants.side_files import WatchedSideFile
from .ledger import Ledger, Versions


class GroupProgress:
    """The files of progress over all lives, and the manager of the present one."""

    def __init__(self, plan: Plan, ledger: Ledger) -> None:
        self.manager: ConsumerOffsetManager | None = None
        """What consumers and the check of transactions commit to in the present life, if the plan has any."""
        self._plan = plan
        self._ledger = ledger
        self._on_persist: Callable[[], None] | None = None
        self._is_calm = live.is_calm(plan)

    def begin_life(self, on_persist: Callable[[], None] | None = None, *, is_calm: bool = False) -> None:
        """Begin a life of the store. on_persist is called once, when a file of progress is about to be written.

        is_calm: whether nothing holds this life up, whatever the plan has for others.
        """
        self._on_persist = on_persist
        self._is_calm = is_calm or live.is_calm(self._plan)

    def note_stop(self) -> None:
        """Note a clean stop, which persists all progress if the disk lets it."""
        is_kept = self._ledger.delay_progress.is_persisted and self._ledger.group_progress.is_persisted
        self._ledger.progress_is_final = is_kept
        self._ledger.commits.note_stop(is_kept=is_kept)
        self._ledger.commits.end_life()

    def note_crash(self, died_ns: int | None) -> None:
        """Note a crash: it takes no more of what groups committed than an interval of persisting.

        died_ns: when the machine died, None if only a later time is known.
        """
        limit_ms = CONSUMER_OFFSET_INTERVAL_MS + 2 * live.start_ms_max(self._plan)
        is_known = self._is_calm and died_ns is not None
        self._ledger.progress_is_final = False
        self._ledger.commits.note_crash(limit_ms if is_known else None, died_ns or 0)
        self._ledger.commits.end_life()

    def attach(self, store: MessageStore) -> None:
        """Watch the files of a store that is not loaded yet, and make the manager beside it."""
        files = store.world.files
        if self._plan.delay.chance:
            store.schedule.file = WatchedSideFile(files, self._ledger.delay_progress, self._on_begin)
        self.manager = None
        if self._plan.consuming.commits_offsets or self._plan.transactions.chance:
            self.manager = ConsumerOffsetManager(
                store.world, store.config.config_directory, flush_interval_ms=CONSUMER_OFFSET_INTERVAL_MS
            )
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
            yield from side_files.check_damage(store, self._ledger)
            yield from self._found(self._ledger.delay_progress)
            yield from side_files.check_levels(store)
        manager = self.manager
        if manager is None:
            return
        manager.load()
        yield from self._found(self._ledger.group_progress)
        found = self._offsets(manager)
        commits = self._ledger.commits
        for group, offset in found.items():
            yield from delivery.check_group(commits, group, offset, asked_in=commits.life)
        manager.clamp(store)
        clamped = self._offsets(manager)
        yield from side_files.check_clamped(store, found, clamped)
        commits.note_found(clamped)

    def _found(self, versions: Versions) -> Iterator[Violation]:
        yield from side_files.check_version(versions)
        versions.settle()

    def _offsets(self, manager: ConsumerOffsetManager) -> dict[Group, int]:
        """Return what the manager knows of every group that ever reported."""
        return {group: manager.query_offset(*group) for group in self._ledger.commits.furthest}

    def start(self, store: MessageStore) -> None:
        """Let consumers commit and delivery begin, from where they are now. Before the store's services start."""
        if self._plan.delay.chance:
            late_ms_max = live.delivery_ms_max(self._plan) if self._is_calm else None
            began_ms = max(store.world.clock.now_ms(), store.commit_log.last_store_timestamp_ms)
            progress = store.schedule.offsets
            self._ledger.begin_delivery(store.log.max_offset, progress, began_ms=began_ms, late_ms_max=late_ms_max)
        if self.manager is not None:
            self.manager.start()

    def shutdown(self) -> None:
        """End the manager as a broker does in a stop: what was committed is persisted."""
        if self.manager is not None:
            self.manager.shutdown()

    def cursors(self, store: MessageStore, disk: Disk) -> Iterator[Cursor]:
        """Yield what is to come to its end when nothing is put any more: delivery, and all progress on the disk."""
        plan = self._plan
        if plan.delay.chance:
            yield from quiescence.delivering(store, plan, disk)
        manager = self.manager
        if manager is None:
            return
        for group, offset in self._ledger.commits.at.items():
            name, topic, queue_id = group
            yield Cursor(f"{name} in {topic}/{queue_id}", manager.name, manager.query_offset(*group), offset, 0)
        yield from quiescence.consuming(store, plan, disk, manager, CONSUMER_OFFSET_INTERVAL_MS)

    def trouble(self) -> str:
        """Return what the manager knows of why progress is late."""
        if self.manager is None or self.manager.last_error is None:
            return ""
        return f"consumer offsets: last error: {error_text(self.manager.last_error)}"
