"""META: a start finds the last version of a side file that was said to be durable, complete, or one begun after it.

So persisted progress never goes back over a crash. What is loaded is never ahead of what was reported, and is brought
into what the crash left of the queues before anybody uses it. That one complete version can be read at all is seen in
scenarios.runs.store_run, where a store is opened. What is in the files beyond offsets is not looked at.
"""

from collections.abc import Iterator, Mapping

from ....store.formats.delay_level import SCHEDULE_TOPIC
from ....store.message_store import MessageStore
from ..evidence import Violation, tried
from ..ledger import Group, Ledger
from ..side_versions import Versions

_SHOWN_BYTES = 120


def check_version(versions: Versions) -> Iterator[Violation]:
    """Yield a file of which another version was found than can be."""
    if versions.durable is not None:
        tried("META")
    if versions.loaded != versions.durable and versions.loaded not in versions.begun:
        yield Violation(
            "META",
            f"a version that was durable is not what the next start found, {len(versions.begun)} were begun after it",
            versions.path,
            0,
            "version",
            _shown(versions.durable),
            _shown(versions.loaded),
        )


def _shown(content: bytes | None) -> str:
    return "none" if content is None else content[:_SHOWN_BYTES].decode(errors="replace")


def check_levels(store: MessageStore) -> Iterator[Violation]:
    """Yield every delay level of a store just loaded whose progress is outside of its queue."""
    for level, offset in store.schedule.offsets.items():
        queue = store.queues.find(SCHEDULE_TOPIC, level - 1)
        least, most = (0, 0) if queue is None else (queue.min_offset, queue.max_offset)
        if not least <= offset <= most:
            yield Violation(
                "META",
                f"progress of delay level {level} leads out of its queue",
                store.schedule.file.path,
                0,
                "level",
                f"{least} to {most}",
                str(offset),
            )


def check_reported(ledger: Ledger, found: Mapping[Group, int]) -> Iterator[Violation]:
    """Yield every group that was found to be further than it ever said."""
    for group, offset in found.items():
        tried("META")
        if offset > ledger.furthest[group]:
            yield _group_violation(
                group, "is ahead of what it reported", f"<= {ledger.furthest[group]}", offset
            )


def check_clamped(
    store: MessageStore, found: Mapping[Group, int], clamped: Mapping[Group, int]
) -> Iterator[Violation]:
    """Yield every group that was not brought to where its queue ends, or was moved without need."""
    for group, offset in found.items():
        _, topic, queue_id = group
        wanted = min(offset, store.get_max_offset_in_queue(topic, queue_id))
        if clamped[group] != wanted:
            yield _group_violation(group, "is not brought into its queue", str(wanted), clamped[group])


def _group_violation(group: Group, what: str, expected: str, found: int) -> Violation:
    name, topic, queue_id = group
    return Violation("META", f"{name} in {topic}/{queue_id} {what}", "", -1, "offset", expected, str(found))
