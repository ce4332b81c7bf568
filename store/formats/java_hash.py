"""Java's String.hashCode and String.length, for tags codes and index keys.

    h = 0; for each UTF-16 code unit c: h = (31 * h + c) mod 2^32, then read as i32

Source: Java SE, String.hashCode; RocketMQ IndexFile.indexKeyHashMethod for the index.
"""

from struct import Struct

_CHUNK_UNITS = 32
"""Number of characters between reductions to 32 bits. Fewer reductions are faster, although the numbers grow."""
KNOWN_CHARACTERS_MAX = 256
"""Maximum length of cached texts. Clients can send texts of any length."""
_KNOWN_MAX = 16_384

_known: dict[str, int] = {}  # cache: text -> hash


def java_length(text: str) -> int:
    """Return the number of UTF-16 code units.

    >>> java_length("a\N{GRINNING FACE}")
    3
    """
    return len(text.encode("utf-16-be", "surrogatepass")) // 2


def java_hash(text: str) -> int:
    """Return Java's hash of a text as a signed 32-bit integer. A lone surrogate counts as one code unit.

    >>> java_hash("TagA"), java_hash("polygenelubricants")
    (2598919, -2147483648)
    """
    h = _known_hash(text)
    return _cache_java_hash(text) if h is None else h


_known_hash = _known.get


def _cache_java_hash(text: str) -> int:
    h = _compute_hash(text)
    if len(text) <= KNOWN_CHARACTERS_MAX:
        if len(_known) >= _KNOWN_MAX:
            _known.clear()
        _known[text] = h
    return h


def _compute_hash(text: str) -> int:
    units = _code_units(text)
    h = 0
    for start in range(0, len(units), _CHUNK_UNITS):
        for unit in units[start : start + _CHUNK_UNITS]:
            h = 31 * h + unit
        h &= 0xFFFFFFFF
    return h - 0x1_0000_0000 if h >= 0x8000_0000 else h


def index_hash(key: str) -> int:
    """Return the hash of `topic#key`: the absolute value of `java_hash`, or 0 if `java_hash` is -2^31.

    >>> index_hash("polygenelubricants")
    0
    """
    h = abs(java_hash(key))
    return 0 if h > 0x7FFFFFFF else h


def _code_units(text: str) -> bytes | tuple[int, ...]:
    if text.isascii():
        return text.encode("ascii")
    raw = text.encode("utf-16-be", "surrogatepass")
    units: tuple[int, ...] = Struct(f">{len(raw) // 2}H").unpack(raw)
    return units
