"""index-first-key-only: a message is indexed by the first of its keys, and found by no other."""

from dataclasses import replace

from ...store.formats import index_key
from ...store.formats.index_key import keys_of
from ...store.index import index_recovery
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _keys_of(properties: bytes) -> list[bytes]:
    return keys_of(properties)[:1]


def _narrow(ranges: Ranges) -> Ranges:
    return replace(ranges, index_slots=(5, 40), equal_sizes=(False,))


MUTANT = Mutant(
    "index-first-key-only",
    "key index",
    "the index leads to each message by one key, though some have several",
    (Patch(index_key, "keys_of", _keys_of), Patch(index_recovery, "keys_of", _keys_of)),
    _narrow,
    ("IDX",),
)
