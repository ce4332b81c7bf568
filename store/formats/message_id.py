"""Offset message id: where a message is stored, as a put answers it. Upper-case hex of big-endian bytes.

    offset  bytes  field
    0       a      address of the storeHost, 4 or 16 bytes
    a       4      its port
    a+4     8      physicalOffset of the record

32 characters for IPv4, 56 for IPv6: the length tells them apart. A batch's id is its messages' joined by `,`.
Source: RocketMQ MessageDecoder.createMessageId and decodeMessageId.
"""

import re
from struct import Struct

from .host import IPV4_BYTES, IPV6_BYTES, Host

_PLACE = Struct(">iq")  # port, physicalOffset
_ADDRESS_BYTES = {(size + _PLACE.size) * 2: size for size in (IPV4_BYTES, IPV6_BYTES)}
_HEX = re.compile(r"[0-9A-Fa-f]+")


def encode_message_id(store_host: Host, physical_offset: int) -> str:
    """Return the id of the record at physical_offset of the broker at store_host.

    >>> encode_message_id(Host.parse("10.0.0.1|10911"), 4096)
    '0A00000100002A9F0000000000001000'
    """
    return (store_host.address + _PLACE.pack(store_host.port, physical_offset)).hex().upper()


def decode_message_id(text: str) -> tuple[Host, int]:
    """Return store host and physical offset of an id. ValueError unless it is 32 or 56 hex digits."""
    address_bytes = _ADDRESS_BYTES.get(len(text))
    if address_bytes is None:
        raise ValueError(f"message id {text!r}: expected 32 or 56 hex digits, found {len(text)} characters")
    if not _HEX.fullmatch(text):
        raise ValueError(f"message id {text!r}: expected only hex digits")
    raw = bytes.fromhex(text)
    port, physical_offset = _PLACE.unpack_from(raw, address_bytes)
    return Host(raw[:address_bytes], port), physical_offset
