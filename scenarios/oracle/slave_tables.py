"""Slave tables: the tables that a slave copies from its master, apart from the log (REP, META).

    successful copy   every table in memory and in its file is the master's at some time of the copy
    failed copy       every table in memory is unchanged, or the master's at some time of the copy
    restart           a slave finds the durable version of each file, or a later one of an unfinished write, and has
                      its topics, groups and consumer offsets in memory, also those beyond the ends of its own queues
    source            every address from which a slave copies is that of a present or former master of its name

The tables are topics, groups, consumer offsets and delay offsets. A version of topics or groups names their content.
Source: RocketMQ SlaveSynchronize.
"""

from collections.abc import Collection, Iterator, Mapping, Set
from typing import Any, NamedTuple

from ...store.formats.side_json import decode_side_json
from .evidence import Violation, record_tried
from .invariants.side_files import check_version
from .ledger import Versions

Place = tuple[str, int]
"""Topic and group as in consumerOffset.json, and queue id. The groups of light queues have queue id 0."""
Version = tuple[int, int]
"""Timestamp and counter of a table."""
_TABLES = {"topics": "topicConfigTable", "groups": "subscriptionGroupTable"}
_OFFSETS, _LIGHT_OFFSETS = "offsetTable", "lmqOffsetTable"


class VersionedEntries(NamedTuple):
    """The topics or groups of one broker at one time."""

    version: Version
    entries: Mapping[str, Any]
    """Name -> settings, each with its `json_members`."""


class Tables(NamedTuple):
    """All tables of one broker at one time."""

    topics: VersionedEntries
    groups: VersionedEntries
    offsets: Mapping[Place, int]
    delays: Mapping[int, int]
    """Delay level -> offset."""


class CopyWindow(NamedTuple):
    """The master's tables at the begin and the end of a copy."""

    before: Tables
    after: Tables
    committed: Mapping[Place, Set[int | None]]
    """The offsets that clients committed to the master or the slave in between. None: an offset was removed."""


class SlaveFiles:
    """The files of one slave over all its starts."""

    def __init__(self, directory: str, *, light_queues: bool = False) -> None:
        names = "topics", "subscriptionGroup", "lmqConsumerOffset" if light_queues else "consumerOffset", "delayOffset"
        topics, groups, offsets, delays = (Versions(f"{directory}/{name}.json") for name in names)
        self.topics, self.groups, self.offsets, self.delays = topics, groups, offsets, delays
        self.all = topics, groups, offsets, delays

    @property
    def durable_groups(self) -> Set[str]:
        """The groups that the slave has after its next start."""
        return _members_of(self.groups.durable, self.groups.path, _TABLES["groups"]).keys()

    def check_loaded(self, who: str, found: Tables | None) -> Iterator[Violation]:
        """META: yield each file that a start did not find as it was durable.

        found: the tables of a slave after its load, see `check_kept`; None if it has become a master.
        """
        for versions in self.all:
            yield from check_version(versions)
        if found is not None:
            yield from self.check_kept(who, found)
        for versions in self.all:
            versions.mark_loaded_durable()

    def check_kept(self, who: str, found: Tables) -> Iterator[Violation]:
        """REP: yield each table in memory that a load has changed. Only a master adapts offsets to its queues."""
        record_tried("REP")
        offsets = _offsets_in(self.offsets.loaded, self.offsets.path)
        if found.offsets != offsets:
            yield _changed(f"the progress of groups at {who}", str(offsets), str(found.offsets))
        for name, versions, own in (("topics", self.topics, found.topics), ("groups", self.groups, found.groups)):
            loaded = _members_of(versions.loaded, versions.path, _TABLES[name])
            if own.entries.keys() != loaded.keys():
                yield _changed(f"{name} of {who}", _shown(loaded), _shown(own.entries))

    def check_written(self, who: str, found: Tables, window: CopyWindow) -> Iterator[Violation]:
        """REP: after a successful copy, yield each table that is not in its file. found: the tables in memory.

        A file is not checked after a failed or unfinished write.
        """
        for name, versions, own in (("topics", self.topics, found.topics), ("groups", self.groups, found.groups)):
            wanted = {entry: settings.json_members for entry, settings in own.entries.items()}
            if not versions.unfinished and _members_of(versions.durable, versions.path, _TABLES[name]) != wanted:
                yield _violation(f"the file with the {name} of {who}", str(wanted), _text_of(versions))
        if not self.offsets.unfinished:
            durable = _offsets_in(self.offsets.durable, self.offsets.path)
            yield from _check_offsets(f"the file of {who}", durable, window)
        if not self.delays.unfinished:
            delays = _members_of(self.delays.durable, self.delays.path, _OFFSETS)
            levels = {int(level): offset for level, offset in delays.items()}
            yield from _check_delays(f"the file of {who}", levels, window)


