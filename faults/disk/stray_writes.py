"""Writes that a drive says it has done and has not, or has done elsewhere: lost and misdirected writes.

They strike single pages of what a sync writes, and the sync succeeds. Readers see the right bytes for as long as the
page cache has them, so nobody finds out before the machine has been off. Such a page is as one that a failed sync has
dropped: clean, and on the platter what it was before, until it is written again.

Sources: Bairavasundaram et al., "An Analysis of Data Corruption in the Storage Stack", FAST 2008, for how often drives
lose and misplace writes; Prabhakaran et al., "IRON File Systems", SOSP 2005; Krioukov et al., "Parity Lost and Parity
Regained", FAST 2008, for what a misdirected write does at both places.
"""

from .damage import DamagedRange
from .fault_injector import FaultInjector
from .namespace import Namespace
from .page_cache import Inode

_LOST, _MISDIRECTED = "lost write", "misdirected write"
_BEFORE_ALL = -1
"""Number of an operation that was before any other."""


class StrayWrites:
    """The writes of one disk that go astray."""

    __slots__ = ("_injector", "_names")

    def __init__(self, injector: FaultInjector, names: Namespace) -> None:
        self._injector = injector
        self._names = names

    def make_durable(self, path: str, inode: Inode, upto: int, start: int, end: int) -> None:
        """Do as Inode.make_durable does, but for the pages whose writes go astray."""
        injector = self._injector
        faults, chance = injector.faults, injector.stream.chance
        page_bytes = inode.page_bytes
        before = inode.durable_bytes(inode.size_bytes)
        stray: list[tuple[int, str]] = []
        for page in inode.covered_pages(upto, start, end):
            for kind, of_all in (
                (_LOST, faults.lost_write_chance),
                (_MISDIRECTED, faults.misdirected_write_chance),
            ):
                if of_all > 0.0 and chance(of_all, f"{kind} {path}#{page}"):
                    stray.append((page, kind))
                    break
        inode.make_durable(upto, start, end)
        after = inode.durable_bytes(inode.size_bytes)
        for page, kind in stray:
            first, last = page * page_bytes, (page + 1) * page_bytes
            if kind == _MISDIRECTED:
                self._misdirect(path, inode, page, before[first:last], after[first:last])
            elif inode.take_back(_BEFORE_ALL, first, before[first:last]):
                self._note(kind, DamagedRange(path, first, first + len(before[first:last]), kind))

    def _misdirect(self, path: str, inode: Inode, page: int, before: bytes, data: bytes) -> None:
        """Let a page's data arrive at a drawn page of some file, if that is another one; its own is left as it was."""
        label = f"misdirected write {path}#{page}"
        stream, current = self._injector.stream, self._names.current
        sizes = {name: current.files[current.names[name]].size_bytes for name in sorted(current.names)}
        target = stream.pick(
            [name for name, size_bytes in sizes.items() if size_bytes] or [path], f"file of a {label}"
        )
        victim = current.inode(target)
        if victim is None:
            return
        page_bytes = inode.page_bytes
        other = stream.below(-(-victim.size_bytes // page_bytes), f"page of a {label}")
        if victim is inode and other == page:
            return
        first, at = page * page_bytes, other * page_bytes
        end = min(at + page_bytes, victim.size_bytes)
        victim.thaw(0)  # who looks at it from now on sees what the page cache has
        left = inode.take_back(_BEFORE_ALL, first, before)
        hit = victim.take_back(_BEFORE_ALL, at, data[: end - at].ljust(end - at, b"\0"))
        if left or hit:
            self._note(
                _MISDIRECTED,
                *([DamagedRange(path, first, first + len(before), _MISDIRECTED)] if left else ()),
                *([DamagedRange(target, at, end, _MISDIRECTED)] if hit else ()),
            )

    def _note(self, kind: str, *damage: DamagedRange) -> None:
        self._injector.fired[kind] += 1
        self._injector.damage += damage
