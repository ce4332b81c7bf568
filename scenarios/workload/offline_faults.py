"""Offline faults: change the files of a store between a stop and the next start."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from ...faults.disk.disk import Disk
from ...faults.disk.image import DamagedRange, FileImage, Image, decay_image
from ...faults.kinds import FaultKind
from ...sim.choices import Stream
from ...sim.kernel import Kernel
from ...store.config import StoreConfig
from ...store.directories import directory_of
from ...store.errors import CorruptFileError
from ...store.formats.consume_queue import ENTRY_BYTES, decode_entry, is_valid
from ...store.formats.scan import SECTOR_BYTES
from ...store.log.segment_queue import file_name_of
from ...store.message_store import MessageStore
from ..claims.machine import world_of
from ..claims.plan import Life, LifeEnding, Plan
from ..oracle import guarantees
from ..oracle.judge import Judge
from ..oracle.ledger import Ledger
from ..oracle.reader import read_records
from . import damage

_TIME_LIMIT_NS = 900 * 1_000_000_000
_SPARED_SECTORS_MAX = (5, 40)
"""The maximum number of sectors kept after the lost one: a few, or enough to reach any sector of the last segment."""
_HOUR_MS = 3_600_000
_QUEUES_KEPT_CHANCE = 0.3
_FIRST_FILES_KEPT_CHANCE = 0.7
_OLDEST_LOST_CHANCE = 0.3
_ENTRY_HEAD_BYTES = 12
_FOREIGN_CONTENT = b"not the store's"
_LATEST_INDEX_NAME = "99991231235959999"
"""The greatest possible name of an index file. The file with this name is too short, so a load must remove it."""


@dataclass(slots=True)
class OfflineFaults:
    """The faults between stops and starts of one run. `injected` counts these faults."""

    plan: Plan
    config: StoreConfig
    kernel: Kernel
    ledger: Ledger
    judge: Judge
    streams: Callable[[str], Stream]
    injected: Counter[str] = field(default_factory=Counter, init=False)
    _odd_starts: int = field(default=0, init=False)
    _foreign_files: set[str] = field(default_factory=set, init=False)
    """Foreign files, which must stay."""
    next_start_is_full: bool = field(default=False, init=False)
    segments_are_old: bool = field(default=False, init=False)
    """Whether file times are so old that retention may remove segments after any start."""

    def note_damage(self, damage: Iterable[DamagedRange]) -> None:
        """Damaged foreign files may change from now on."""
        self._foreign_files -= {struck.path for struck in damage}

    def after_stop(self, life: Life, image: Image, store: MessageStore) -> Image:
        self._check_foreign_files(image)
        if self.config.abort_path in image.files:
            self.judge.report_and_stop(
                "START", "the abort file is back after a clean stop", self.config.abort_path, "none", "there"
            )
        if not damage.is_complete(image, store):
            return image
        if life.ending == LifeEnding.STOP_AND_DAMAGE:
            return self._zero_tail_sector(image, store)
        if life.ending == LifeEnding.STOP_AND_DAMAGED_RECORD:
            return self._damage_record(image, store)
        if life.ending == LifeEnding.STOP_AND_FLIPPED_NUMBER:
            return self._flip_queue_offset(image, store)
        if life.ending == LifeEnding.STOP_AND_DAMAGED_PROGRESS:
            stream = self.streams("damaged progress")
            if self.plan.delay.chance and stream.chance(0.5, "of delivery"):
                return self._damage_delivery_progress(image, stream)
            return self._damage_progress(image, stream)
        if life.ending == LifeEnding.STOP_AND_FULL_DISK:
            return self._lose_queues_on_full_disk(image, store)
        if life.ending == LifeEnding.STOP_AND_MISSING_SEGMENT:
            return self._lose_segment(image, store)
        if life.ending == LifeEnding.STOP_AND_ODD_FILE:
            self._try_refused_file(image, store)
        if life.ending == LifeEnding.STOP_AND_LARGER_QUEUE_FILES:
            self._raise_queue_file_size(image, store)
        if life.ending == LifeEnding.STOP_AND_STRAYS:
            return self._add_foreign_and_damaged_files(image, store)
        return image

    def _lose_queues_on_full_disk(self, image: Image, store: MessageStore) -> Image:
        """Remove queues and index, and fill the disk. Some queues may keep their first files."""
        self.next_start_is_full = True
        self._record_restarted_queues()
        stream, kept = self.streams("full disk"), set[str]()
        if stream.chance(_FIRST_FILES_KEPT_CHANCE, "first files kept"):
            first = [queue.queue.segments[0].file.path for queue in store.queues.all_queues() if queue.queue.segments]
            kept = {path for path in first if path in image.files and stream.chance(0.7, f"{path} kept")}
        return damage.without_derived_files(image, self.config, kept)

    def after_crash(self, life: Life, image: Image, store: MessageStore | None) -> Image:
        """store: None if the crash was before the load."""
        if life.ending == LifeEnding.CRASH_ON_OLD_BLOCKS and store is not None:
            return self._expose_old_blocks(image, store)
        return image

    def _add_foreign_and_damaged_files(self, image: Image, store: MessageStore) -> Image:
        """Add foreign files and segments, truncate a queue file, damage the checkpoint, each with some probability.

        If a record has a wrong queueOffset, its queue is not truncated, because only the queue has the right offset.
        """
        stream = self.streams("strays")
        for path in damage.foreign_paths(image, store, stream):
            if stream.chance(0.5, f"stray {path}"):
                image = damage.image_with_file(image, path, _FOREIGN_CONTENT)
                self._foreign_files.add(path)
                self.injected["stray file"] += 1
        if store.index is not None and stream.chance(0.5, "stray index file"):
            image = damage.image_with_file(image, f"{self.config.index_directory}/{_LATEST_INDEX_NAME}", b"")
            self.injected["stray file"] += 1
        queue_files = damage.files_of_queues(image, store)
        needed = damage.queues_with_entries_for(image, queue_files, self.ledger.known_damage.wrong_queue_offset_records)
        can_be_cut = [path for path in queue_files if directory_of(path) not in needed]
        if can_be_cut and stream.chance(0.5, "queue file cut"):
            path = stream.choice(can_be_cut, "cut queue file")
            content = image.files[path].content
            # A file shorter than an entry's offset and size counts as never completed.
            left_bytes = stream.randint(_ENTRY_HEAD_BYTES, len(content) - 1, "bytes left of a queue file")
            image = damage.image_with_file(image, path, content[:left_bytes])
            if path == max(one for one in queue_files if one.startswith(path.rpartition("/")[0] + "/")):
                self._record_lost_offset(path, content, store)
            self.injected["wrong file size"] += 1
        path = self.config.checkpoint_path
        before = image.files[path].content
        after = damage.damaged_checkpoint(before, stream)
        if after != before:
            image = damage.image_with_file(image, path, after)
            self.injected["damaged checkpoint"] += 1
        if store.log.segments and stream.chance(0.5, "segments made ahead"):
            image = damage.add_segments_made_ahead(image, store, stream)
            self.injected["segment after a gap"] += 1
        several = len(self.config.writable_commit_log_directories) > 1
        if several and store.log.segments and stream.chance(0.5, "a segment made twice"):
            image = damage.add_segment_made_twice(image, store, stream)
            self.injected["duplicate segment"] += 1
        return image

    def _raise_queue_file_size(self, image: Image, store: MessageStore) -> None:
        """Double `mappedFileSizeConsumeQueue`, if every existing file begins at a multiple of the new size."""
        size_bytes = 2 * self.config.mapped_file_size_consume_queue
        paths = damage.files_of_queues(image, store)
        if paths and all(int(file_name_of(path)) % size_bytes == 0 for path in paths):
            self.config = replace(self.config, mapped_file_size_consume_queue=size_bytes)
            self.injected["wrong file size"] += 1

    def _record_lost_offset(self, path: str, content: bytes, store: MessageStore) -> None:
        """Record that a queue lost its next offset with its last file, because the log has no message of that file."""
        entries = [decode_entry(content, at) for at in range(0, len(content), ENTRY_BYTES)]
        if not any(is_valid(entry) and entry.physical_offset >= store.log.min_offset for entry in entries):
            _, topic, queue_id, _ = path.rsplit("/", 3)
            self.ledger.ended_queues.add((topic, int(queue_id)))

    def _check_foreign_files(self, image: Image) -> None:
        if self.plan.rot.is_possible:
            return  # the disk changes foreign files, too
        for path in sorted(self._foreign_files):
            file = image.files.get(path)
            if file is None or file.content != _FOREIGN_CONTENT:
                found = "gone" if file is None else "changed"
                self.judge.report_and_stop("START", f"a foreign file has changed: {path}", "stray file", "kept", found)

    def decay(self, name: str, image: Image) -> tuple[Image, list[DamagedRange]]:
        """Age an image; return it and its unreadable sectors. name: the name of the next disk."""
        if not self.plan.rot.is_possible:
            return image, []
        rotten, damaged = decay_image(image, self.streams(f"{name}/rot"), self.plan.rot, self.injected)
        self.judge.note_damage(self.config, damaged)
        return rotten, [one for one in damaged if one.kind == FaultKind.LATENT_SECTOR_ERROR]

    def _expose_old_blocks(self, image: Image, store: MessageStore) -> Image:
        exposed = damage.expose_old_blocks(image, store)
        if exposed is None:
            return image
        self.injected["stale blocks"] += 1
        return exposed

    def _zero_tail_sector(self, image: Image, store: MessageStore) -> Image:
        stream = self.streams("lost tail")
        spared = stream.randbelow(stream.choice(_SPARED_SECTORS_MAX, "most behind") + 1, "sectors behind the lost one")
        damaged = damage.zero_late_sector(image, store, spared)
        if damaged is None:
            return image
        self.injected["lost sector"] += 1
        guarantees.note_damage(self.ledger, damaged.log_offset)
        guarantees.note_damaged_copies(self.ledger, store.schedule.offsets)
        return damaged.image

    def _damage_record(self, image: Image, store: MessageStore) -> Image:
        """Flip a bit of a record that recovery does not read after a clean stop, and sometimes remove the queues.

        The queues stay if a record has a wrong queueOffset, because only they have the right one.
        """
        stream = self.streams("damaged record")
        damaged = damage.damage_record(image, store, self.ledger.promised.values(), stream)
        if damaged is None:
            return image
        self.injected["damaged record"] += 1
        is_kept = stream.chance(_QUEUES_KEPT_CHANCE, "queues kept") or bool(
            self.ledger.known_damage.wrong_queue_offset_records
        )
        guarantees.note_unreadable(self.ledger, damaged.flaw, must_lack_entry=not is_kept)
        return damaged.image if is_kept else damage.without_queues(damaged.image, self.config)

    def _flip_queue_offset(self, image: Image, store: MessageStore) -> Image:
        """Flip a bit of a record's queueOffset, once in a run: two wrong offsets can look like a gap."""
        stream = self.streams("flipped number")
        damaged = damage.flip_queue_offset(
            image, store, self.ledger.promised.values(), stream, self.ledger.missing_offsets
        )
        if damaged is None or self.ledger.known_damage.flaws:
            return image
        self.injected["flipped number"] += 1
        self.ledger.known_damage.record_damage(damaged.flaw, unreadable=False)
        return damaged.image

    def _damage_progress(self, image: Image, stream: Stream) -> Image:
        """Zero the first sector of `consumerOffset.json` or empty the file, if a backup must exist.

        RocketMQ does not sync the file before its rename, so a power cut can leave the file empty.
        """
        groups = self.ledger.group_progress
        if groups.backup is None or not groups.is_persisted or groups.path not in image.files:
            return image
        content = image.files[groups.path].content
        lost = min(SECTOR_BYTES, len(content))
        self.injected[FaultKind.ZEROED_SECTOR] += 1
        self.ledger.lose_progress()
        if stream.chance(0.3, "emptied"):
            return damage.image_with_content(image, groups.path, b"")
        return damage.image_with_content(image, groups.path, bytes(lost) + content[lost:])

    def _damage_delivery_progress(self, image: Image, stream: Stream) -> Image:
        """Zero the first sector of `delayOffset.json`. A load restores progress from the log, even without a backup."""
        versions = self.ledger.delay_progress
        if versions.durable is None or not versions.is_persisted or versions.path not in image.files:
            return image
        content = image.files[versions.path].content
        lost = min(SECTOR_BYTES, len(content))
        self.injected[FaultKind.ZEROED_SECTOR] += 1
        self.ledger.unreported_damage = versions.path
        self.ledger.delivery_is_restored = True
        image = damage.image_with_content(image, versions.path, bytes(lost) + content[lost:])
        if versions.backup is None or stream.chance(0.5, "without backup"):
            versions.backup = None
            files = {path: file for path, file in image.files.items() if path != f"{versions.path}.bak"}
            image = Image(files, image.directories)
        versions.lose_durable()
        return image

    def _lose_segment(self, image: Image, store: MessageStore) -> Image:
        """Remove a segment between two others, or all segments up to it; sometimes remove the queues, too.

        The segments before a gap become old enough to expire.
        """
        stream = self.streams("missing segment")
        number = damage.number_of_middle_segment(image, store, stream)
        if number is None:
            return image
        *before, lost = store.log.segments[: number + 1]
        file = image.files[lost.file.path]
        files = {path: one for path, one in image.files.items() if path != lost.file.path}
        if stream.chance(_OLDEST_LOST_CHANCE, "oldest segments"):
            self.ledger.record_expired_before(
                lost.end_offset
            )  # like an operator's removal, with the same promises as for retention
            for segment in before:
                files.pop(segment.file.path, None)
        else:
            readings = read_records(file.content, lost.wrote.get(), file=lost.file.path, base_offset=lost.base_offset)
            guarantees.note_missing(self.ledger, lost.base_offset, lost.end_offset, [record for record, _ in readings])
            old_ms = file.mtime_ms - (self.config.file_reserved_time_hours + 1) * _HOUR_MS
            for segment in before:
                files[segment.file.path] = FileImage(files[segment.file.path].content, old_ms)
            self.segments_are_old = True
        self.injected[FaultKind.MISSING_SEGMENT] += 1
        image = Image(files, image.directories)
        if stream.chance(_QUEUES_KEPT_CHANCE, "queues kept"):
            return image
        self._record_restarted_queues()
        return damage.without_queues(image, self.config)

    def _record_restarted_queues(self) -> None:
        """Record that queues without files restart at 0, because the log has no record of them."""
        promised = self.ledger.promised.values()
        here = {put.place for put in promised if put.is_queued and not self.ledger.may_be_removed(put)}
        self.ledger.ended_queues |= {put.place for put in self.ledger.puts} - here

    def _try_refused_file(self, image: Image, store: MessageStore) -> None:
        """Start a store with a file of a wrong size, kind or name. The load must fail and not change the log."""
        odd = damage.add_refused_file(image, store, self.streams("refused file"))
        if odd is None:
            return
        self._odd_starts += 1
        self.injected["wrong file size"] += 1
        name = f"odd-{self._odd_starts}"
        disk = Disk(self.kernel, self.streams(name), image=odd)
        machine = self.kernel.create_machine(name)

        def body() -> None:
            other = MessageStore(world_of(machine, disk, core=store.world.core), self.config)
            try:
                other.load()
            except CorruptFileError:
                return
            self.judge.judge_recovery(other, disk)
            self.judge.report_and_stop(
                "START", "a file of a wrong size, kind or name was accepted", "load", "refused", "opened"
            )

        with self.judge.judged_errors():
            self.kernel.run(machine, body, time_limit_ns=_TIME_LIMIT_NS)
        if damage.log_files(disk.image_after_power_off(), store) != damage.log_files(odd, store):
            summary = "a refused start changed the log"
            self.judge.report_and_stop("START", summary, "files", "as before", "others")
