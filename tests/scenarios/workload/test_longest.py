"""Properties near the length limit of a record."""

from itertools import product

import pytest

from tornlog.scenarios.oracle.put_entry import PROPERTIES_MAX, java_length, refusal
from tornlog.scenarios.workload.sizes import LongestProperties
from tornlog.store.formats.messages import PutMessageStatus

ILLEGAL, TOO_LONG = PutMessageStatus.MESSAGE_ILLEGAL, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED


@pytest.mark.parametrize(
    ("filler", "by_bytes", "by"),
    list(product(("p", "\N{CJK UNIFIED IDEOGRAPH-4E3B}", "\N{GRINNING FACE}"), (True, False), (-1, 0, 1))),
)
def test_properties_are_padded_to_the_required_length(filler: str, by_bytes: bool, by: int) -> None:
    pieces, behind = ("KEYS\1m0", "TAGS\1schlüssel"), ("batch\1all",)

    filling = LongestProperties(filler, by_bytes, PROPERTIES_MAX + by).filling_property(pieces, behind)

    text = "\2".join((*pieces, filling, *behind))
    assert (len(text.encode()) if by_bytes else java_length(text)) == PROPERTIES_MAX + by


@pytest.mark.parametrize(
    ("properties", "alone", "in_batch"),
    [
        ("p" * 32_767, None, None),
        ("p" * 32_768, ILLEGAL, ILLEGAL),
        ("中" * 10_923, TOO_LONG, ILLEGAL),
        ("中" * 32_768, ILLEGAL, ILLEGAL),
        ("\N{GRINNING FACE}" * 16_383, TOO_LONG, ILLEGAL),
        ("\N{GRINNING FACE}" * 16_384, ILLEGAL, ILLEGAL),
    ],
    ids=("as many as fit", "a character more", "a byte more", "characters", "surrogates", "too many surrogates"),
)
def test_properties_are_refused_for_their_characters_then_for_their_bytes(
    properties: str, alone: PutMessageStatus | None, in_batch: PutMessageStatus | None
) -> None:
    raw = properties.encode()

    assert refusal("T", [raw], is_possible=True) is alone
    assert refusal("T", [b"", raw], in_batch=True, is_possible=True) is in_batch
    assert refusal("t" * 128, [raw], is_possible=False) is ILLEGAL
    assert refusal("T", [raw], is_possible=False) is (alone or ILLEGAL)
