"""The log's segments when puts go to memory first: some of them have more than their files.

Commits go from the front to the back, one segment after the other, so what readers may see ends in the first segment
that is not wholly in its file, whatever those behind it have.
"""

from .segment_queue import SegmentQueue


class BufferedSegmentQueue(SegmentQueue):
    """Segments with and without a write buffer in a row. One task commits."""

    _open_base = 0
    """Where the first segment begins that may not be whole in its file; every one in front of it is."""

    @property
    def committed_where(self) -> int:
        """Return the offset up to which everything is in the files, 0 if there is no segment."""
        segments = self.segments
        if not segments:
            return 0
        index = (self._open_base - segments[0].base_offset) // self.segment_bytes
        index = min(max(index, 0), len(segments) - 1)
        last = len(segments) - 1
        while index < last and segments[index].readable.get() == self.segment_bytes:
            index += 1
        segment = segments[index]
        self._open_base = segment.base_offset
        return segment.base_offset + segment.readable.get()

    @property
    def max_offset(self) -> int:
        """Return the offset behind the last byte readers may see, 0 if there is none."""
        return self.committed_where

    def commit(self, least_pages: int = 0) -> int:
        """Move what was put to the files, segment after segment; return `committed_where`.

        A segment is left behind only when it is whole in its file. Raises OSError as `BufferedSegment.commit` does.
        """
        where = self.committed_where
        while (segment := self.find(where)) is not None:
            committed = segment.base_offset + segment.commit(least_pages)
            if committed == where:
                break
            where = committed
        return where
