"""Deliberate parser bugs: test whether fuzzing finds bugs.

Scenarios find the bugs of the catalogue. Fuzzing of directories can find some of these bugs too.
"""

from collections.abc import Callable

from ...store.formats import message, scan
from ...store.formats import side_json as side_json_format
from ...store.formats.index import ENTRY, ENTRY_BYTES, HEADER_BYTES, SLOT, SLOT_BYTES
from ...store.formats.remoting import frame
from ...store.index.index_file import IndexFile
from ..mutants.known import find_mutant
from ..mutants.mutant import Mutant, Patch, bug


@bug("frame-length-trusted", frame, "frame_bytes", found_by=("allocation",))
def trusted_frame_bytes(view: bytes | memoryview, at: int, *, file: str, offset: int = 0) -> int:
    """A frame's length is used before it is compared with the number of available bytes."""
    length = int.from_bytes(view[at : at + frame.LENGTH_BYTES], "big")
    return frame.LENGTH_BYTES + len(bytearray(length))


@bug("record-crc-unchecked", (scan, message), "check_record", found_by=("served-incomplete",))
def check_record_without_crc(
    view: memoryview | bytes | bytearray, at: int, end: int, *, file: str, file_offset: int, check_crc: bool
) -> message.RecordBounds:
    """A record with an unusual layout counts as intact without a check of its checksum."""
    return check_record_without_crc.original(view, at, end, file=file, file_offset=file_offset, check_crc=False)


@bug("index-chain-unbounded", IndexFile, "select_offsets", found_by=("chain", "hang"))
def select_without_end(
    self: IndexFile,
    key_hash: int,
    begin_ms: int,
    end_ms: int,
    found: list[int],
    max_num: int,
    accept: Callable[[int], bool],
) -> None:
    """A look-up follows a cycle in a chain of entries forever."""
    (number,) = SLOT.unpack_from(self.view, HEADER_BYTES + key_hash % self._slots * SLOT_BYTES)
    while 0 < number < self._entries_max and len(found) < max_num:
        stored_hash, physical_offset, _, previous = ENTRY.unpack_from(
            self.view, self._entries_at + ENTRY_BYTES * number
        )
        if stored_hash == key_hash and accept(physical_offset):
            found.append(physical_offset)
        number = previous


_JSON_DEPTH_UNBOUNDED = Mutant(
    "json-depth-unbounded",
    "a side file is parsed however deep it is nested",
    (Patch(side_json_format, "DEPTH_MAX", 1 << 62),),
    ("crash",),
)
FUZZED: dict[str, Mutant] = {
    mutant.id: mutant
    for mutant in (trusted_frame_bytes, check_record_without_crc, select_without_end, _JSON_DEPTH_UNBOUNDED)
}
"""The deliberate bugs by id. `found_by` lists the possible beginnings of a finding's signature."""


def find_fuzz_mutant(name: str) -> Mutant | None:
    """Return the named mutant of this module, the catalogue or a file, or None if the name is unknown."""
    return FUZZED.get(name) or find_mutant(name)
