"""Progress: the side files with the offsets of consumer groups and of delayed delivery.

In runs without a broker the run owns the ConsumerOffsetManager to which groups commit. The manager loads after the
store, and limits its offsets to queue ends before the first put.
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
    """The progress files over the whole run, and the offset manager since the last start."""

    def __init__(self, plan: Plan, ledger: Ledger) -> None:
        self.manager: ConsumerOffsetManager | None = None
        """None if neither consumers nor the transaction check need a manager."""
        self._plan = plan
        self._ledger = ledger
        self._on_persist: Callable[[], None] | None = None
        self._is_calm = live.is_calm(plan)

    def begin_life(self, on_persist: Callable[[], None] | None = None, *, is_calm: bool = False) -> None:
        """Prepare the next start of the store. on_persist is called once, before a progress file is written.

        is_calm: whether there are no faults and pauses until the next stop.
        """
        self._on_persist = on_persist
        self._is_calm = is_calm or live.is_calm(self._plan)

    def note_stop(self) -> None:
        """Record a clean stop, which persists all progress unless the disk fails."""
        is_kept = self._ledger.delay_progress.is_persisted and self._ledger.group_progress.is_persisted
        self._ledger.progress_is_final = is_kept
        self._ledger.delivery_is_restored = False
        self._ledger.commits.note_stop(is_kept=is_kept)
        self._ledger.commits.end_life()

    def note_crash(self, died_ns: int | None) -> None:
        """died_ns: when the machine died, None if the exact time is unknown."""
        limit_ms = CONSUMER_OFFSET_INTERVAL_MS + 2 * live.start_ms_max(self._plan)
        is_known = self._is_calm and died_ns is not None
        self._ledger.progress_is_final = False
        self._ledger.commits.note_crash(limit_ms if is_known else None, died_ns or 0)
        self._ledger.commits.end_life()

    def attach(self, store: MessageStore, judge_delivery: Callable[[bytes], None]) -> None:
        """judge_delivery is called with the progress of delayed delivery before it is written."""
        files = store.world.files

        def begin_delivery(content: bytes) -> None:
            judge_delivery(content)
            self._on_begin(content)

        if self._plan.delay.chance:
            store.schedule.file = WatchedSideFile(files, self._ledger.delay_progress, begin_delivery)
        self.manager = None
        if self._plan.consuming.commits_offsets or self._plan.transactions.chance:
            self.manager = ConsumerOffsetManager(
                store.world,
                store.config.config_directory,
                flush_interval_ms=CONSUMER_OFFSET_INTERVAL_MS,
                light_queues=store.config.enable_lmq,
            )
            self.manager.on_failure = store.flags.service_failed
            self.manager.file = WatchedSideFile(files, self._ledger.group_progress, self._on_begin)

    def _on_begin(self, _: bytes) -> None:
        on_persist, self._on_persist = self._on_persist, None
        if on_persist is not None:
            on_persist()

    def load(self, store: MessageStore) -> Iterator[Violation]:
        """Load the offsets after the store, and yield violations of both progress files.

        Raises CorruptFileError if no version is readable, OSError if the disk fails.
        """
        if self._plan.delay.chance:
            yield from side_files.check_damage_reported(store, self._ledger)
            yield from self._judge_loaded(self._ledger.delay_progress)
            yield from side_files.check_delay_levels(store)
        manager = self.manager
        if manager is None:
            return
        manager.load()
        yield from self._judge_loaded(self._ledger.group_progress)
        found = self._offsets_of_all_groups(manager)
        commits = self._ledger.commits
        for group, offset in found.items():
            yield from delivery.check_group_offset(commits, group, offset, asked_in=commits.life)
        commits.may_be_lowered_to({group: store.get_max_offset_in_queue(*group[1:]) for group in found})
        manager.clamp_to_queues(store)
        clamped = self._offsets_of_all_groups(manager)
        yield from side_files.check_clamped_offsets(store, found, clamped)
        commits.note_loaded_offsets(clamped)

    def _judge_loaded(self, versions: Versions) -> Iterator[Violation]:
        yield from side_files.check_version(versions)
        versions.mark_loaded_durable()

    def _offsets_of_all_groups(self, manager: ConsumerOffsetManager) -> dict[Group, int]:
        return {group: manager.query_offset(*group) for group in self._ledger.commits.greatest}

    def start(self, store: MessageStore) -> None:
        if self._plan.delay.chance:
            late_ms_max = live.delivery_ms_max(self._plan) + live.hidden_ms_max(self._plan) if self._is_calm else None
            began_ms = max(store.world.clock.now_ms(), store.commit_log.last_store_timestamp_ms)
            progress = store.schedule.offsets
            self._ledger.begin_delivery(store.log.max_offset, progress, began_ms=began_ms, late_ms_max=late_ms_max)
        if self.manager is not None:
            self.manager.start()

    def shutdown(self) -> None:
        if self.manager is not None:
            self.manager.shutdown()

    def cursors(self, store: MessageStore, disk: Disk) -> Iterator[Cursor]:
        """Yield the cursors of delivery and of persisted progress."""
        plan = self._plan
        if plan.delay.chance:
            yield from quiescence.delivery_cursors(store, plan, disk)
        manager = self.manager
        if manager is None:
            return
        for group, offset in self._ledger.commits.at.items():
            name, topic, queue_id = group
            yield Cursor(f"{name} in {topic}/{queue_id}", manager.name, manager.query_offset(*group), offset, 0)
        yield from quiescence.consumer_progress_cursors(store, plan, disk, manager, CONSUMER_OFFSET_INTERVAL_MS)

    def last_error_text(self) -> str:
        if self.manager is None or self.manager.last_error is None:
            return ""
        return f"consumer offsets: last error: {error_text(self.manager.last_error)}"
