"""Signatures of breaches."""

import pytest

from tornlog.faults.probe.checks.check import BROKEN, DIED, HELD, NO_TEXT, CheckOutcome


@pytest.mark.parametrize(
    ("line", "signature"),
    [
        ("order 7 is lost", "order # is lost"),
        ("'ann' is lost", "'…' is lost"),
        (r"""key b'a\'b' has "x" """, "key '…' has '…'"),
        ("at 0x7f3a", "at #"),
        ("lost: [1]", "lost: [#, …]"),
        ("lost: [1, 2, 30]", "lost: [#, …]"),
        ("lost: {'a', 'b'} of (1, 2)", "lost: {'…', …} of (#, …)"),
        ("it's gone", "it's gone"),
        ("can't open 'a': isn't there", "can't open '…': isn't there"),
        ("can't open /dev/shm/a/log: gone", "can't open …: gone"),
        ("read/write error, see http://host/a", "read/write error, see http://host/a"),
        ("sst_00ffab12.sst: bad", "sst_#.sst: bad"),
        ("id 6e0ac3c6-02a6-4d57-a34b-c2a1c7a25ad4 is lost", "id # is lost"),
        ("object 3f2a9c1be0 is dead", "object # is dead"),
    ],
)
def test_signatures_ignore_numbers_and_quoted_texts(line: str, signature: str) -> None:
    assert CheckOutcome(BROKEN, (line, "more")).signature == signature


def test_colours_are_removed_from_messages() -> None:
    coloured = CheckOutcome(BROKEN, ("\x1b[1m", "\x1b[31mlost:\x1b[0m \x1b]8;;file:///a\x1b\\a\x1b]8;;\x1b\\"))

    assert coloured.without_escape_sequences == CheckOutcome(BROKEN, ("lost: a",))
    assert CheckOutcome(BROKEN, ("\x1b[m",)).without_escape_sequences.lines == (NO_TEXT,)
    assert CheckOutcome(HELD).without_escape_sequences == CheckOutcome(HELD)


def test_every_outcome_except_held_counts_as_broken() -> None:
    assert not CheckOutcome(HELD).is_broken
    assert CheckOutcome(DIED).is_broken
    assert CheckOutcome(DIED).signature == "died"
