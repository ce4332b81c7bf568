"""hosts-swapped: a record has the host that stores where the host should be where its message was born."""

from dataclasses import replace

from ...store.log import commit_log
from ...store.log.commit_log import _encode_one
from ...store.message import Message
from .mutant import Mutant, Patch


def _encode(head: Message, sys_flag: int, flag: int, body: bytes, properties: bytes) -> bytearray:
    if head.born_host.is_ipv6 == head.store_host.is_ipv6:
        head = replace(head, born_host=head.store_host, store_host=head.born_host)
    return _encode_one(head, sys_flag, flag, body, properties)


MUTANT = Mutant(
    "hosts-swapped",
    "record format",
    "bornHost and storeHost change places where both are of one family",
    (Patch(commit_log, "_encode_one", _encode),),
    None,
    ("DUR", "PREFIX"),
)
