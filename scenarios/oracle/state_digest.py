"""The state digest: what is promised at one moment. The same image is judged alike under equal ones.

Left out are puts without an answer of which nothing is known: one more of them lets more be found in a
store, and demands nothing; an image that has its record was made after it was asked for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from hashlib import blake2b

from ...faults.disk.image import DamagedRange
from .ledger import Ledger
from .put_entry import PutEntry


def state_digest_of(ledger: Ledger, damage: Sequence[DamagedRange]) -> str:
    """Return the digest of what a recovery is going to be judged by; damage: what was done to durable bytes."""
    return blake2b(repr((_facts(ledger), list(damage))).encode(), digest_size=16).hexdigest()


def _facts(value: object) -> object:
    """Return what equal states have alike, as nested lists of text; sets and mappings have no order in it."""
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
