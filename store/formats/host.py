"""A socket address as records and message ids keep it: 4 or 16 address bytes, then an i32 port.

Its text is `address|port`. IPv6 is written the way Java's InetAddress does, eight groups of hex without
padding and without `::`, so that it compares equal to what RocketMQ's own tools print.
Source: RocketMQ MessageExt.socketAddress2ByteBuffer, Java Inet6Address.getHostAddress.
"""

from ipaddress import ip_address
from typing import NamedTuple

IPV4_BYTES = 4
IPV6_BYTES = 16
MAX_PORT = 65535


class Host(NamedTuple):
    """An address (4 or 16 bytes, network order) and a port."""

    address: bytes
    port: int

    @classmethod
    def parse(cls, text: str) -> "Host":
        """Read `address|port`; any common spelling of an address will do. ValueError names a bad part.

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
        """Read `host:port`, an IPv6 host in brackets, as connections name their ends. ValueError names a bad part."""
        host, colon, port = address.rpartition(":")
        if not colon:
            raise ValueError(f"address {address!r}: expected host:port")
        return cls.parse(f"{host.removeprefix('[').removesuffix(']')}|{port}")

    @property
    def is_ipv6(self) -> bool:
        """Whether the address is an IPv6 one, which the record's sysFlag must then say."""
        return len(self.address) == IPV6_BYTES

    def __str__(self) -> str:
        if self.is_ipv6:
            groups = (self.address[at : at + 2] for at in range(0, IPV6_BYTES, 2))
            return ":".join(f"{int.from_bytes(group):x}" for group in groups) + f"|{self.port}"
        return ".".join(map(str, self.address)) + f"|{self.port}"
