"""born-time-in-seconds: the time a message was born loses its milliseconds."""

from dataclasses import replace

from ...store.log import commit_log
from ...store.log.commit_log import _encode_one
from ...store.message import Message
from .mutant import Mutant, Patch


def _encode(head: Message, sys_flag: int, flag: int, body: bytes, properties: bytes) -> bytearray:
    born_ms = head.born_timestamp_ms // 1_000 * 1_000
    return _encode_one(replace(head, born_timestamp_ms=born_ms), sys_flag, flag, body, properties)


MUTANT = Mutant(
    "born-time-in-seconds",
    "record format",
    "every record says that its message was born at the beginning of a second",
    (Patch(commit_log, "_encode_one", _encode),),
    None,
    ("DUR", "PREFIX"),
)
