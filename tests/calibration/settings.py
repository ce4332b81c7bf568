"""Every program of the calibration, what each setting of it promises, and why.

`made before`: its database is there, and durable, when recording begins, so that what is found is of its
transactions and not of the making. Where both are here, the second one shows what making it leaves unsynced.
"""

from .calibrated import (
    EXT4,
    KILL,
    LOST,
    PART,
    SILENT,
    STRICT,
    UNUSABLE,
    CalibratedProgram,
    Expected,
    Setting,
    breaks,
    go_program,
    script,
)

_NOTHING = {STRICT: SILENT, EXT4: SILENT, KILL: SILENT}
_CAN_CORRUPT = breaks(LOST, UNUSABLE, perhaps=(PART,))


def cut(strict: Expected, ext4: Expected) -> dict[str, Expected]:
    """Return what is expected of a setting that no kill hurts."""
    return {STRICT: strict, EXT4: ext4, KILL: SILENT}


_UNLINK = "the journal's unlink is not synced, so it may come back and undo the last commit: why EXTRA exists"
_SQLITE = (
    Setting(("delete", "off"), cut(_CAN_CORRUPT, _CAN_CORRUPT), "no sync: the database might become corrupted"),
    Setting(
        ("delete", "normal"),
        cut(breaks(LOST, perhaps=(UNUSABLE, PART)), breaks(LOST)),
        f"a very small chance of corruption on an old file system; {_UNLINK}",
    ),
    Setting(("delete", "full"), cut(breaks(LOST), breaks(LOST)), _UNLINK),
    Setting(("delete", "extra"), _NOTHING, "syncs the directory behind the unlink"),
    Setting(("wal", "off"), cut(breaks(LOST), breaks(LOST)), "no sync: loses, and one process without a checkpoint"),
    Setting(("wal", "normal"), cut(breaks(LOST), breaks(LOST)), "consistent, not durable"),
    Setting(("wal", "full"), _NOTHING, "syncs the log behind each commit"),
    Setting(("wal", "extra"), _NOTHING, "as full"),
)

_MADE_IN_STEPS = "the file is there before its two meta pages are whole: it is no LMDB file then, by a kill, too"
_META_MOVED = (
    "a compiler has moved the transaction's number in front of the tables' roots (the barrier is not there on x86), "
    "so a kill between two stores leaves a meta page of two transactions"
)
_LMDB = (
    Setting(("sync",), _NOTHING, "syncs data, then its meta page", is_made=True),
    Setting(
        ("sync",),
        {STRICT: breaks(UNUSABLE, LOST), EXT4: breaks(UNUSABLE), KILL: breaks(UNUSABLE)},
        f"{_MADE_IN_STEPS}; its name is never synced",
    ),
    Setting(("nometasync",), cut(breaks(LOST), breaks(LOST)), "may undo the last transaction", is_made=True),
    Setting(
        ("nosync",),
        cut(_CAN_CORRUPT, _CAN_CORRUPT),
        "a system crash can then corrupt the database or lose the last transactions",
        is_made=True,
    ),
    Setting(
        ("writemap",),
        dict.fromkeys((STRICT, EXT4, KILL), breaks(UNUSABLE, perhaps=(LOST,))),
        _META_MOVED,
        is_made=True,
    ),
)

_NAMES = "names of new files, and of CURRENT, are not synced: OSDI 2014, All file systems are not created equal"
_LEVELDB = (
    Setting(("sync",), cut(breaks(LOST, UNUSABLE), SILENT), _NAMES, is_made=True),
    Setting(("nosync",), cut(breaks(LOST, UNUSABLE), breaks(LOST)), "a power cut loses writes", is_made=True),
)
_ROCKSDB = (
    Setting(("sync",), _NOTHING, "syncs its log, and the directory behind each new file", is_made=True),
    Setting(("sync",), cut(breaks(LOST), SILENT), "the name of its own directory is never synced"),
    Setting(("nosync",), cut(breaks(LOST), breaks(LOST)), "a power cut loses writes", is_made=True),
)
_APPEND_DIRECTORY = "makes its directory appendonlydir, and never syncs the one that this is in"
_REDIS = (
    Setting(("always",), cut(breaks(LOST, UNUSABLE), SILENT), _APPEND_DIRECTORY),
    Setting(("no",), cut(breaks(LOST, UNUSABLE), breaks(LOST, perhaps=(UNUSABLE,))), "syncs when the system does"),
)
_GIT = (
    Setting(("none",), cut(breaks(LOST, UNUSABLE), breaks(LOST)), "syncs nothing", is_made=True),
    Setting(("default",), cut(breaks(LOST, UNUSABLE), breaks(LOST)), "syncs packs, and no loose object", is_made=True),
    Setting(
        ("all",),
        cut(breaks(LOST, UNUSABLE), breaks(LOST)),
        "syncs files, and no directory: a branch renamed into place may be the old one",
        is_made=True,
    ),
)
_BBOLT_MAKING = "four pages are written at once, and a kill inside leaves some; the file's name is never synced"
_BBOLT = (
    Setting(("sync",), _NOTHING, "syncs data, then its meta page", is_made=True),
    Setting(
        ("sync",),
        {STRICT: breaks(UNUSABLE, LOST), EXT4: breaks(UNUSABLE), KILL: breaks(UNUSABLE)},
        _BBOLT_MAKING,
    ),
    Setting(("nosync",), cut(_CAN_CORRUPT, _CAN_CORRUPT), "NoSync: not safe, pages in any order", is_made=True),
)
_BADGER_FILES = "makes a file and gives it its length in a second step; a file of no bytes is never opened again"
_BADGER = (
    Setting(("sync",), dict.fromkeys((STRICT, EXT4, KILL), breaks(UNUSABLE)), _BADGER_FILES, is_made=True),
    Setting(
        ("nosync",),
        {STRICT: breaks(LOST, UNUSABLE), EXT4: breaks(LOST, UNUSABLE), KILL: breaks(UNUSABLE)},
        f"syncs when the system does; {_BADGER_FILES}",
        is_made=True,
    ),
)

PROGRAMS = (
    CalibratedProgram("SQLite", script("sqlite"), _SQLITE, is_quick=True),
    CalibratedProgram("LMDB", script("lmdb_store", distribution="lmdb"), _LMDB, is_quick=True),
    CalibratedProgram("LevelDB", script("leveldb", distribution="plyvel"), _LEVELDB, is_quick=True),
    CalibratedProgram("RocksDB", script("rocksdb", distribution="rocksdict"), _ROCKSDB),
    CalibratedProgram("Redis", script("redis_server", executable="redis-server"), _REDIS),
    CalibratedProgram("git", script("git_commits", executable="git"), _GIT),
    CalibratedProgram("bbolt", go_program("bbolt"), _BBOLT, is_quick=True),
    CalibratedProgram("badger", go_program("badger"), _BADGER),
)
