"""Versioned table: settings by name in a file, with a new version per change.

    {"dataVersion": {"counter": 3, "timestamp": 1795309986689}, "<table>": {"<name>": {...}, ...}}

Reads need no lock. A change makes a new table durable before readers see it.
Source: RocketMQ ConfigManager, DataVersion.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from operator import attrgetter
from typing import Any, Generic, NamedTuple, Self, TypeVar

from ..formats.remoting.json_body import JsonMembers
from ..formats.side_json import TableEncoder, decode_side_json, encode_side_json
from ..side_file import SideFile
from ..world import World

_ENTRY_DEPTH = 2
"""JSON depth of an entry's members in the file."""


class DataVersion(NamedTuple):
    """Version of a table."""

    timestamp_ms: int = 0
    counter: int = 0

    @property
    def json_members(self) -> dict[str, int]:
        return {"counter": self.counter, "timestamp": self.timestamp_ms}

    @classmethod
    def from_json_members(cls, members: JsonMembers) -> "DataVersion":
        return cls(members.integer("timestamp", 0), members.integer("counter", 0))


def json_field(name: str, default: Any, *, bits: int = 64) -> Any:
    """Return a field with a JSON name. Integers have `bits` bits."""
    return field(default=default, metadata={"name": name, "bits": bits})


@dataclass(frozen=True, slots=True)
class TableEntry:
    """An entry. The first field is its name; the others have defaults."""

    @property
    def json_members(self) -> dict[str, Any]:
        return dict(sorted((one.metadata["name"], getattr(self, one.name)) for one in fields(self)))

    @classmethod
    def from_json_members(cls, name: str, members: JsonMembers) -> Self:
        """Parse an entry. `name` replaces a missing name."""
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
    """A table and its file. Thread-safe."""

    def __init__(self, world: World, path: str, name: str, entry: type[Entry]) -> None:
        self.file = SideFile(world.files, path)
        self.on_changed: Callable[[], None] | None = None
        """Called after a change by the task that made it. Must not block."""
        self._clock = world.clock
        self._name = name
        self._entry = entry
        self._encoder = TableEncoder[Entry](attrgetter("json_members"), _ENTRY_DEPTH)
        """Guarded by `_lock`."""
        self._state: tuple[DataVersion, dict[str, Entry]] = DataVersion(world.clock.now_ms()), {}
        """One assignment replaces both, so that a reader gets a table with its own version."""
        self._lock = world.tasks.lock(name)

    def load(self) -> None:
        """Read the file or its backup. Raises CorruptFileError if both files are unreadable."""
        loaded = self.file.load(self._parse)
        if loaded is not None:
            self._state = loaded

    def _parse(self, raw: bytes, file: str) -> tuple[DataVersion, dict[str, Entry]]:
        return self._parse_members(JsonMembers(decode_side_json(raw, file=file), "", file))

    def _parse_members(self, members: JsonMembers) -> tuple[DataVersion, dict[str, Entry]]:
        table = {
            name: self._entry.from_json_members(name, entry) for name, entry in members.inner_object(self._name).table()
        }
        return DataVersion.from_json_members(members.inner_object("dataVersion")), table

    def get(self, name: str) -> Entry | None:
        return self._state[1].get(name)

    @property
    def table(self) -> Mapping[str, Entry]:
        return self._state[1]

    @property
    def version(self) -> DataVersion:
        return self._state[0]

    @property
    def json_members(self) -> dict[str, Any]:
        version, table = self._state
        entries = {name: entry.json_members for name, entry in sorted(table.items())}
        return {"dataVersion": version.json_members, self._name: entries}

    def put(self, name: str, entry: Entry) -> None:
        """Store an entry durably. After an OSError the table is unchanged."""
        self.change(lambda table: {**table, name: entry})

    def get_or_create_entry(self, name: str, make: Callable[[], Entry]) -> Entry:
        """Create a missing entry durably. After an OSError the table is unchanged."""
        found = self._state[1].get(name)
        if found is None:
            found = self.change(lambda table: table if name in table else {**table, name: make()})[name]
        return found

    def add_missing_entries(self, entries: Iterable[tuple[str, Entry]]) -> None:
        new = dict(entries)
        self.change(lambda table: table if new.keys() <= table.keys() else {**new, **table})

    def remove(self, name: str) -> None:
        """Remove an entry durably. After an OSError the table is unchanged."""
        self.change(lambda table: {key: value for key, value in table.items() if key != name})

    def change(
        self, changed: Callable[[dict[str, Entry]], dict[str, Entry]], *, notify: bool = True
    ) -> Mapping[str, Entry]:
        """Replace the table durably with a changed copy, and return the copy. After an OSError it is unchanged.

        notify: whether a change calls `on_changed`.
        """
        with self._lock:
            version, before = self._state
            table = changed(before)
            has_changed = table != before
            if has_changed:
                self._store_table(DataVersion(self._clock.now_ms(), version.counter + 1), table)
        # Without the lock, because the listener may use this table.
        if has_changed and notify and self.on_changed is not None:
            self.on_changed()
        return table

    def write_with_next_version(self) -> None:
        """Write the table with a new version, so that other servers read it again.

        After an OSError the table is unchanged.
        """
        with self._lock:
            version, table = self._state
            self._store_table(DataVersion(self._clock.now_ms(), version.counter + 1), dict(table))
        if self.on_changed is not None:
            self.on_changed()

    def replace(self, members: JsonMembers) -> bool:
        """Replace the table with another server's. Return False if both have the same version.

        Raises CorruptFileError for an invalid table. After an OSError the table is unchanged.
        """
        version, table = self._parse_members(members)
        with self._lock:
            if version == self.version:
                return False
            self._store_table(version, table)
        if self.on_changed is not None:
            self.on_changed()
        return True

    def _store_table(self, version: DataVersion, table: dict[str, Entry]) -> None:
        # Write before readers see the table, so that no client relies on an entry that a crash removes.
        self.file.store(self._encode_table(version, table))
        self._state = version, table

    def _encode_table(self, version: DataVersion, table: Mapping[str, Entry]) -> bytes:
        return encode_side_json({"dataVersion": version.json_members, self._name: self._encoder.encode_table(table)})
