"""Every kind of fault the simulated disk has, by the name it is counted under: what it means when it fired."""

FAULTS: dict[str, str] = {
    "page kept": "a page that was not synced is on the platter all the same, as it was last written",
    "page lost": "a page that was not synced is on the platter as its last sync left it",
    "page at a middle moment": "a page that was not synced is as it was at some moment in between",
    "torn page": "sectors of one page are from two different moments",
    "name lost": "a file whose directory was not synced is gone",
    "directory lost": "a directory whose parent was not synced is gone, with all that is in it",
    "size lost": "a file that was extended and not synced has its old length",
    "emptying undone": "a file that was emptied and written anew has its old content",
    "unlink undone": "a file that was removed is back",
    "rename undone": "a file that was renamed has its old name",
    "removal undone": "a directory that was removed is back",
    "slow sync": "a sync took far longer than its like",
    "failed sync": "a sync failed once, and the kernel forgot the pages it was to write",
    "failed creation": "a file could not be made, for want of space",
    "failed write": "a write through a descriptor failed before it wrote anything",
    "short write": "a write through a descriptor wrote only some of its first bytes",
    "refused mlock": "the system would not keep a mapped file in memory",
    "disk full": "a file could not be made or grow, for the disk holds no more",
    "old blocks": "sectors of the log that were never written hold what an older segment had there",
    "odd size": "a segment in front of others was too short while the store was off",
    "lost sector": "a sector at the end of the log was zeroed while the store was off",
}
"""Beside these, `crash <profile>` counts how lives ended and `crash <moment> <operation>` what the plug hit."""
