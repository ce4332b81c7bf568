"""Whether a record is all that a program did: what it comes to, held against what is really there."""

from collections.abc import Iterator

from ..disk.image import Image


def differences(recorded: Image, found: Image) -> Iterator[str]:
    """Yield where a directory is not what its record comes to: names that miss, and first bytes that differ."""
    for path in sorted({*recorded.directories, *found.directories}):
        yield from _name(path, "directory", path in recorded.directories, path in found.directories)
    for path in sorted({*recorded.files, *found.files}):
        one, other = recorded.files.get(path), found.files.get(path)
        if one is None or other is None:
            yield from _name(path, "file", one is not None, other is not None)
        elif one.content != other.content:
            yield _content(path, one.content, other.content)


def _name(path: str, what: str, is_recorded: bool, is_found: bool) -> Iterator[str]:
    if is_found and not is_recorded:
        yield f"{path}: expected no such {what}, found one"
    elif is_recorded and not is_found:
        yield f"{path}: expected a {what}, found none"


def _content(path: str, recorded: bytes, found: bytes) -> str:
    offset = first_difference(recorded, found)
    size = f" (sizes: expected {len(recorded)}, found {len(found)})" if len(recorded) != len(found) else ""
    return f"{path} @ {offset}: expected {_byte(recorded, offset)}, found {_byte(found, offset)}{size}"


def first_difference(one: bytes, other: bytes) -> int:
    """Return the first offset at which two contents differ, by bisection; the shorter one's end if it is a prefix."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low


def _byte(content: bytes, offset: int) -> str:
    return f"{content[offset]:#04x}" if offset < len(content) else "the file's end"
