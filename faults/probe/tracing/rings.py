"""Rings of io_uring: access to the queues that a program shares with the kernel.

All fields are little-endian. `io_uring_setup` returns the offsets of the fields in the rings; the other layouts are
fixed:

    parameters (struct io_uring_params)            request (struct io_uring_sqe), 64 bytes, or 128 on demand
    offset  bytes  field                           offset  bytes  field
    0       4      submission entries              0       1      operation
    4       4      completion entries              1       1      flags
    8       4      flags                           4       4      descriptor, or slot of a registered file
    20      4      features                        8       8      offset, or second address
    40      40     submission offsets: head, tail, 16      8      address
                   mask, entries, flags, dropped,  24      4      length
                   array, -, address (8)           28      4      flags of the operation
    80      40     completion offsets: head, tail, 32      8      user data
                   mask, entries, overflow,        40      2      buffer
                   completions, flags, -, address  44      4      slot of a new direct descriptor, from 1, or source

    completion (struct io_uring_cqe), 16 bytes, or 32 on demand: user data (8), result (4), flags (4)

Source: include/uapi/linux/io_uring.h of Linux.
"""

import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from . import ptrace

SETUP_BYTES = 120
SQPOLL, LARGE_REQUESTS, LARGE_COMPLETIONS = 2, 1 << 10, 1 << 11
NO_MMAP, REGISTERED_ONLY, NO_ARRAY = 1 << 14, 1 << 15, 1 << 16
KNOWN_SETUP_FLAGS = (1 << 18) - 1
"""Setup flags up to IORING_SETUP_HYBRID_IOPOLL. Newer flags change the layout of the rings."""
FEATURE_SKIP = 1 << 11  # Linux 5.17; since 5.16 each ring has its own inode number, which identifies it
_COMPLETION_OVERFLOW = 2
_RINGS_AT, _REQUESTS_AT = (0, 0x800_0000), 0x1000_0000  # offsets in the ring's descriptor, for mmap(2)
_NAME = "anon_inode:[io_uring]"
_word = struct.Struct("<I")
_completion = struct.Struct("<QiI")
_request = struct.Struct("<BBHiQQIIQHHIQQ")

FIXED_FILE, DRAIN, LINK, HARD_LINK, SKIP_SUCCESS = 1, 2, 4, 8, 64
"""Flags of a request."""
_INJECT_RESULT = 1


class RingRequest(NamedTuple):
    """A request of the program. `other` is the second address or the offset."""

    opcode: int
    flags: int
    priority: int
    descriptor: int
    other: int
    address: int
    length: int
    how: int
    """The flags of the operation, such as the flags of pwritev2(2)."""
    user_data: int
    buffer: int
    personality: int
    slot: int
    """For an open or a close, the slot of the direct descriptor, counted from 1, or 0. For a splice, the source."""
    third: int
    rest: int

    @property
    def is_linked(self) -> bool:
        """Return whether the next request of the same call begins after this request has ended."""
        return bool(self.flags & (LINK | HARD_LINK))

    def packed_bytes(self) -> bytes:
        return _request.pack(*self)

    def with_only_result(self, result: int | None) -> "RingRequest":
        """Return a request without effect that completes with this result. None: without a completion."""
        flags, length, how = (SKIP_SUCCESS, 0, 0) if result is None else (0, result % 2**32, _INJECT_RESULT)
        return RingRequest(0, flags, 0, -1, 0, 0, length, how, self.user_data, 0, 0, 0, 0, 0)


class Completion(NamedTuple):
    """A completion at a position of its queue, modulo 2^32."""

    position: int
    user_data: int
    result: int
    flags: int


class RingPlaces(NamedTuple):
    """Addresses of a ring's two mapped parts in one address space."""

    rings: int
    requests: int


@dataclass(slots=True, eq=False)
class Ring:
    """A ring with the parameters from `io_uring_setup`."""

    flags: int
    request_entries: int
    completion_entries: int
    offsets: tuple[int, ...]
    """Offsets of the submissions' head, tail, flags and array, and of the completions' head, tail and entries."""
    inode: int
    files: dict[int, int] = field(default_factory=dict)
    """The number from `KnownFiles.register` of the file in each slot."""
    in_flight: Counter[int] = field(default_factory=Counter)
    """Requests that were submitted unchanged and are not complete, by user data."""
    seen: int = 0
    """Queue position before which all completions have been removed from `in_flight`."""

    @classmethod
    def from_parameters(cls, raw: bytes, inode: int) -> "Ring":
        entries, completions, flags = struct.unpack_from("<III", raw)
        submission, completion = struct.unpack_from("<10I", raw, 40), struct.unpack_from("<10I", raw, 80)
        offsets = (*(submission[at] for at in (0, 1, 4, 6)), *(completion[at] for at in (0, 1, 5)))
        return cls(flags, entries, completions, offsets, inode)


def features_of(raw: bytes) -> int:
    found: int = struct.unpack_from("<I", raw, 20)[0]
    return found


