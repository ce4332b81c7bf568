"""Consumer offsets: each group's progress in each queue. RocketMQ's ConsumerOffsetManager, `consumerOffset.json`.

    {"offsetTable": {"<topic>@<group>": {<queueId>: <offset>}}}

With light queues on it is LmqConsumerOffsetManager: the offsets of groups that begin with `%LMQ%` have no queue id, are
in a table of their own, and both tables are in `lmqConsumerOffset.json`. A part of the broker, beside the store: what
a crash takes back is at most one interval of progress, and what a shortened queue does not hold any more is `clamp`ed.
Source: RocketMQ ConsumerOffsetManager, LmqConsumerOffsetManager.
"""

from typing import Any

from ..formats.side_json import decode_side_json, encode_side_json, numbered_offsets, offset_of, table_of
from ..plugins import AnyMessageStore
from ..service import Service
from ..side_file import SideFile
from ..world import World

FLUSH_CONSUMER_OFFSET_INTERVAL_MS = 5_000  # RocketMQ BrokerConfig.flushConsumerOffsetInterval
LIGHT_GROUP_PREFIX = "%LMQ%"  # RocketMQ MixAll.LMQ_PREFIX

_TABLE = "offsetTable"
_LIGHT_TABLE = "lmqOffsetTable"
_SEPARATOR = "@"


