"""Crash aims: crashes at operations that matter more than others.

Most operations of a run are stores into the middle of a file. A crash at a sync falls into the window between an effect
and its durability. A crash just after a mark falls into a rare branch of the store, such as a repair in a recovery. The
numbers are those of a plan's `Life`, so that an aim needs no further draw.
"""

from collections import Counter

from ...faults.disk.fault_injector import CrashTrigger

SYNC, MARK, NAME, CONF = "sync", "mark", "name", "conf"
_OPERATIONS_PER_SYNC = 4
"""About the number of operations between two syncs under sync flush."""
_OPERATIONS_PER_NAME, _OPERATIONS_PER_CONF_NAME = 12, 20
_CONF_FILES = ("/broker.conf", "/plain_acl.yml")
"""Files that operators change at a running broker."""
_CHANGES_OF_NAMES = ("unlink", "rename", "remove directory")
_MARKS = 3
_OPERATIONS_AFTER_MARK = 3


class SyncTrigger(CrashTrigger):
    """Selects the nth sync of a file or a directory."""

    def __init__(self, operation: int) -> None:
        super().__init__()
        self._left = operation // _OPERATIONS_PER_SYNC

    def is_due(self, number: int, kind: str, path: str, nth: int) -> bool:
        if "sync" not in kind:
            return False
        self._left -= 1
        return self._left < 0


class NameTrigger(CrashTrigger):
    """Selects the nth removal or rename of a name, or the sync of a directory right after it."""

    def __init__(self, operation: int, *, of_conf: bool = False) -> None:
        """of_conf: counts only names of `_CONF_FILES`."""
        super().__init__()
        self._left = operation // (_OPERATIONS_PER_CONF_NAME if of_conf else _OPERATIONS_PER_NAME)
        self._parts = _CONF_FILES if of_conf else ("",)
        self._is_changed = False

    def is_due(self, number: int, kind: str, path: str, nth: int) -> bool:
        was_changed, is_counted = self._is_changed, any(part in path for part in self._parts)
        self._is_changed = is_counted and kind in _CHANGES_OF_NAMES
        if not self._is_changed and not (was_changed and kind == "sync directory"):
            return False
        self._left -= 1
        return self._left < 0


class MarkTrigger(CrashTrigger):
    """Selects one of the first operations after a mark that is new since the trigger was armed.

    Without such a mark, it selects an operation after twice the usual number.
    """

    def __init__(self, operation: int, hits: Counter[str]) -> None:
        super().__init__()
        self._operations_left = 2 * operation + _OPERATIONS_AFTER_MARK
        self._hits, self._before = hits, Counter(hits)
        self._marks = 1 + operation % _MARKS
        self._left = operation // _MARKS % _OPERATIONS_AFTER_MARK

    def is_due(self, number: int, kind: str, path: str, nth: int) -> bool:
        self._operations_left -= 1
        if self._operations_left < 0:
            return True
        if self._marks > 0:
            new = sum(count > self._before[name] for name, count in self._hits.items())
            if new < self._marks:
                return False
            self._marks = 0
        self._left -= 1
        return self._left < 0


def aimed_trigger(aim: str, operation: int, hits: Counter[str]) -> CrashTrigger | None:
    """Return the trigger of a crash; None for a crash at the operation with this number."""
    if aim == SYNC:
        return SyncTrigger(operation)
    if aim in (NAME, CONF):
        return NameTrigger(operation, of_conf=aim == CONF)
    return MarkTrigger(operation, hits) if aim == MARK else None
