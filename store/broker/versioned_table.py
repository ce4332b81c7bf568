"""Versioned table: settings by name, in a side file of its own, with a version that counts its changes.

    {"dataVersion": {"counter": 3, "timestamp": 1795309986689}, "<table>": {"<name>": {...}, ...}}

Readers take no lock: a change makes a new table, has it on the disk, and only then in use.
Source: RocketMQ ConfigManager, DataVersion.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from operator import attrgetter
from typing import Any, Generic, NamedTuple, Self, TypeVar

from ..formats.remoting.json_body import Members
from ..formats.side_json import TableEncoder, decode_side_json, encode_side_json
from ..side_file import SideFile
from ..world import World

_ENTRY_DEPTH = 2
"""How deep in the file an entry's members are."""


class DataVersion(NamedTuple):
    """Which state of a table this is."""

    timestamp_ms: int = 0
    counter: int = 0

    @property
    def members(self) -> dict[str, int]:
        """Return it as an object."""
        return {"counter": self.counter, "timestamp": self.timestamp_ms}

    @classmethod
    def of(cls, members: Members) -> "DataVersion":
        """Read it from an object."""
        return cls(members.integer("timestamp", 0), members.integer("counter", 0))


def member(name: str, default: Any, *, bits: int = 64) -> Any:
    """Return an entry's field, by its name in the file; bits: of an integer."""
    return field(default=default, metadata={"name": name, "bits": bits})


@dataclass(frozen=True, slots=True)
class TableEntry:
    """One entry: its name, then members that each have a default."""

    @property
    def members(self) -> dict[str, Any]:
        """Return it as an object, members in order of their names."""
        return dict(sorted((one.metadata["name"], getattr(self, one.name)) for one in fields(self)))

    @classmethod
    def of(cls, name: str, members: Members) -> Self:
        """Read it from an object; its name is this unless the object says another."""
        values: list[str | int | bool] = []
        for one in fields(cls):
            key = one.metadata["name"]
            default: Any = name if one.default is MISSING else one.default
            if one.type is bool:
                values.append(members.boolean(key, default))
            elif one.type is int:
                values.append(members.integer(key, default, bits=one.metadata["bits"]))
            else:
                values.append(members.text(key, default))
        return cls(*values)


Entry = TypeVar("Entry", bound=TableEntry)


class VersionedTable(Generic[Entry]):
    """One table and its file. Any task may call it."""

    def __init__(self, world: World, path: str, name: str, entry: type[Entry]) -> None:
        """Begin empty. name is the table's in the file."""
        self.file = SideFile(world.files, path)
        self.on_changed: Callable[[], None] | None = None
        """Called after each change, in the task that has made it, which it must not keep waiting."""
        self._clock = world.clock
        self._name = name
        self._entry = entry
        self._encoder = TableEncoder[Entry](attrgetter("members"), _ENTRY_DEPTH)
        """Belongs to whoever holds the lock."""
        self._state: tuple[DataVersion, dict[str, Entry]] = DataVersion(world.clock.now_ms()), {}
        """Version and table, replaced as one: who copies the table must not have it under the version of another."""
        self._lock = world.tasks.lock(name)

    def load(self) -> None:
        """Read what was persisted. Raises CorruptFileError if no version of it can be read."""
        loaded = self.file.load(self._parse)
        if loaded is not None:
            self._state = loaded

    def _parse(self, raw: bytes, file: str) -> tuple[DataVersion, dict[str, Entry]]:
        return self._of_members(Members(decode_side_json(raw, file=file), "", file))

    def _of_members(self, members: Members) -> tuple[DataVersion, dict[str, Entry]]:
        table = {name: self._entry.of(name, entry) for name, entry in members.inner(self._name).table()}
        return DataVersion.of(members.inner("dataVersion")), table

    # -- reading -----------------------------------------------------------------------------------

    def get(self, name: str) -> Entry | None:
        """Return an entry, None if there is none."""
        return self._state[1].get(name)

    @property
    def table(self) -> Mapping[str, Entry]:
        """Return all entries as they are now; what changes later is not in it."""
        return self._state[1]

    @property
    def version(self) -> DataVersion:
        """Return which state of the table this is."""
        return self._state[0]

    @property
    def members(self) -> dict[str, Any]:
        """Return version and table as an object, entries in order of their names."""
        version, table = self._state
        entries = {name: entry.members for name, entry in sorted(table.items())}
        return {"dataVersion": version.members, self._name: entries}

    # -- changing ----------------------------------------------------------------------------------

    def put(self, name: str, entry: Entry) -> None:
        """Make or replace an entry, durably. Raises OSError, and nothing has changed, if the disk fails."""
        self.change(lambda table: {**table, name: entry})

    def get_or_put(self, name: str, make: Callable[[], Entry]) -> Entry:
        """Return an entry, made if there is none. Raises OSError likewise."""
        found = self._state[1].get(name)
        if found is None:
            found = self.change(lambda table: table if name in table else {**table, name: make()})[name]
        return found

    def add_missing(self, entries: Iterable[tuple[str, Entry]]) -> None:
        """Make those of some entries that are not there."""
        made = dict(entries)
        self.change(lambda table: table if made.keys() <= table.keys() else {**made, **table})

    def remove(self, name: str) -> None:
        """Remove an entry, if it is there. Raises OSError likewise."""
        self.change(lambda table: {key: value for key, value in table.items() if key != name})

    def change(self, changed: Callable[[dict[str, Entry]], dict[str, Entry]]) -> Mapping[str, Entry]:
        """Put in place of the table what is made of it, and return that. Raises OSError likewise."""
        with self._lock:
            version, before = self._state
            table = changed(before)
            has_changed = table != before
            if has_changed:
                self._store(DataVersion(self._clock.now_ms(), version.counter + 1), table)
        if has_changed and self.on_changed is not None:  # without the lock: the listener may ask this table
            self.on_changed()
        return table

    def touch(self) -> None:
        """Have all who copy the table see another version of it. Raises OSError likewise."""
        with self._lock:
            version, table = self._state
            self._store(DataVersion(self._clock.now_ms(), version.counter + 1), dict(table))
        if self.on_changed is not None:
            self.on_changed()

    def replace(self, members: Members) -> bool:
        """Take over another broker's table; return whether it was another version.

        CorruptFileError if it is none, OSError likewise.
        """
        version, table = self._of_members(members)
        with self._lock:
            if version == self.version:
                return False
            self._store(version, table)
        if self.on_changed is not None:
            self.on_changed()
        return True

    def _store(self, version: DataVersion, table: dict[str, Entry]) -> None:
        # Nobody may build on an entry that a crash would take: it is durable before it is seen.
        self.file.store(self._encoded(version, table))
        self._state = version, table

    def _encoded(self, version: DataVersion, table: Mapping[str, Entry]) -> bytes:
        return encode_side_json({"dataVersion": version.members, self._name: self._encoder.encoded(table)})
