"""One direction of a connection: bytes on their way, in order, each piece with the moment at which it arrives."""

from collections import deque


class Wire:
    """Invariant: pieces arrive in the order they were sent, the stream's end after all of them.

    size_bytes is what is on its way or has arrived unread: what the sender waits for when it is too much.
    """

    __slots__ = ("_pieces", "_read_bytes", "ended_ns", "size_bytes")

    def __init__(self) -> None:
        self._pieces: deque[tuple[int, bytes]] = deque()  # (arrives_ns, data)
        self._read_bytes = 0  # of the first piece
        self.size_bytes = 0
        self.ended_ns: int | None = None
        """When the end of the stream arrives; None while it goes on."""

    @property
    def last_ns(self) -> int:
        """Return when the last piece arrives, 0 if none is there."""
        return self._pieces[-1][0] if self._pieces else 0

    def send(self, data: bytes, arrives_ns: int) -> None:
        """Add a piece; it does not overtake those before it."""
        self._pieces.append((max(arrives_ns, self.last_ns), data))
        self.size_bytes += len(data)

    def end(self, arrives_ns: int) -> None:
        """End the stream, once."""
        if self.ended_ns is None:
            self.ended_ns = max(arrives_ns, self.last_ns)

    def swallow(self, size_bytes: int) -> None:
        """Take up room for bytes that never arrive."""
        self.size_bytes += size_bytes

    def receive(self, bytes_max: int, until_ns: int) -> bytes:
        """Return what has arrived until then, at most bytes_max; b"" if nothing has."""
        found: list[bytes] = []
        wanted = bytes_max
        pieces = self._pieces
        while pieces and wanted and pieces[0][0] <= until_ns:
            data = pieces[0][1]
            some = data[self._read_bytes : self._read_bytes + wanted]
            found.append(some)
            wanted -= len(some)
            self._read_bytes += len(some)
            if self._read_bytes == len(data):
                pieces.popleft()
                self._read_bytes = 0
        self.size_bytes -= bytes_max - wanted
        return b"".join(found)

    def has_arrived(self, until_ns: int) -> bool:
        """Return whether there is a byte, or the end, to be received by then."""
        if self._pieces:
            return self._pieces[0][0] <= until_ns
        return self.ended_ns is not None and self.ended_ns <= until_ns

    def next_ns(self) -> int | None:
        """Return when the next thing arrives, or has; None if nothing is on its way."""
        return self._pieces[0][0] if self._pieces else self.ended_ns

    def count_under_way(self, now_ns: int) -> int:
        """Return how many pieces have not arrived."""
        return sum(arrives_ns > now_ns for arrives_ns, _ in self._pieces)

    def drop_last(self, pieces: int) -> None:
        """Lose the last pieces, and the end behind them; the room that they take stays taken."""
        for _ in range(pieces):
            self._pieces.pop()
        self.ended_ns = None

    def hasten(self, arrives_ns: int) -> None:
        """Let everything arrive by then at the latest."""
        self._pieces = deque((min(due_ns, arrives_ns), data) for due_ns, data in self._pieces)
        if self.ended_ns is not None:
            self.ended_ns = min(self.ended_ns, arrives_ns)
