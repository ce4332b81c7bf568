"""What a store that was stopped cleanly leaves: no marker of an unclean exit, and no answers.

The marker would cost the next start a recovery for nothing; an answer would be taken from maps that are given back.
"""

from collections.abc import Iterator

from ....faults.disk.disk import Disk
from ....store.errors import StoreNotReadableError
from ....store.message_store import MessageStore
from ..evidence import Violation, tried

_NOBODYS_TOPIC = "nobody's"


def check(store: MessageStore, disk: Disk) -> Iterator[Violation]:
    """Yield the marker if it is still there after a clean stop, and an answer if the store gives one."""
    tried("STATUS")
    marker = store.config.abort_path
    with disk.with_faults(failed_lookup_chance=0.0):  # who judges sees well
        if store.world.files.status(marker) is not None:
            yield Violation("STATUS", "a clean stop left the marker", marker, 0, "file", "none", "there")
    try:
        result = store.get_message(_NOBODYS_TOPIC, 0, 0)  # no map has anything to do with it
    except StoreNotReadableError:
        return
    summary = "a store that was stopped still answers"
    yield Violation("READ", summary, "", -1, "answer", "StoreNotReadableError", result.status.value)
