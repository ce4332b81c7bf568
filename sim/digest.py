"""The rolling digest: two runs with the same digest made the same decisions and the same file operations."""

import hashlib
import sys
from array import array
from collections.abc import Callable

_FOLDED_AT_WORDS = 8192


class RollingDigest:
    """Invariant: hash(folded words) continued with the pending words is the digest so far."""

    __slots__ = ("_hash", "_kept", "_words", "note")

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._words: list[int] = []
        self._kept: array[int] | None = None
        self.note: Callable[[tuple[int, int]], None] = self._words.extend
        """Takes two integers, 0 <= x < 2**64. Others are an OverflowError, a little later."""

    def fold(self) -> None:
        """Fold what was noted into the hash, if it has become much; to be called now and then."""
        words = self._words
        if len(words) >= _FOLDED_AT_WORDS:
            self._hash.update(_little_endian(words))
            if self._kept is not None:
                self._kept.extend(words)
            words.clear()

    def digest(self) -> str:
        """Return the digest of everything noted so far, in hex."""
        so_far = self._hash.copy()
        so_far.update(_little_endian(self._words))
        return so_far.hexdigest()

    def keep_words(self) -> None:
        """Keep every word from the first on, to compare runs whose digests differ; nothing may be noted yet."""
        assert not self._words, "the first words are gone"
        self._kept = array("Q")

    def kept_words(self) -> "array[int]":
        """Return every word noted so far; `keep_words` was called."""
        assert self._kept is not None, "words were not kept"
        return self._kept + array("Q", self._words)

    def count_words(self) -> int:
        """Return how many words were noted so far; `keep_words` was called."""
        assert self._kept is not None, "words were not kept"
        return len(self._kept) + len(self._words)


def _little_endian(words: list[int]) -> bytes:
    packed = array("Q", words)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()