def given_places(raw: bytes) -> RingPlaces | None:
    """Return the addresses that a program has chosen for a ring (IORING_SETUP_NO_MMAP), or None."""
    (flags,) = struct.unpack_from("<I", raw, 8)
    requests, rings = (struct.unpack_from("<Q", raw, at)[0] for at in (72, 112))
    return RingPlaces(rings, requests) if flags & NO_MMAP else None


def mapped_places(thread: int, inode: int) -> RingPlaces | None:
    """Return the addresses at which a process has mapped a ring, or None."""
    rings = requests = None
    try:
        with open(f"/proc/{thread}/maps") as maps:
            for line in maps:
                if _NAME in line:
                    where, _, offset, _, number, *_ = line.split()
                    start = int(where.partition("-")[0], 16)
                    if int(number) == inode:
                        rings = start if int(offset, 16) in _RINGS_AT else rings
                        requests = start if int(offset, 16) == _REQUESTS_AT else requests
    except OSError:
        raise ptrace.ThreadGone(thread) from None
    return None if rings is None or requests is None else RingPlaces(rings, requests)


class Queues:
    """The two queues of a ring in a stopped thread's memory. Unreadable memory raises OSError."""

    def __init__(self, thread: int, ring: Ring, places: RingPlaces) -> None:
        self._thread = thread
        self._ring = ring
        self._places = places
        self._request_bytes = 128 if ring.flags & LARGE_REQUESTS else 64
        self._completion_bytes = 32 if ring.flags & LARGE_COMPLETIONS else 16
        self._originals: dict[int, bytes] = {}  # original content of replaced requests, by address

    def _read_word(self, offset: int) -> int:
        found: int = _word.unpack(ptrace.read_memory(self._thread, self._places.rings + offset, 4))[0]
        return found

    # -- submissions ---------------------------------------------------------------------------------

    @property
    def submission_head(self) -> int:
        """Queue position of the next request that the kernel takes."""
        return self._read_word(self._ring.offsets[0])

    def requests(self, count: int) -> list[RingRequest]:
        """Return up to `count` queued requests."""
        head = self.submission_head
        queued = (self._read_word(self._ring.offsets[1]) - head) % 2**32
        places = [
            self._request_address(head + number) for number in range(min(count, queued, self._ring.request_entries))
        ]
        size = _request.size
        return [RingRequest(*_request.unpack(ptrace.read_memory(self._thread, place, size))) for place in places]

    def _request_address(self, position: int) -> int:
        index = position % self._ring.request_entries
        if not self._ring.flags & NO_ARRAY:
            index = self._read_word(self._ring.offsets[3] + 4 * index)
        return self._places.requests + index * self._request_bytes

    def replace_request(self, position: int, request: RingRequest) -> None:
        """Replace a queued request if it differs. The second half of a 128-byte request is unchanged."""
        place, content = self._request_address(position), request.packed_bytes()
        found = ptrace.read_memory(self._thread, place, len(content))
        if found != content:
            self._originals.setdefault(place, found)
            ptrace.write_memory(self._thread, place, content)

    def restore_requests(self) -> None:
        """Restore replaced requests, because a program may reuse them."""
        for place, content in self._originals.items():
            ptrace.write_memory(self._thread, place, content)
        self._originals.clear()

    # -- completions ---------------------------------------------------------------------------------

    @property
    def completion_tail(self) -> int:
        """Queue position after the last completion."""
        return self._read_word(self._ring.offsets[5])

    @property
    def completion_head(self) -> int:
        """Queue position of the next completion that the program reads."""
        return self._read_word(self._ring.offsets[4])

    @property
    def has_overflow(self) -> bool:
        return bool(self._read_word(self._ring.offsets[2]) & _COMPLETION_OVERFLOW)

    def _completion_address(self, position: int) -> int:
        index = position % self._ring.completion_entries
        return self._places.rings + self._ring.offsets[6] + index * self._completion_bytes

    def completions(self, since: int) -> Iterator[Completion]:
        """Yield all completions from a queue position."""
        for number in range((self.completion_tail - since) % 2**32):
            position = (since + number) % 2**32
            raw = ptrace.read_memory(self._thread, self._completion_address(position), _completion.size)
            yield Completion(position, *_completion.unpack(raw))

    def replace_completion(self, position: int, user_data: int, result: int, flags: int) -> bool:
        """Replace a completion. Return False if the program may have read the old completion."""
        raw = _completion.pack(user_data, result, flags)
        ptrace.write_memory(self._thread, self._completion_address(position), raw)
        return (self.completion_head - position - 1) % 2**32 >= 2**31

    def remove_completion(self, position: int) -> bool:
        """Remove a completion by moving earlier unread completions. Return False if another thread has read them."""
        start = self.completion_head
        for number in reversed(range((position - start) % 2**32)):
            at = (start + number) % 2**32
            raw = ptrace.read_memory(self._thread, self._completion_address(at), self._completion_bytes)
            ptrace.write_memory(self._thread, self._completion_address(at + 1), raw)
        if self.completion_head != start:
            return False
        ptrace.write_memory(self._thread, self._places.rings + self._ring.offsets[4], _word.pack((start + 1) % 2**32))
        return True
