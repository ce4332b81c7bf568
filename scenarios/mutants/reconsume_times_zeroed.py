"""reconsume-times-zeroed: how often a message was consumed in vain begins anew in its record."""

from dataclasses import replace

from ...store.log import commit_log
from ...store.log.commit_log import _encode_one
from ...store.message import Message
from .mutant import Mutant, Patch


def _encode(head: Message, sys_flag: int, flag: int, body: bytes, properties: bytes) -> bytearray:
    return _encode_one(replace(head, reconsume_times=0), sys_flag, flag, body, properties)


MUTANT = Mutant(
    "reconsume-times-zeroed",
    "record format",
    "every record of a single message says that it was never consumed in vain",
    (Patch(commit_log, "_encode_one", _encode),),
    None,
    ("DUR", "PREFIX"),
)
