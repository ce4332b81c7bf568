"""Tables of turns: rows of CSV files, terminal output, and sentences about conditions that were not reached."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from ....cli.console import plain_table
from ....quantities import count_text, duration_text
from ..tables import curve_of
from .file_system import SyncCosts
from .memory_limit import Pressure
from .paired import MedianRatio, PairedDifference
from .puts import INTERVAL_NS, TAIL_COLUMNS, joined
from .turns import MODEL_SOURCE, OWN_SOURCE, RATES, MeasuredCell, MeasuredTurn

_CELL = ("source", "disk", "flush", "warmed", "memory_mib", "load_mib_per_s", "producers")
HEADER = (
    *_CELL,
    *("rate_per_s", "turns", "puts", *(f"{one}_us" for one in TAIL_COLUMNS), "max_us"),
    *Pressure._fields,
    *("load_written_mib_per_s", "dirty_share_max", "load_average"),
)
"""One row per cell. Percentiles without a slower put, and figures of absent limits and neighbours, are empty."""
INTERVAL_HEADER = (*_CELL, "turn", "start_s", "puts_per_s", "slowest_us", "pause_us")
"""One row per 100 ms of each turn."""
CURVE_HEADER = (*_CELL, "latency_us", "share_slower")
"""One row per point of a curve."""
PAIRED_HEADER = (
    *("claim", "source", "memory_mib", "load_mib_per_s", "producers", "percentile", "turns"),
    *("median_ratio", "low", "high", "verdict"),
)
MODEL_HEADER = ("flush", "warmed", "memory_mib", "load_mib_per_s", "producers", *TAIL_COLUMNS)
"""One row per simulated cell: each percentile as a multiple of this store's."""
_MIB = 1 << 20
_RATE_REACHED = 0.9
"""A neighbour that wrote a smaller share of its rate is reported."""
_PRINTED_PERCENTILES = ("p50", "p99", "p99.9")
Row = Sequence[Any]


class CellTurns(NamedTuple):
    """All turns of one cell."""

    cell: MeasuredCell
    turns: list[MeasuredTurn]

    def tail_us(self) -> list[float | None]:
        return joined([turn.puts for turn in self.turns]).tail_us()

    def max_us(self) -> float:
        return max(max(turn.puts.latencies_ns) for turn in self.turns) / 1_000

    def pressure(self) -> Pressure:
        return Pressure(*map(sum, zip(*(turn.pressure for turn in self.turns), strict=True)))

    def load_rate(self) -> float | None:
        """Return the bytes per second that the neighbour wrote."""
        loads = [turn.load for turn in self.turns if turn.load is not None]
        return sum(load.written_bytes for load in loads) / sum(load.seconds for load in loads) if loads else None

    def dirty_share(self) -> float | None:
        return max((turn.load.dirty_share_max for turn in self.turns if turn.load is not None), default=None)


def by_cell(turns: Iterable[MeasuredTurn]) -> list[CellTurns]:
    found: dict[MeasuredCell, list[MeasuredTurn]] = {}
    for turn in turns:
        found.setdefault(turn.cell, []).append(turn)
    return [CellTurns(cell, mine) for cell, mine in found.items()]


def cell_rows(cells: Iterable[CellTurns]) -> Iterator[Row]:
    for one in cells:
        limited = one.cell.condition.memory_bytes is not None and one.cell.source != MODEL_SOURCE
        load_rate, share = one.load_rate(), one.dirty_share()
        yield (
            *_cell_fields(one.cell),
            *(RATES[one.cell.mode.flush], len(one.turns), sum(len(turn.puts.latencies_ns) for turn in one.turns)),
            *("" if us is None else round(us, 1) for us in (*one.tail_us(), one.max_us())),
            *(one.pressure() if limited else [""] * len(Pressure._fields)),
            "" if load_rate is None else round(load_rate / _MIB, 1),
            "" if share is None else round(share, 4),
            round(sum(turn.load_average for turn in one.turns) / len(one.turns), 2),
        )


def _cell_fields(cell: MeasuredCell) -> Row:
    memory_mib, load_mib = (
        "" if size is None else size // _MIB for size in (cell.condition.memory_bytes, cell.condition.load_bytes)
    )
    return cell.source, "here", cell.mode.flush, int(cell.mode.warm), memory_mib, load_mib, cell.producers


def curve_rows(cells: Iterable[CellTurns]) -> Iterator[Row]:
    for one in cells:
        curve = curve_of(joined([turn.puts for turn in one.turns]).latencies_ns)
        for us, share in zip(curve.us, curve.share, strict=True):
            yield *_cell_fields(one.cell), us, round(share, 6)


