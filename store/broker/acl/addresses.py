"""White lists: patterns of IP addresses, as plain_acl.yml spells them.

    (blank)                 nobody
    *  *.*.*.*              everybody, as is *:*:*:*:*:*:*:*
    10.0.0.7                one address
    10.0.0.7,10.0.0.8       several
    10.0.0.{7,8}            several that differ in their last part
    10.0.*.*  10.0.0-5.*    ranges: after the first part that is one, only * may follow
    ::1  fe80::{1,2}  2001:db8:*:*:*:*:*:*  2001:db8:0-ff:*:*:*:*:*      the same of IPv6, parts in hex

RocketMQ passes over what follows the first range; here it is an error if it says anything.
Source: RocketMQ RemoteAddressStrategyFactory.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

Parts = tuple[int, ...]


class AddressPatternError(ValueError):
    """A pattern that means no addresses."""

    def __init__(self, pattern: str, why: str) -> None:
        super().__init__(f"address: expected {why}, found {pattern!r}")


def address_parts(host: str) -> Parts | None:
    """Return the four or eight numbers of an IP address, brackets or not; None if it is none."""
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is None:
            groups = address.exploded.partition("%")[0].split(":")
            return tuple(int(group, 16) for group in groups)
        address = address.ipv4_mapped
    assert isinstance(address, IPv4Address)
    return tuple(address.packed)


@dataclass(frozen=True, slots=True)
class AddressPattern:
    """What is allowed for each part of an address; several such rows, or None for every address."""

    rows: tuple[tuple[Container[int], ...], ...] | None

    def matches(self, parts: Parts | None) -> bool:
        """Return whether an address is meant."""
        if self.rows is None:
            return True
        return parts is not None and any(
            len(row) == len(parts) and all(part in allowed for part, allowed in zip(parts, row, strict=True))
            for row in self.rows
        )


NOBODY = AddressPattern(())


def parse_address_pattern(text: str) -> AddressPattern:
    """Read a pattern. Raises AddressPatternError."""
    text = text.strip()
    if not text:
        return NOBODY
    if text in ("*", "*.*.*.*", "*:*:*:*:*:*:*:*"):
        return AddressPattern(None)
    if "{" not in text and "," in text:
        return AddressPattern(tuple(_row(one.strip(), text) for one in text.split(",")))
    return AddressPattern((_row(text, text),))


def _row(one: str, pattern: str) -> tuple[Container[int], ...]:
    if ":" in one:
        parts, base, most = _ipv6_parts(one, pattern), 16, 0xFFFF
    else:
        parts, base, most = one.split("."), 10, 0xFF
        if len(parts) != 4:
            raise AddressPatternError(pattern, "four parts")
    row = tuple(
        _allowed(part, base, most, pattern, is_last=n == len(parts) - 1) for n, part in enumerate(parts)
    )
    first_range = next((n for n, part in enumerate(parts) if part == "*" or "-" in part), len(parts))
    if any(part != "*" for part in parts[first_range + 1 :]):
        raise AddressPatternError(pattern, "nothing but * after a range")
    return row


def _ipv6_parts(one: str, pattern: str) -> Sequence[str]:
    head, gap, tail = one.partition("::")
    before, after = (side.split(":") if side else [] for side in (head, tail))
    missing = 8 - len(before) - len(after)
    if missing < 0 or (missing > 0) != bool(gap):
        raise AddressPatternError(pattern, "eight parts")
    return [*before, *["0"] * missing, *after]


def _allowed(part: str, base: int, most: int, pattern: str, *, is_last: bool) -> Container[int]:
    if part == "*":
        return range(most + 1)
    if part.startswith("{") and part.endswith("}") and is_last:
        return frozenset(_number(one.strip(), base, most, pattern) for one in part[1:-1].split(","))
    low, dash, high = part.partition("-")
    first = _number(low.strip(), base, most, pattern)
    last = _number(high.strip(), base, most, pattern) if dash else first
    if first > last:
        raise AddressPatternError(pattern, "a range that goes up")
    return range(first, last + 1)


def _number(text: str, base: int, most: int, pattern: str) -> int:
    digits = "0123456789abcdefABCDEF" if base == 16 else "0123456789"
    if not 1 <= len(text) <= 4 or any(digit not in digits for digit in text) or int(text, base) > most:
        raise AddressPatternError(
            pattern, f"parts of 0 to {most:x}" if base == 16 else f"parts of 0 to {most}"
        )
    return int(text, base)
