"""What recovering a second time must not change."""

from hashlib import blake2b

from ...store.message_store import MessageStore


def content_digest(store: MessageStore) -> str:
    """Return a digest of the bytes of every file of log and queues, by path, and of the index: names of those change.

    It is what recovering again must not change. Of an index whose beginning has expired that is what still leads into
    the log: the file that is made anew each time leaves out the rest.
    """
    digest = _digest_of_rows(store)
    log_min_offset = store.log.min_offset
    for file in () if store.index is None else store.index.table.files:
        if log_min_offset <= 0:
            digest.update(file.view)
            continue
        for entry in map(file.entry, range(1, file.header.next_entry)):
            if entry.physical_offset >= log_min_offset:
                digest.update(f"{entry.key_hash} {entry.physical_offset} ".encode())
    return digest.hexdigest()


def rows_digest(store: MessageStore) -> str:
    """Return a digest of the bytes of every file of log and queues, by path."""
    return str(_digest_of_rows(store).hexdigest())


def _digest_of_rows(store: MessageStore) -> blake2b:
    digest = blake2b(digest_size=16)
    for queue in [store.log, *(queue.queue for queue in store.queues.all())]:
        for segment in queue.segments:
            digest.update(segment.file.path.encode())
            digest.update(segment.file.view(0, segment.size_bytes))
    return digest