class ConsumerOffsetManager(Service):
    """The offsets consumers reported, persisted every so often and at the end. Any task may call it."""

    name = "consumer offsets"

    def __init__(
        self,
        world: World,
        config_directory: str,
        *,
        flush_interval_ms: int = FLUSH_CONSUMER_OFFSET_INTERVAL_MS,
        light_queues: bool = False,
    ) -> None:
        super().__init__(world)
        self.last_error: OSError | None = None
        """What the last attempt to persist met; the next one tries again."""
        name = "lmqConsumerOffset.json" if light_queues else "consumerOffset.json"
        self.file = SideFile(world.files, f"{config_directory}/{name}")
        self.flush_interval_ms = flush_interval_ms
        self._light_queues = light_queues
        self._offsets: dict[str, dict[int, int]] = {}
        self._light_offsets: dict[str, int] = {}
        self._lock = world.tasks.lock("consumer offsets")
        self._file_lock = world.tasks.lock("consumer offsets file")

    def load(self) -> None:
        """Read what was persisted. Raises CorruptFileError if no version of it can be read."""
        loaded = self.file.load(decoded_consumer_offsets)
        with self._lock:
            self._offsets, self._light_offsets = loaded or ({}, {})

    # -- consumers ---------------------------------------------------------------------------------

    def commit_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Note the offset of the message that a group wants next. A lower one than before counts too."""
        key = f"{topic}{_SEPARATOR}{group}"
        with self._lock:
            if self._is_light(group):
                self._light_offsets[key] = offset
            else:
                self._offsets.setdefault(key, {})[queue_id] = offset

    def query_offset(self, group: str, topic: str, queue_id: int) -> int:
        """Return the offset a group last committed for a queue, -1 if it never did."""
        key = f"{topic}{_SEPARATOR}{group}"
        with self._lock:
            if self._is_light(group):
                return self._light_offsets.get(key, -1)
            return self._offsets.get(key, {}).get(queue_id, -1)

    def topics_of(self, group: str) -> list[str]:
        """Return the topics a group has offsets in, in order of the alphabet."""
        return sorted(topic for topic, one in self._pairs() if one == group)

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that have offsets in a topic, in order of the alphabet."""
        return sorted(group for one, group in self._pairs() if one == topic)

    def _pairs(self) -> list[tuple[str, str]]:
        with self._lock:
            keys = [*self._offsets, *self._light_offsets]
        return [(topic, group) for topic, _, group in (key.rpartition(_SEPARATOR) for key in keys)]

    def all(self) -> list[tuple[str, str, dict[int, int]]]:
        """Return topic, group and offsets by queue id, of all that have any but in light queues."""
        with self._lock:
            tables = [(key, dict(offsets)) for key, offsets in self._offsets.items()]
        return [(*key.rpartition(_SEPARATOR)[::2], offsets) for key, offsets in tables]

    def remove_group(self, group: str) -> None:
        """Forget how far a group is."""
        ending = f"{_SEPARATOR}{group}"
        with self._lock:
            for table in (self._offsets, self._light_offsets):
                for key in [key for key in table if key.endswith(ending)]:
                    del table[key]

    @property
    def members(self) -> dict[str, Any]:
        """Return all offsets as the file has them, by name; RocketMQ's order is that of chance."""
        fields: dict[str, Any] = {}
        with self._lock:
            if self._light_queues:
                fields[_LIGHT_TABLE] = dict(sorted(self._light_offsets.items()))
            tables = sorted(self._offsets.items())
            fields[_TABLE] = {key: dict(sorted(offsets.items())) for key, offsets in tables}
        return fields

    def replace(self, raw: bytes, sender: str) -> None:
        """Take over all offsets of another broker, in the file's form. CorruptFileError names what is wrong with it."""
        offsets, light_offsets = decoded_consumer_offsets(raw, sender)
        with self._lock:
            self._offsets, self._light_offsets = offsets, light_offsets

    def _is_light(self, group: str) -> bool:
        return self._light_queues and group.startswith(LIGHT_GROUP_PREFIX)

    def clamp(self, store: AnyMessageStore) -> int:
        """Take offsets back to where their queues end, durably, and return how many were beyond.

        Called after recovery and before the store accepts puts: a consumer ahead of a queue that lost its tail would
        skip what is put there next. Offsets below a queue's first message stay: a pull answers them with
        OFFSET_TOO_SMALL. Raises OSError if the disk fails.
        """
        clamped = 0
        with self._lock:
            for key, offsets in self._offsets.items():
                for queue_id, offset in offsets.items():
                    end = store.get_max_offset_in_queue(_topic_of(key), queue_id)
                    if offset > end:
                        offsets[queue_id] = end
                        clamped += 1
            for key, offset in self._light_offsets.items():
                end = store.get_max_offset_in_queue(_topic_of(key), 0)
                if offset > end:
                    self._light_offsets[key] = end
                    clamped += 1
        if clamped:
            self.persist()  # the next crash may come when the queue has grown past them again
        return clamped

    # -- persisting --------------------------------------------------------------------------------

    def persist(self) -> bool:
        """Make the present offsets durable; return False if they are already. Raises OSError if the disk fails."""
        # The lock also covers the read, or an older state could overwrite a newer one.
        with self._file_lock:
            return self.file.store(encode_side_json(self.members))

    def step(self) -> None:
        """Wait one interval, then persist."""
        self.signal.wait(self.flush_interval_ms)
        if not self.is_stopping:
            self._try_to_persist()

    def finish(self) -> None:
        """Persist a last time."""
        self._try_to_persist()

    def _try_to_persist(self) -> None:
        try:
            self.persist()
            self.last_error = None
        except OSError as error:
            self.last_error = error


def decoded_consumer_offsets(raw: bytes, file: str) -> tuple[dict[str, dict[int, int]], dict[str, int]]:
    """Return the two tables that a file's bytes have. CorruptFileError names the damage."""
    fields = decode_side_json(raw, file=file)
    tables = table_of(fields, _TABLE, file=file)
    offsets = {key: numbered_offsets(table_of(tables, key, file=file), key, file=file) for key in tables}
    light_offsets = {
        key: offset_of(value, key, file=file) for key, value in table_of(fields, _LIGHT_TABLE, file=file).items()
    }
    return offsets, light_offsets


def _topic_of(key: str) -> str:
    return key.rpartition(_SEPARATOR)[0]
