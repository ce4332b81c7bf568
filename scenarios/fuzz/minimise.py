"""Of an input that breaks a promise, a smaller one that breaks the same one: fewer parts, fewer bytes, more zeros."""

from collections.abc import Callable, Sequence

from ...sim.shrink import Search
from .judging import FuzzViolation, judge_in_full
from .shape import ShapePart
from .target import Target

TRIES_MAX = 1500
_BYTEWISE_MAX = 4096
"""Up to this length an input is cut and zeroed byte by byte, a longer one by pieces."""
_PIECES = 64


def minimised(
    target: Target,
    raw: bytes,
    breach: FuzzViolation,
    *,
    tries_max: int = TRIES_MAX,
    stop: Callable[[], bool] = lambda: False,
) -> bytes:
    """Return the smallest input found that still has the breach's signature, raw itself if none has."""

    def still_breaks(candidate: bytes) -> bytes | None:
        judged = judge_in_full(target, candidate)
        is_same = isinstance(judged, FuzzViolation) and judged.signature == breach.signature
        return candidate if is_same else None

    search = Search(raw, still_breaks, tries_max=tries_max, stop=stop)
    before = None
    while before != search.best and not search.is_over:
        before = search.best
        search.drop_parts(lambda candidate: target.shape(candidate).parts, _keeping(target))
        if not target.keeps_length:
            search.lower(len(search.best), 0, lambda candidate, length: candidate[:length])
            search.drop_parts(_pieces, _keeping_pieces)
        search.drop_parts(_nonzero_pieces, _zeroing_others)
    return search.best


def _keeping(target: Target) -> Callable[[bytes, Sequence[ShapePart]], bytes]:
    """Return how a candidate becomes one with some of its parts only; what lies between parts stays."""

    def keep(candidate: bytes, kept: Sequence[ShapePart]) -> bytes:
        wanted, pieces, at = set(kept), [], 0
        for part in sorted(target.shape(candidate).parts):
            if part not in wanted:
                pieces.append(candidate[at : part.start])
                at = max(at, part.end)
        return b"".join((*pieces, candidate[at:]))

    return keep


def _pieces(candidate: bytes) -> list[ShapePart]:
    """Return the bytes of a candidate one by one, or as some pieces of equal length."""
    length = len(candidate)
    step = 1 if length <= _BYTEWISE_MAX else -(-length // _PIECES)
    return [ShapePart(at, min(at + step, length)) for at in range(0, length, step)]


def _keeping_pieces(candidate: bytes, kept: Sequence[ShapePart]) -> bytes:
    return b"".join(candidate[start:end] for start, end in kept)


def _nonzero_pieces(candidate: bytes) -> list[ShapePart]:
    return [part for part in _pieces(candidate) if any(candidate[part.start : part.end])]


def _zeroing_others(candidate: bytes, kept: Sequence[ShapePart]) -> bytes:
    data = bytearray(len(candidate))
    for start, end in kept:
        data[start:end] = candidate[start:end]
    return bytes(data)
