"""What stands in a sector that a power cut met in flight and left neither old nor new.

Which bytes these are nobody can say, so they are drawn, as one number from 1 on:

    1      zeros, as where a drive had erased before it would program
    2      0xFF, as an erased flash block reads
    even   bytes of chance, derived from the number and the sector's place
    odd    the bytes of another sector of the file, as when an address line or a mapping table went wrong

Sources: Zheng, Tucek, Qin, Lillibridge: "Understanding the Robustness of SSDs under Power Fault", FAST 2013 (shorn,
flying and corrupted writes); SQLite, "Powersafe Overwrite", for the assumption that is broken here.
"""

from hashlib import shake_128

FILLINGS = 1 << 16
"""How many numbers there are, 0 included, which stands for none."""
_ZEROS, _ONES = 1, 2


def garbage(filling: int, file: bytes, start: int, end: int, sector_bytes: int) -> bytes:
    """Return what is in [start, end), a sector of a file whose durable content is file."""
    assert 0 < filling < FILLINGS, filling
    size_bytes = end - start
    if filling == _ZEROS:
        return bytes(size_bytes)
    if filling == _ONES:
        return b"\xff" * size_bytes
    if filling % 2 == 0:
        return shake_128(f"{filling} {start}".encode()).digest(size_bytes)
    sectors = -(-len(file) // sector_bytes)
    other = (start // sector_bytes + filling // 2) % sectors * sector_bytes
    return file[other : other + size_bytes].ljust(size_bytes, b"\0")
