"""Key-value configuration of a name server: strings by namespace and key.

    {"configTable":{"ORDER_TOPIC_CONFIG":{"Orders":"broker-a:4;broker-b:4"}}}

Brokers read one namespace: a topic with a value in ORDER_TOPIC_CONFIG is ordered. A change is durable before the
answer. Without a path the table is only in memory.
Source: RocketMQ KVConfigManager, KVConfigSerializeWrapper, NamesrvUtil.
"""

from collections.abc import Callable, Mapping

from ..formats.remoting.json_body import JsonMembers
from ..formats.side_json import decode_side_json, encode_side_json
from ..service import do_nothing
from ..side_file import SideFile
from ..world import World

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
KEYS_MAX = 65_536
"""Maximum number of keys in all namespaces together."""
_TABLE = "configTable"

Namespaces = Mapping[str, Mapping[str, str]]


class TooManyKeysError(ValueError):
    """The table is full."""


class KVConfig:
    """The table. Thread-safe; reads need no lock, because a change creates a new table."""

    def __init__(self, world: World, path: str | None = None) -> None:
        self.on_changed: Callable[[str], None] = do_nothing
        self.file = None if path is None else SideFile(world.files, path)
        self._lock = world.tasks.lock("kv config")
        self._namespaces: Namespaces = {}

    def load(self) -> None:
        """Read the file or its backup.

        Raises CorruptFileError if both files are unreadable, OSError if the disk fails.
        """
        if self.file is not None:
            self._namespaces = self.file.load(_parse) or {}

    def get(self, namespace: str, key: str) -> str | None:
        return self._namespaces.get(namespace, {}).get(key)

    def namespace(self, name: str) -> Mapping[str, str] | None:
        """Return a namespace's values, or None without the namespace."""
        return self._namespaces.get(name)

    def put(self, namespace: str, key: str, value: str) -> None:
        """After an OSError or TooManyKeysError the table is unchanged."""
        with self._lock:
            changed = {**self._namespaces, namespace: {**self._namespaces.get(namespace, {}), key: value}}
            if sum(map(len, changed.values())) > KEYS_MAX:  # limited, because any client may add keys
                raise TooManyKeysError(f"keys: expected {KEYS_MAX} or fewer, found one more")
            self._store_namespaces(changed)
        self.on_changed(namespace)

    def delete(self, namespace: str, key: str) -> None:
        """After an OSError the table is unchanged."""
        with self._lock:
            values = self._namespaces.get(namespace, {})
            if key not in values:
                return
            remaining = {one: value for one, value in values.items() if one != key}
            self._store_namespaces({**self._namespaces, namespace: remaining})
        self.on_changed(namespace)

    def _store_namespaces(self, namespaces: Namespaces) -> None:
        if self.file is not None:
            ordered = {name: dict(sorted(values.items())) for name, values in sorted(namespaces.items())}
            self.file.store(encode_side_json({_TABLE: ordered}))
        self._namespaces = namespaces  # set after the write, so that readers see only durable values


def _parse(raw: bytes, file: str) -> Namespaces:
    table = JsonMembers(decode_side_json(raw, file=file), "", file).inner_object(_TABLE)
    return {name: {key: values.text(key) for key in values.names} for name, values in table.table()}
