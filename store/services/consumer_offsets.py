"""Consumer offsets: each group's progress in each queue, in `consumerOffset.json`.

    {"offsetTable": {"<topic>@<group>": {<queueId>: <offset>}}}

If light queues are enabled, the file is `lmqConsumerOffset.json` (RocketMQ's LmqConsumerOffsetManager), with a second
table for groups with the prefix `%LMQ%`, without queue ids. A crash loses the progress of at most one flush interval.
`clamp_to_queues` corrects offsets beyond the end of a truncated queue.
Source: RocketMQ ConsumerOffsetManager, LmqConsumerOffsetManager.
"""

from typing import Any

from ..formats.messages import is_storable_topic
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
    """Keeps consumer offsets, and writes them to disk periodically and at shutdown. Thread-safe."""

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
        """The last error of a write. The next interval retries the write."""
        name = "lmqConsumerOffset.json" if light_queues else "consumerOffset.json"
        self.file = SideFile(world.files, f"{config_directory}/{name}")
        self.flush_interval_ms = flush_interval_ms
        self._light_queues = light_queues
        self._offsets: dict[str, dict[int, int]] = {}
        self._light_offsets: dict[str, int] = {}
        self._lock = world.tasks.lock("consumer offsets")
        self._file_lock = world.tasks.lock("consumer offsets file")

    def load(self) -> None:
        """Read the file or its backup. Raises CorruptFileError if both files are unreadable."""
        loaded = self.file.load(decoded_consumer_offsets)
        with self._lock:
            self._offsets, self._light_offsets = loaded or ({}, {})

    def commit_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Set the offset of the group's next message. The new offset may be lower than the old one."""
        key = f"{topic}{_SEPARATOR}{group}"
        with self._lock:
            if self._is_light_group(group):
                self._light_offsets[key] = offset
            else:
                self._offsets.setdefault(key, {})[queue_id] = offset

    def query_offset(self, group: str, topic: str, queue_id: int) -> int:
        """Return -1 if the group has no offset."""
        key = f"{topic}{_SEPARATOR}{group}"
        with self._lock:
            if self._is_light_group(group):
                return self._light_offsets.get(key, -1)
            return self._offsets.get(key, {}).get(queue_id, -1)

    def topics_of(self, group: str) -> list[str]:
        return sorted(topic for topic, other in self._topic_group_pairs() if other == group)

    def groups_of(self, topic: str) -> list[str]:
        return sorted(group for other, group in self._topic_group_pairs() if other == topic)

    def _topic_group_pairs(self) -> list[tuple[str, str]]:
        with self._lock:
            keys = [*self._offsets, *self._light_offsets]
        return [(topic, group) for topic, _, group in (key.rpartition(_SEPARATOR) for key in keys)]

    def all_offsets(self) -> list[tuple[str, str, dict[int, int]]]:
        """Return (topic, group, offsets by queue id) without light queues."""
        with self._lock:
            tables = [(key, dict(offsets)) for key, offsets in self._offsets.items()]
        return [(*key.rpartition(_SEPARATOR)[::2], offsets) for key, offsets in tables]

    @property
    def unlocked_offsets(self) -> dict[tuple[str, int], int]:
        """Return the offsets by `<topic>@<group>` and queue id. The groups of light queues have queue id 0."""
        # Without the lock, because a simulation calls this while no other task runs. A wait for the lock would be a
        # step of the run, and the owner of the lock may be a task of a crashed machine.
        light = {(key, 0): offset for key, offset in self._light_offsets.items()}
        return light | {(key, at): offset for key, offsets in self._offsets.items() for at, offset in offsets.items()}

    def remove_group(self, group: str) -> None:
        ending = f"{_SEPARATOR}{group}"
        with self._lock:
            for table in (self._offsets, self._light_offsets):
                for key in [key for key in table if key.endswith(ending)]:
                    del table[key]

    @property
    def json_members(self) -> dict[str, Any]:
        """Return the content of the file, sorted by name. RocketMQ does not sort it."""
        fields: dict[str, Any] = {}
        with self._lock:
            if self._light_queues:
                fields[_LIGHT_TABLE] = dict(sorted(self._light_offsets.items()))
            tables = sorted(self._offsets.items())
            fields[_TABLE] = {key: dict(sorted(offsets.items())) for key, offsets in tables}
        return fields

    def replace(self, raw: bytes, sender: str) -> None:
        """Replace all offsets with another broker's file content. Raises CorruptFileError."""
        offsets, light_offsets = decoded_consumer_offsets(raw, sender)
        with self._lock:
            self._offsets, self._light_offsets = offsets, light_offsets

    def _is_light_group(self, group: str) -> bool:
        return self._light_queues and group.startswith(LIGHT_GROUP_PREFIX)

    def clamp_to_queues(self, store: AnyMessageStore) -> int:
        """Reduce each offset beyond the end of its queue to that end, and save. Return the number of changed offsets.

        Call this method between recovery and the first put; otherwise a consumer would miss new messages of a truncated
        queue. Offsets before a queue's first message stay unchanged, because the broker answers a pull at these offsets
        with OFFSET_TOO_SMALL. Raises OSError if the disk fails.
        """
        clamped = 0
        with self._lock:
            for key, offsets in self._offsets.items():
                for queue_id, offset in offsets.items():
                    end = _end_of_queue(store, key, queue_id)
                    if offset > end:
                        offsets[queue_id] = end
                        clamped += 1
            for key, offset in self._light_offsets.items():
                end = _end_of_queue(store, key, 0)
                if offset > end:
                    self._light_offsets[key] = end
                    clamped += 1
        if clamped:  # otherwise an old offset would look valid after the queue has grown beyond it
            with self._file_lock:
                self.file.store_alone(encode_side_json(self.json_members))
        return clamped

    def persist(self) -> bool:
        """Return False if the offsets were durable already. Raises OSError if the disk fails."""
        # Read the offsets under the file lock. Otherwise an older state could overwrite a newer one.
        with self._file_lock:
            return self.file.store(encode_side_json(self.json_members))

    def run_once(self) -> None:
        self.signal.wait(self.flush_interval_ms)
        if not self.is_stopping:
            self._try_to_persist()

    def finish_remaining_work(self) -> None:
        self._try_to_persist()

    def _try_to_persist(self) -> None:
        try:
            self.persist()
            self.last_error = None
        except OSError as error:
            self.last_error = error


def decoded_consumer_offsets(raw: bytes, file: str) -> tuple[dict[str, dict[int, int]], dict[str, int]]:
    """Return the tables of normal and of light queues. Raises CorruptFileError."""
    fields = decode_side_json(raw, file=file)
    tables = table_of(fields, _TABLE, file=file)
    offsets = {key: numbered_offsets(table_of(tables, key, file=file), key, file=file) for key in tables}
    light_offsets = {
        key: offset_of(value, key, file=file) for key, value in table_of(fields, _LIGHT_TABLE, file=file).items()
    }
    return offsets, light_offsets


def _end_of_queue(store: AnyMessageStore, key: str, queue_id: int) -> int:
    topic = key.rpartition(_SEPARATOR)[0]
    # The file may be damaged or written by another program, so the topic may be one that no queue can have.
    return store.get_max_offset_in_queue(topic, queue_id) if is_storable_topic(topic) else 0
