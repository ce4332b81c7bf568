"""What breaches of one kind have in common."""

import pytest

from tornlog.faults.probe.checks.check import BROKEN, DIED, HELD, CheckOutcome


@pytest.mark.parametrize(
    ("line", "signature"),
    [
        ("order 7 is lost", "order # is lost"),
        ("'ann' is lost", "'…' is lost"),
        (r"""key b'a\'b' has "x" """, "key '…' has '…' "),
        ("at 0x7f3a", "at #"),
        ("lost: [1]", "lost: [#, …]"),
        ("lost: [1, 2, 30]", "lost: [#, …]"),
        ("lost: {'a', 'b'} of (1, 2)", "lost: {'…', …} of (#, …)"),
        ("it's gone", "it's gone"),
    ],
)
def test_numbers_and_quoted_texts_make_no_other_kind(line: str, signature: str) -> None:
    assert CheckOutcome(BROKEN, (line, "more")).signature == signature


def test_all_but_what_held_is_broken() -> None:
    assert not CheckOutcome(HELD).is_broken
    assert CheckOutcome(DIED).is_broken
    assert CheckOutcome(DIED).signature == "died"
