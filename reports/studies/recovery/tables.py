"""Recoveries as rows: what CSV files and terminals get."""

from collections.abc import Iterable, Sequence
from typing import Any

from ..topics.grid import DEVICES
from .cold_reads import cold_read_s
from .timed import RecoveryTime

HEADER = (
    "exit",
    "recover_whole_log",
    "log_bytes",
    "behind_checkpoint_bytes",
    "scanned_bytes",
    "records",
    "total_s",
    "scan_s",
    "queues_s",
    "durable_s",
    "index_s",
    *(f"cold_read_{disk.replace('-', '_')}_s" for disk in DEVICES),
)
"""One row for each case. The parts are told in `reports/studies/recovery/timed.py`; cold_read is what a model of a
disk takes to read what was scanned, which was in memory here."""

TableRow = Sequence[Any]


def recovery_rows(found: Iterable[RecoveryTime]) -> list[TableRow]:
    """Return a row for each case. After a clean exit nothing is behind the checkpoint."""
    return [
        (
            "clean" if one.case.clean_exit else "crash",
            one.case.recover_whole_log,
            one.log_bytes,
            0 if one.case.clean_exit else min(one.case.behind_bytes, one.log_bytes),
            one.scanned_bytes,
            one.records,
            *(
                round(seconds, 4)
                for seconds in (one.total_s, one.scan_s, one.queues_s, one.durable_s, one.index_s)
            ),
            *(round(cold_read_s(disk, one.scanned_bytes), 4) for disk in DEVICES),
        )
        for one in found
    ]
