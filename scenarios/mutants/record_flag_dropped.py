"""record-flag-dropped: the user's flag of a message is not in its record."""

from ...store.log import commit_log
from ...store.log.commit_log import _encode_one
from ...store.message import Message
from .mutant import Mutant, Patch


def _encode(head: Message, sys_flag: int, flag: int, body: bytes, properties: bytes) -> bytearray:
    return _encode_one(head, sys_flag, 0, body, properties)


MUTANT = Mutant(
    "record-flag-dropped",
    "record format",
    "every record of a single message has a flag of 0, whatever its producer set",
    (Patch(commit_log, "_encode_one", _encode),),
    None,
    ("DUR", "PREFIX"),
)
