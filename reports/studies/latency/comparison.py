"""What puts took on this machine beside what the simulation makes of it."""

from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .here import Turn, setup_of
from .quantiles import SHARES, percentiles_us
from .setup import FLUSHES


class LatencyComparison(NamedTuple):
    """One way to flush, from so many producers; latencies in ns, of the same arrivals."""

    flush: str
    producers: int
    rate: float
    real_ns: "array[int]"
    simulated_ns: "array[int]"

    def ratios(self) -> list[float]:
        """Return, for each of SHARES, the simulated percentile over the real one."""
        simulated, real = percentiles_us(self.simulated_ns), percentiles_us(self.real_ns)
        return [one / other for one, other in zip(simulated, real, strict=True)]


def compared(turns: Sequence[Turn]) -> Iterable[LatencyComparison]:
    """Yield a comparison for each number of producers and way to flush, of all turns together."""
    for producers in sorted({turn.producers for turn in turns}):
        mine = [turn for turn in turns if turn.producers == producers]
        for flush in FLUSHES:
            real, simulated = array("q"), array("q")
            for turn in mine:
                real += turn.real[flush]
                simulated += turn.simulated(flush)
            yield LatencyComparison(flush, producers, setup_of(flush, producers, 0).rate, real, simulated)


COLUMNS = ("p50", "p90", "p99", "p99.9")
assert len(COLUMNS) == len(SHARES)
