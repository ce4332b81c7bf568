"""Host: encodes the socket address of a record, and the offset message id.

    address: 4 or 16 address bytes, then an i32 port; as text `address|port`.

    offset  bytes  field of an id, upper-case hex of big-endian bytes
    0       a      address of the storeHost, 4 or 16 bytes
    a       4      port of the storeHost
    a+4     8      physicalOffset of the record

IPv6 text has Java's form of eight unpadded groups without `::`, like the output of RocketMQ's tools. A message id has
32 characters for IPv4 and 56 for IPv6. The id of a batch consists of the ids of its messages, separated by `,`.
Source: RocketMQ MessageExt.socketAddress2ByteBuffer, Java Inet6Address.getHostAddress;
MessageDecoder.createMessageId and decodeMessageId.
"""

import re
from ipaddress import ip_address
from struct import Struct
from typing import NamedTuple

IPV4_BYTES = 4
IPV6_BYTES = 16
MAX_PORT = 65535

_PLACE = Struct(">iq")  # port, physicalOffset
_ADDRESS_BYTES = {(size + _PLACE.size) * 2: size for size in (IPV4_BYTES, IPV6_BYTES)}
_HEX = re.compile(r"[0-9A-Fa-f]+")


class Host(NamedTuple):
    """An address (4 or 16 bytes in network order) and a port."""

    address: bytes
    port: int

    @classmethod
    def parse(cls, text: str) -> "Host":
        """Parse `address|port`. Raises ValueError with the wrong part.

        >>> Host.parse("127.0.0.1|10911")
        Host(address=b'\\x7f\\x00\\x00\\x01', port=10911)
        >>> str(Host.parse("2001:db8::1|40001"))
        '2001:db8:0:0:0:0:0:1|40001'
        """
        address, bar, port = text.rpartition("|")
        if not bar:
            raise ValueError(f"host {text!r}: expected address|port")
        if not (port.isascii() and port.isdigit()) or int(port) > MAX_PORT:
            raise ValueError(f"host {text!r}: expected a port of 0 to {MAX_PORT}, found {port!r}")
        return cls(ip_address(address).packed, int(port))

    @classmethod
    def of_address(cls, address: str) -> "Host":
        """Parse `address:port`, with brackets around an IPv6 address. Raises ValueError with the wrong part."""
        host, colon, port = address.rpartition(":")
        if not colon:
            raise ValueError(f"address {address!r}: expected host:port")
        return cls.parse(f"{host.removeprefix('[').removesuffix(']')}|{port}")

    @property
    def is_ipv6(self) -> bool:
        """Whether this is an IPv6 host. The sysFlag of the host's record must match."""
        return len(self.address) == IPV6_BYTES

    def __str__(self) -> str:
        if self.is_ipv6:
            groups = (self.address[at : at + 2] for at in range(0, IPV6_BYTES, 2))
            return ":".join(f"{int.from_bytes(group):x}" for group in groups) + f"|{self.port}"
        return ".".join(map(str, self.address)) + f"|{self.port}"


def encode_message_id(store_host: Host, physical_offset: int) -> str:
    """Return the offset message id of a record.

    >>> encode_message_id(Host.parse("10.0.0.1|10911"), 4096)
    '0A00000100002A9F0000000000001000'
    """
    return (store_host.address + _PLACE.pack(store_host.port, physical_offset)).hex().upper()


def decode_message_id(text: str) -> tuple[Host, int]:
    """Decode a message id. Raises ValueError if the id is not 32 or 56 hex digits."""
    address_bytes = _ADDRESS_BYTES.get(len(text))
    if address_bytes is None:
        raise ValueError(f"message id {text!r}: expected 32 or 56 hex digits, found {len(text)} characters")
    if not _HEX.fullmatch(text):
        raise ValueError(f"message id {text!r}: expected only hex digits")
    raw = bytes.fromhex(text)
    port, physical_offset = _PLACE.unpack_from(raw, address_bytes)
    return Host(raw[:address_bytes], port), physical_offset
