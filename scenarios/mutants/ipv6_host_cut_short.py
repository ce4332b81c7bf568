"""ipv6-host-cut-short: of an IPv6 address only the first eight bytes are kept, the network."""

from dataclasses import replace

from ...store.formats.host import Host
from ...store.log import commit_log
from ...store.log.commit_log import _encode_one
from ...store.message import Message
from .mutant import Mutant, Patch


def _encode(head: Message, sys_flag: int, flag: int, body: bytes, properties: bytes) -> bytearray:
    if head.born_host.is_ipv6:
        address = head.born_host.address[:8] + bytes(8)
        head = replace(head, born_host=Host(address, head.born_host.port))
    return _encode_one(head, sys_flag, flag, body, properties)


MUTANT = Mutant(
    "ipv6-host-cut-short",
    "record format",
    "the second half of every IPv6 bornHost is zeros",
    (Patch(commit_log, "_encode_one", _encode),),
    None,
    ("DUR", "PREFIX"),
)
