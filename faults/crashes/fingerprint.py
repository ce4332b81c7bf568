"""A digest of everything that crash states are made of: two moments of one run with equal ones can leave the same.

What a pending write has written need not be looked at, its number and length tell that within one run.
"""

from hashlib import blake2b

from ..disk.namespace import Namespace
from ..disk.page_cache import Inode


def fingerprint_of(names: Namespace) -> str:
    """Return the digest of what is durable, what may be lost, and of times."""
    digest = blake2b(digest_size=16)
    inodes: dict[int, Inode] = {}
    for entries in (names.durable, names.current):
        digest.update(repr((sorted(entries.names.items()), sorted(entries.directories))).encode())
        inodes.update((inode.identity, inode) for inode in entries.files.values())
    for change in names.journal:
        facts = (change.kind, change.number, change.path, change.synced, change.acknowledged)
        digest.update(repr(facts).encode())
    digest.update(repr((names.committed, names.acknowledged)).encode())
    for identity, inode in sorted(inodes.items()):
        pending = [(number, at, len(data)) for number, at, data in inode.pending]
        rest = (pending, sorted(inode.stale), inode.in_drive, inode.synced_upto, inode.mtime_ns)
        digest.update(repr((identity, inode.size_bytes, rest)).encode())
        digest.update(inode.durable_bytes(inode.size_bytes))
    return digest.hexdigest()
