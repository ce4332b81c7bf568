import pytest

from tornlog.sim.digest import RollingDigest


def digest_of(*notes: tuple[int, int]) -> str:
    digest = RollingDigest()
    for word, detail in notes:
        digest.note((word, detail))
        digest.fold()
    return digest.digest()


def test_the_digest_depends_on_every_note_and_their_order() -> None:
    digests = {
        digest_of(),
        digest_of((1, 2)),
        digest_of((2, 1)),
        digest_of((1, 2), (3, 4)),
        digest_of((3, 4), (1, 2)),
    }

    assert len(digests) == 5
    assert digest_of((1, 2)) == "f59df9f51bfcb52f7ae49756810ec78b"


def test_asking_for_the_digest_does_not_change_it() -> None:
    digest = RollingDigest()
    for number in range(10_000):
        digest.note((number, 0))
        digest.fold()
        if number % 1000 == 0:
            digest.digest()

    assert digest.digest() == digest.digest() == digest_of(*((number, 0) for number in range(10_000)))


def test_a_note_that_does_not_fit_in_64_bits_is_an_error() -> None:
    digest = RollingDigest()
    digest.note((1 << 64, 0))

    with pytest.raises(OverflowError):
        digest.digest()