def _members_of(raw: bytes | None, path: str, table: str) -> Mapping[str, Any]:
    if raw is None:
        return {}
    members: Mapping[str, Any] = decode_side_json(raw, file=path).get(table, {})
    return members


def _offsets_in(raw: bytes | None, path: str) -> dict[Place, int]:
    tables, light = _members_of(raw, path, _OFFSETS), _members_of(raw, path, _LIGHT_OFFSETS)
    offsets = {(key, int(at)): offset for key, table in tables.items() for at, offset in table.items()}
    return offsets | {(key, 0): offset for key, offset in light.items()}


def _text_of(versions: Versions) -> str:
    return "none" if versions.durable is None else versions.durable.decode(errors="replace")


def check_copy(who: str, found: Tables, window: CopyWindow, earlier: Tables | None = None) -> Iterator[Violation]:
    """REP: yield each table of a slave that is not its master's after a copy.

    earlier: the slave's tables before a copy that failed; None if the copy succeeded.
    """
    record_tried("REP")
    for name in ("topics", "groups"):
        own, first, last = (getattr(tables, name) for tables in (found, window.before, window.after))
        is_unchanged = earlier is not None and _extends(own, getattr(earlier, name))
        if not is_unchanged and not _is_between(own, first, last):
            expected, shown = (f"{each.version}: {_shown(each.entries)}" for each in (last, own))
            yield _violation(f"{name} of {who}", expected, shown)
    yield from _check_offsets(who, found.offsets, window, earlier)
    if earlier is None or found.delays != earlier.delays:
        yield from _check_delays(who, found.delays, window)


def check_followed(who: str, kind: str, address: str, masters: Collection[str], fixed: str) -> Iterator[Violation]:
    """REP: yield an address that a slave begins to follow, but that belongs to no master, or to none of its settings.

    kind: the copied data, tables or log. masters: the hosts of the present and former masters of the slave's name.
    fixed: the master's address in the slave's settings, if any.
    """
    record_tried("REP")
    if fixed and address != fixed:
        summary = f"{who} copies {kind} from another broker than its settings name"
        yield Violation("REP", summary, "", -1, "address", fixed, address)
    if address.rpartition(":")[0] not in masters:
        summary = f"{who} copies {kind} from a broker that never was its master"
        yield Violation("REP", summary, "", -1, "address", ", ".join(sorted(masters)), address)


def check_follows(who: str, kind: str, named: str, follows: str) -> Iterator[Violation]:
    """REP: yield a slave that follows no master although a name server has named one.

    named, follows: addresses, or empty.
    """
    record_tried("REP")
    if named and not follows:
        summary = f"{who} copies {kind} from no broker, although a name server has named its master"
        yield Violation("REP", summary, "", -1, "address", named, "none")


def _is_between(own: VersionedEntries, first: VersionedEntries, last: VersionedEntries) -> bool:
    """Return whether a table is one that the master had. Clients of the slave may have added entries since."""
    for known in (first, last):
        if own.version == known.version:
            return own.entries == known.entries
    if first.version[1] < own.version[1] < last.version[1]:
        return True
    kept = {name: entry for name, entry in first.entries.items() if last.entries.get(name) == entry}
    return _extends(own, VersionedEntries(first.version, kept))


def _extends(own: VersionedEntries, base: VersionedEntries) -> bool:
    """Return whether a table is equal to another, or has additional entries. Each change increments the counter."""
    return own == base or (own.version[1] > base.version[1] and base.entries.items() < own.entries.items())


def _check_offsets(
    who: str, found: Mapping[Place, int], window: CopyWindow, earlier: Tables | None = None
) -> Iterator[Violation]:
    before, after = window.before.offsets, window.after.offsets
    for place in sorted({*found, *before, *after}):
        allowed = {before.get(place), after.get(place), *window.committed.get(place, ())}
        allowed |= set() if earlier is None else {earlier.offsets.get(place)}
        if found.get(place) not in allowed:
            summary = f"the progress of {place[0]}/{place[1]} at {who}"
            yield _violation(summary, str(after.get(place)), str(found.get(place)))


def _check_delays(who: str, found: Mapping[int, int], window: CopyWindow) -> Iterator[Violation]:
    for level in sorted({*found, *window.after.delays}):
        low, high = (tables.delays.get(level, 0) for tables in (window.before, window.after))
        if not low <= found.get(level, 0) <= high:
            summary = f"the progress of delay level {level} at {who}"
            yield _violation(summary, f"{low} to {high}", str(found.get(level)))


def _shown(entries: Mapping[str, object]) -> str:
    return ", ".join(sorted(entries))


def _changed(summary: str, expected: str, found: str) -> Violation:
    return Violation("REP", f"{summary} is not that of its file after a start", "", -1, "table", expected, found)


def _violation(summary: str, expected: str, found: str) -> Violation:
    return Violation("REP", f"{summary} is not its master's after a copy", "", -1, "table", expected, found)
