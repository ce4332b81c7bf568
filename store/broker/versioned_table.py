"""Versioned table: settings by name, in a side file of its own, with a version that counts its changes.

    {"dataVersion": {"counter": 3, "timestamp": 1795309986689}, "<table>": {"<name>": {...}, ...}}

Readers take no lock: a change makes a new table, has it on the disk, and only then in use.
Source: RocketMQ ConfigManager, DataVersion.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from ..formats.remoting.json_body import Members
from ..formats.side_json import decode_side_json, encode_side_json
from ..side_file import SideFile
from ..world import World

Value = TypeVar("Value")


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


class VersionedTable(Generic[Value]):
    """One table and its file. Any task may call it."""

    def __init__(
        self,
        world: World,
        path: str,
        name: str,
        read: Callable[[str, Members], Value],
        write: Callable[[Value], Mapping[str, Any]],
    ) -> None:
        """Begin empty. name is the table's in the file; read and write turn an entry's members into a value and back.

        read is given the entry's name too.
        """
        self.file = SideFile(world.files, path)
        self.version = DataVersion(world.clock.now_ms())
        self.on_changed: Callable[[], None] | None = None
        """Called after each change, in the task that has made it, which it must not keep waiting."""
        self._clock = world.clock
        self._name = name
        self._read = read
        self._write = write
        self._table: dict[str, Value] = {}
        self._lock = world.tasks.lock(name)

    def load(self) -> None:
        """Read what was persisted. Raises CorruptFileError if no version of it can be read."""
        loaded = self.file.load(self._parse)
        if loaded is not None:
            self.version, self._table = loaded

    def _parse(self, raw: bytes, file: str) -> tuple[DataVersion, dict[str, Value]]:
        return self._of_members(Members(decode_side_json(raw, file=file), "", file))

    def _of_members(self, members: Members) -> tuple[DataVersion, dict[str, Value]]:
        entries = members.inner(self._name).table()
        return DataVersion.of(members.inner("dataVersion")), {
            name: self._read(name, entry) for name, entry in entries
        }

    # -- reading -----------------------------------------------------------------------------------

    def get(self, name: str) -> Value | None:
        """Return an entry, None if there is none."""
        return self._table.get(name)

    @property
    def table(self) -> Mapping[str, Value]:
        """Return all entries as they are now; what changes later is not in it."""
        return self._table

    @property
    def members(self) -> dict[str, Any]:
        """Return version and table as an object, entries in order of their names."""
        return self._members_of(self.version, self._table)

    # -- changing ----------------------------------------------------------------------------------

    def put(self, name: str, value: Value) -> None:
        """Make or replace an entry, durably. Raises OSError, and nothing has changed, if the disk fails."""
        self.change(lambda table: {**table, name: value})

    def get_or_put(self, name: str, make: Callable[[], Value]) -> Value:
        """Return an entry, made if there is none. Raises OSError likewise."""
        found = self._table.get(name)
        if found is None:
            found = self.change(lambda table: table if name in table else {**table, name: make()})[name]
        return found

    def add_missing(self, entries: Iterable[tuple[str, Value]]) -> None:
        """Make those of some entries that are not there."""
        made = dict(entries)
        self.change(lambda table: table if made.keys() <= table.keys() else {**made, **table})

    def remove(self, name: str) -> None:
        """Remove an entry, if it is there. Raises OSError likewise."""
        self.change(lambda table: {key: value for key, value in table.items() if key != name})

    def change(self, changed: Callable[[dict[str, Value]], dict[str, Value]]) -> Mapping[str, Value]:
        """Put in place of the table what is made of it, and return that. Raises OSError likewise."""
        with self._lock:
            table = changed(self._table)
            has_changed = table != self._table
            if has_changed:
                self._store(DataVersion(self._clock.now_ms(), self.version.counter + 1), table)
        if has_changed and self.on_changed is not None:
            self.on_changed()
        return table

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

    def _store(self, version: DataVersion, table: dict[str, Value]) -> None:
        # Nobody may build on an entry that a crash would take: it is durable before it is seen.
        self.file.store(encode_side_json(self._members_of(version, table)))
        self.version, self._table = version, table

    def _members_of(self, version: DataVersion, table: Mapping[str, Value]) -> dict[str, Any]:
        entries = {name: self._write(value) for name, value in sorted(table.items())}
        return {"dataVersion": version.members, self._name: entries}
