"""Unsynced effects: follows each effect from its step to the sync that makes it durable.

An effect ends early if a later step removes its result: its name, its directory, or the last name of its file. If a
power cut undoes the later step, the report attributes the loss to this step.

The simulated disk decides which effects a power cut may lose. A query of all effects at each promise would cost
promises times effects. So each query is limited to effects that a sync since the last promise may have made durable:
those of the synced file or directory, and the oldest in the journal.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from ...sim.interruption import current_interruption
from ..crashes.profiles import CrashProfile
from ..disk.changes import (
    Change,
    Extend,
    Link,
    MakeDirectory,
    RemoveDirectory,
    Rename,
    RenameDirectory,
    RenameExchange,
    Unlink,
    parent_of,
)
from ..disk.image import Image
from . import record as steps
from .possible_losses import APPEND, HIDDEN, Effect, PossibleLosses
from .record import ProgramRecord, Step
from .replay import Replayer
from .story import file_names, named

_WITH_DATA = (steps.WRITE, steps.STORE, steps.ZERO_RANGE)
T = TypeVar("T")


class UnsyncedEffects:
    """Replays a record once, and finds the spans of its effects for each kind of power cut."""

    def __init__(self, record: ProgramRecord, start: Image, profiles: Iterable[CrashProfile]) -> None:
        assert not record.injected, "expected a run without injected faults"
        self._record = record
        self._replayer = Replayer(record, start)
        self._disk = self._replayer.disk
        self._names = file_names(record)
        self.losses = {profile.name: PossibleLosses(profile, self._disk) for profile in profiles}
        self.promises = 0
        self._of_file: dict[int, list[Effect]] = defaultdict(list)
        """Open effects that a sync of the file may make durable."""
        self._linked: dict[int, list[tuple[int, str]]] = defaultdict(list)
        """Operations that gave a file a name, each with the name's directory. A sync of the file may log them (btrfs).
        """
        self._made: dict[str, Effect] = {}  # open creations of directories, by original path
        self._touched_files: set[int] = set()
        """Files with a sync, or another step that may make effects durable, since the last promise."""
        self._synced_directories: set[str] = set()
        self._is_all_synced = False
        # The following have current paths as keys, which a rename of a directory changes.
        self._files = {path: file for file, path in enumerate(start.files)}
        # The creation of each name, not a rename: after a lost rename the file may stay at its old path.
        self._makers: dict[str, Effect] = {}
        self._in_directory: dict[str, list[Effect]] = defaultdict(list)  # open effects, as in `_of_file`
        self._links = Counter(self._files.values())

    @property
    def operations(self) -> int:
        return self._disk.operations

    def replay_record(self) -> None:
        """Replay the record. RecordError: a step is impossible. EndedEarlyError: the replay was interrupted."""
        done = 0
        for point in self._replayer.points():
            current_interruption().check()
            if point.acknowledged > self.promises:
                self._close_durable_effects()
                self.promises = point.acknowledged
                for losses in self.losses.values():
                    losses.promises = point.acknowledged
            for number in range(done, point.operations):
                self._replicate_from(number, point.step, self._record.steps[point.step])
            done = point.operations
        self._close_durable_effects()
        for losses in self.losses.values():
            losses.finish()

    def _replicate_from(self, number: int, at: int, step: Step) -> None:
        if step.kind == steps.SYNC:
            self._touched_files.add(step.file)
        elif step.kind == steps.SYNC_DIRECTORY:
            self._synced_directories.add(step.path)
        elif step.kind == steps.SYNC_ALL:
            self._is_all_synced = True
        else:
            if step.kind in (steps.TRUNCATE, steps.ZERO_RANGE):  # these steps may remove unsynced data
                self._touched_files.add(step.file)
            change = next(iter(self._disk.changes_by([number])), None)
            effect = self._make_effect(number, at, step, change)
            if change is not None:
                self._note_names(change, effect)
            self._add_effect(effect, change, has_data=step.kind in _WITH_DATA)

    def _make_effect(self, number: int, at: int, step: Step, change: Change | None) -> Effect:
        is_of_file = step.file < 0 and step.kind in (steps.LINK, steps.RENAME)
        file = self._files.get(step.path, -1) if is_of_file else step.file
        kind = step.kind if change is None else change.kind
        name = self._names.get(file, f"file {file}") if change is None else _effect_name(change, step)
        start = end = 0
        if step.kind in _WITH_DATA:
            start, end = step.at, step.at + max(len(step.data), step.size)
            # A long write is several operations, of which perhaps only the last ones extend the file.
            grows = step.kind == steps.WRITE and end > self._replayer.descriptor_of(file).size_bytes
            kind = step.kind if change is None and not grows else APPEND
        if change is None or change.directory is None:
            name = self._names.get(file, f"file {file}")
            missing = f"fsync of {name}"
        else:
            directory = named(change.directory)
            missing = f"fsync of the directory {directory if directory == '.' else f'{directory}/'}"
        return Effect(number, at, kind, name, missing, file, start, end, self.promises)

    def _add_effect(self, effect: Effect, change: Change | None, *, has_data: bool) -> None:
        if effect.file >= 0:
            self._of_file[effect.file].append(effect)
            if not self._links[effect.file]:
                effect.promises_before = HIDDEN
        if change is not None and change.directory is not None:
            self._in_directory[change.directory].append(effect)
        for losses in self.losses.values():
            losses.add(effect, change, has_data=has_data)

    # -- names -------------------------------------------------------------------------------------

    def _note_names(self, change: Change, effect: Effect) -> None:
        """Update the names after a change, and drop the effects whose results it removed."""
        match change:
            case Link():
                self._record_link(change.path, effect)
            case Unlink():
                self._record_unlink(change.path)
            case Rename():
                self._record_unlink(change.target)
                self._drop_creation(change.path)
                if effect.file >= 0:  # not a symbolic link
                    self._rename_file(change, effect)
            case RenameDirectory():
                self._record_unlink(change.target)
                self._drop_effects_in(change.target)
                self._drop_creation(change.path)
                self._apply_renaming(change.after)
            case RenameExchange():
                self._apply_renaming(change.after)
            case MakeDirectory():
                self._makers[change.path] = self._made[change.path] = effect
            case RemoveDirectory():
                self._record_unlink(change.path)
                self._drop_effects_in(change.path)

    def _rename_file(self, change: Rename, effect: Effect) -> None:
        self._files[change.target] = self._files.pop(change.path)
        self._linked[effect.file].append((effect.number, change.directory))
        # ext4 allocates the blocks of a file that replaces another at once, so its lengths survive in order.
        for grown in self._disk.changes_by(one.number for one in self._of_file[effect.file]):
            if isinstance(grown, Extend) and grown.is_allocated:
                self._touched_files.add(effect.file)
                for losses in self.losses.values():
                    losses.record_in_journal(grown)

    def _record_link(self, path: str, effect: Effect) -> None:
        self._makers[path] = effect
        file = effect.file
        if file < 0:  # a symbolic link
            return
        if not self._links[file]:
            for hidden in self._of_file[file]:
                hidden.promises_before = self.promises
        self._files[path] = file
        self._links[file] += 1
        self._linked[file].append((effect.number, parent_of(path)))

    def _record_unlink(self, path: str) -> None:
        self._drop_creation(path)
        file = self._files.pop(path, None)
        if file is not None:
            self._links[file] -= 1
            if not self._links[file]:
                self._drop_effects(one for one in self._of_file.get(file, ()) if one.kind != steps.RENAME)

    def _drop_creation(self, path: str) -> None:
        """Drop the creation of a removed or renamed name. A surviving rename gives the file its new name anyway."""
        maker = self._makers.pop(path, None)
        if maker is not None:
            self._drop_effects([maker])

    def _drop_effects_in(self, directory: str) -> None:
        """Drop the unlinks and renames inside a removed directory."""
        if directory in self._synced_directories:
            self._close_durable_effects()  # now, because the directory no longer leads to its effects
        for effect in self._in_directory.pop(directory, ()):
            step = self._record.steps[effect.step]
            is_inside = step.kind == steps.RENAME and parent_of(step.path) == parent_of(step.target)
            if is_inside or step.kind in (steps.UNLINK, steps.REMOVE_DIRECTORY):
                self._drop_effects([effect])

    def _drop_effects(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            for losses in self.losses.values():
                losses.close_removed(effect)

    def _apply_renaming(self, where: Callable[[str], str]) -> None:
        self._files = {where(path): file for path, file in self._files.items()}
        self._makers = {where(path): effect for path, effect in self._makers.items()}
        self._in_directory = defaultdict(list, {where(path): found for path, found in self._in_directory.items()})
        self._synced_directories = {where(path) for path in self._synced_directories}

    # -- syncs -------------------------------------------------------------------------------------

    def _close_durable_effects(self) -> None:
        """Close the effects that syncs since the last promise made durable."""
        if self._is_all_synced:
            self._touched_files.update(self._of_file)
            self._synced_directories.update(self._in_directory)
        if not (self._touched_files or self._synced_directories):
            return
        files, directories = sorted(self._touched_files), sorted(self._synced_directories)
        effects = {effect.number: effect for file in files for effect in self._of_file.get(file, ())}
        for directory in directories:
            effects |= {effect.number: effect for effect in self._in_directory.get(directory, ())}
        linked = [one for file in files for one in self._linked.get(file, ())]
        effects |= {made.number: made for _, directory in linked for made in self._creations_above(directory)}
        changes = self._disk.changes_by(sorted({*effects, *(number for number, _ in linked)}))
        for losses in self.losses.values():
            losses.close_durable(effects.values(), changes)
            losses.close_committed_changes()
        for file in files:
            self._close_durable_data(file)
            _filter_effects(self._is_open, self._of_file, file)
        for directory in directories:
            _filter_effects(self._is_open, self._in_directory, directory)
        self._touched_files, self._synced_directories, self._is_all_synced = set(), set(), False

    def _close_durable_data(self, file: int) -> None:
        unsynced = self._replayer.descriptor_of(file).unsynced_writes
        for effect in self._of_file.get(file, ()):
            if effect.number not in unsynced:
                for losses in self.losses.values():
                    losses.close_data(effect)

    def _creations_above(self, directory: str) -> Iterator[Effect]:
        """Yield the open creations of a directory and its parents."""
        while directory != "/":
            made = self._made.get(directory)
            if made is not None and self._is_open(made):
                yield made
            directory = parent_of(directory)

    def _is_open(self, effect: Effect) -> bool:
        return any(losses.is_open(effect) for losses in self.losses.values())


def _effect_name(change: Change, step: Step) -> str:
    if step.kind in (steps.RENAME, steps.LINK) and step.path:
        return f"{named(step.path)} -> {named(step.target)}"
    if step.kind == steps.EXCHANGE:
        return f"{named(step.path)} and {named(step.target)}"
    return named(change.path)


def _filter_effects(is_kept: Callable[[Effect], bool], found: dict[T, list[Effect]], key: T) -> None:
    """Filter the effects of one entry, and remove an empty entry."""
    kept = [effect for effect in found.get(key, ()) if is_kept(effect)]
    if kept:
        found[key] = kept
    else:
        found.pop(key, None)
