"""How far to read ahead: twice as far each time a reader comes upon what was read ahead; at random, not at all.

A first read, or one that misses right behind the last, reads a few pages at once, of which the reader needs the first.
When it comes to the first page that it had not asked for, the next window is begun, twice as large, and the reader does
not wait. A miss elsewhere reads what was asked for and no more, and the next window is small again; or, where maps are
read around, as many pages as a window has at most, half of them in front.

Sources: Linux, mm/readahead.c (ondemand_readahead): 4 pages at first, 128 KiB at most; mm/filemap.c
(do_sync_mmap_readahead) for reading around.
"""

_PAGES_FIRST = 4
PAGES_MOST = 32


class ReadAhead:
    """One reader in one file.

    Invariant: a window was read up to `_end`; to come between `_marker` and there begins the next. Linux begins it on
    the marked page only, and finds the trail of a reader who steps over it by what is cached in front.
    """

    __slots__ = ("_around", "_end", "_last", "_marker", "_most", "window")

    def __init__(self, most: int = PAGES_MOST, *, around: bool = False) -> None:
        self._most = most
        self._around = around
        self._last = -1
        self._end = 0
        self._marker = -1
        self.window = 0
        """Pages of the last window, 0 after a miss at random."""

    def miss(self, page: int, wanted: int) -> range:
        """Return what to read, and wait for, when a page is not there, the first of so many that are wanted."""
        if page - self._last not in (0, 1):
            self.window, self._marker = 0, -1
            if self._around:
                return range(max(page - self._most // 2, 0), page + max(self._most // 2, wanted))
            return range(page, page + wanted)
        self.window = min(max(self.window * 2, _PAGES_FIRST, wanted), self._most)
        self._end = page + max(self.window, wanted)
        self._marker = min(page + wanted, self._end - 1)
        return range(page, self._end)

    def hit(self, page: int) -> range:
        """Return what to begin to read, without waiting, when a page is there: mostly nothing."""
        if not 0 <= self._marker <= page < self._end:
            return range(0)
        begin = self._marker = self._end
        self.window = min(self.window * 2, self._most)
        self._end = begin + self.window
        return range(begin, self._end)

    def passed(self, page: int) -> None:
        """Note that the reader has been at a page."""
        self._last = page