def interval_rows(cells: Iterable[CellTurns]) -> Iterator[Row]:
    for one in cells:
        for turn in one.turns:
            for number, interval in enumerate(turn.puts.intervals()):
                yield (
                    *_cell_fields(one.cell),
                    *(turn.number, number * INTERVAL_NS / 1e9, interval.puts * 1_000_000_000 // INTERVAL_NS),
                    *(round(ns / 1_000, 1) for ns in (interval.slowest_ns, interval.pause_ns)),
                )


def model_rows(cells: Sequence[CellTurns]) -> Iterator[Row]:
    measured = {one.cell: one.tail_us() for one in cells if one.cell.source == OWN_SOURCE}
    for one in cells:
        if one.cell.source == MODEL_SOURCE:
            _, _, *fields = _cell_fields(one.cell)
            pairs = zip(one.tail_us(), measured[one.cell._replace(source=OWN_SOURCE)], strict=True)
            yield *fields, *("" if us is None or real is None else round(us / real, 3) for us, real in pairs)


def paired_rows(differences: Iterable[PairedDifference]) -> Iterator[Row]:
    for one in differences:
        memory_mib, load_mib = ("" if size is None else size // _MIB for size in one.condition)
        bounds = ["", ""] if one.ratio.interval is None else [round(bound, 3) for bound in one.ratio.interval]
        yield (
            *(one.claim, one.source, memory_mib, load_mib, one.producers, one.percentile, one.turns),
            *(round(one.ratio.median, 3), *bounds, one.ratio.verdict()),
        )


def notes(cells: Sequence[CellTurns]) -> list[str]:
    """Return a sentence for each limit that was never reached, and for the neighbours."""
    found = []
    for one in cells:
        condition, name = one.cell.condition, f"{one.cell.source}, {one.cell.mode.text()}"
        is_simulated = one.cell.source == MODEL_SOURCE
        if condition.memory_bytes is not None and not is_simulated and one.pressure().limit_hits == 0:
            found.append(f"{name}, {condition.text()}: the limit was never reached")
    for load_bytes in dict.fromkeys(one.cell.condition.load_bytes for one in cells):
        mine = [one for one in cells if load_bytes is not None and one.cell.condition.load_bytes == load_bytes]
        if mine:
            found.append(_neighbour_note(mine[0], load_bytes or 0))
    return found


def sync_notes(costs: SyncCosts | None) -> list[str]:
    """Return the costs of syncs in sentences."""
    if costs is None:
        return ["the system does not count the disk's requests; the model assumes a file system with a journal"]
    kinds = "; ".join(
        f"{one.kind} {count_text(one.writes, 'write')}, {count_text(one.flushes, 'flush', 'flushes')}, "
        f"{duration_text(one.us)}"
        for one in costs
    )
    return [f"a sync of one page: {kinds}; the file system has {'a' if costs.has_journal else 'no'} journal"]


def _neighbour_note(one: CellTurns, load_bytes: int) -> str:
    rate, share = one.load_rate() or 0.0, one.dirty_share() or 0.0
    less = "" if rate >= _RATE_REACHED * load_bytes else f" of the {load_bytes / _MIB:.0f} MiB/s allowed"
    reached = "reached" if share >= 1 else "never reached"
    return (
        f"the neighbour wrote {rate / _MIB:.0f} MiB/s{less}; dirty pages {reached} the limit at which writers pause "
        f"(at most {100 * share:.0f} % of it)"
    )


def print_turns(console: Console, cells: Sequence[CellTurns], differences: Sequence[PairedDifference]) -> None:
    for condition, producers in dict.fromkeys((one.cell.condition, one.cell.producers) for one in cells):
        title = f"{condition.text()}, {count_text(producers, 'producer')}"
        table = plain_table(title, ("store", "mode"), (*_PRINTED_PERCENTILES, "p99.99", "most", "limit hits"))
        for one in cells:
            if (one.cell.condition, one.cell.producers) == (condition, producers):
                tail_us = dict(zip(TAIL_COLUMNS, one.tail_us(), strict=True))
                shown = [*(tail_us[name] for name in (*_PRINTED_PERCENTILES, "p99.99")), one.max_us()]
                figures = ["" if us is None else duration_text(us) for us in shown]
                hits = "" if condition.memory_bytes is None else f"{one.pressure().limit_hits:,}"
                table.add_row(one.cell.source, one.cell.mode.text(), *figures, hits)
        console.print(table)
        mine = [one for one in differences if (one.condition, one.producers) == (condition, producers)]
        if mine:
            console.print(_paired_table(mine))


def _paired_table(differences: Sequence[PairedDifference]) -> Table:
    title = "the same: warmed (C5) and pool (C7) as a multiple of async; *: the interval excludes 1"
    table = plain_table(title, ("claim", "store"), _PRINTED_PERCENTILES)
    for claim, source in dict.fromkeys((one.claim, one.source) for one in differences):
        cells = {one.percentile: one.ratio for one in differences if (one.claim, one.source) == (claim, source)}
        table.add_row(claim, source, *(_ratio_text(cells[name]) for name in _PRINTED_PERCENTILES))
    return table


def _ratio_text(ratio: MedianRatio) -> str:
    if ratio.interval is None:
        return f"{ratio.median:.2f}"
    low, high = ratio.interval
    return f"{ratio.median:.2f}{'' if low <= 1 <= high else '*'} ({low:.2f}-{high:.2f})"
