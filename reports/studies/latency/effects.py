"""What single measures do to latency: group commit, segments made and warmed ahead, and what slow syncs do."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ....faults.devices.models import MODELS
from ....store.message_store import MessageStore
from .grid import ALL_AT_ONCE, RATE_MAX
from .host import REFERENCE
from .setup import Setup
from .simulated import Series, simulate

_KIB = 1 << 10


class GroupCommit(NamedTuple):
    """What so many producers get from one disk under sync flush, each asking again as soon as it is answered."""

    disk: str
    producers: int
    puts_per_second: float
    puts_per_sync: float


class EffectSeries(NamedTuple):
    """One series beside others that differ from it in one thing."""

    name: str
    series: Series


def group_commit(disks: Sequence[str], producers: Sequence[int], puts: int) -> Iterator[GroupCommit]:
    """Yield what producers get, disk by disk."""
    for disk in disks:
        for number in producers:
            setup = Setup("sync", number, ALL_AT_ONCE, puts)
            series = simulate(setup, REFERENCE, MODELS[disk].make)
            yield GroupCommit(disk, number, series.rate, puts / max(series.syncs, 1))


def rollover(disk: str, puts: int) -> Iterator[EffectSeries]:
    """Yield the puts of one producer under async flush, over many segments that are small.

    Segments are made and warmed ahead of use; made ahead; or made by the put that needs one.
    """
    model = MODELS[disk].make
    for name, warm, prepare in (
        ("made and warmed ahead", True, None),
        ("made ahead", False, None),
        ("made when needed", False, _make_none_ahead),
    ):
        setup = Setup("async", 1, RATE_MAX / 8, puts, segment_bytes=256 * _KIB, warm=warm)
        yield EffectSeries(name, simulate(setup, REFERENCE, model, prepare=prepare))


def slow_syncs(disk: str, puts: int) -> Iterator[EffectSeries]:
    """Yield puts of four producers: every sync as usual, then one in a hundred taking up to half a second."""
    model = MODELS[disk].make
    for flush in ("sync", "async"):
        setup = Setup(flush, 4, 100.0, puts)
        yield EffectSeries(f"{flush}, all as usual", simulate(setup, REFERENCE, model))
        slow = simulate(setup, REFERENCE, model, slow_sync_chance=0.01, slow_sync_ms_max=500)
        yield EffectSeries(f"{flush}, 1 % of syncs slow", slow)


def _make_none_ahead(store: MessageStore) -> None:
    """Have a store order a segment only when it is needed, as no setting does: to see what ordering is worth."""
    store.allocate._budget = lambda: 1  # type: ignore[method-assign]
