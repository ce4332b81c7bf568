"""State digest: a digest of all guarantees at one moment.

An image is judged the same under equal digests. Unanswered puts without a known place are left out. One more of them
allows more records in a store and requires none. An image with its record was made after the put was asked for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from hashlib import blake2b

from ...faults.disk.image import DamagedRange
from .ledger import Ledger
from .put_entry import PutEntry


def state_digest_of(ledger: Ledger, damage: Sequence[DamagedRange]) -> str:
    """Return the digest of everything that a recovery is judged by. damage: the damage of durable data."""
    return blake2b(repr((_facts(ledger), list(damage))).encode(), digest_size=16).hexdigest()


def _facts(value: object) -> object:
    """Return the compared facts of a state as nested lists of text, without the order of sets and mappings."""
    if is_dataclass(value) and not isinstance(value, type):
        return [_facts(getattr(value, one.name)) for one in fields(value) if one.compare]
    if isinstance(value, Mapping):
        return sorted(([_facts(key), _facts(one)] for key, one in value.items()), key=repr)
    if isinstance(value, set):
        return sorted(value)
    if isinstance(value, list | tuple):
        return [_facts(one) for one in value if not (isinstance(one, PutEntry) and _is_unknown(one))]
    return repr(value)


def _is_unknown(put: PutEntry) -> bool:
    return put.status is None and put.physical_offset is None
