"""The table of promises by disk: what is promised where, and what it shows if that breaks."""

from collections import Counter

from tornlog.reports.html.coverage import PromiseCell, Promises, promises_table
from tornlog.scenarios.claims.disk_models import DISK_MODELS
from tornlog.scenarios.oracle.invariants import INVARIANTS


def cell(table: Promises, invariant: str, disk: str) -> PromiseCell:
    (row,) = [row for row in table.rows if row.invariant == invariant]
    return row.cells[[column.name for column in table.disks].index(disk)]


def test_every_invariant_and_every_disk_has_its_place() -> None:
    table = promises_table({}, {}, {})
    assert [row.invariant for row in table.rows] == list(INVARIANTS)
    assert [disk.name for disk in table.disks] == list(DISK_MODELS)
    assert {len(row.cells) for row in table.rows} == {len(DISK_MODELS)}


def test_a_promise_holds_only_where_seeds_tried_it() -> None:
    tried = {("DUR", "xfs"): 5, ("DUR", "dying-disk"): 2}
    table = promises_table({"xfs": 7, "dying-disk": 2}, tried, {})
    assert cell(table, "DUR", "xfs") == PromiseCell("held", 5, 0)
    assert cell(table, "VIS", "xfs") == PromiseCell("untried", 0, 0)
    assert cell(table, "DUR", "dying-disk") == PromiseCell("intact", 2, 0)
    assert cell(table, "DUR", "btrfs") == PromiseCell("unjudged", 0, 0)
    assert cell(table, "DUR", "lying-disk") == PromiseCell("none", 0, 0)
    assert cell(table, "TX", "dying-disk") == PromiseCell("none", 0, 0)


def test_what_broke_is_shown_where_it_did_and_nowhere_else() -> None:
    tried = {(invariant, disk): 3 for invariant in INVARIANTS for disk in ("xfs", "btrfs")}
    table = promises_table({"xfs": 7, "btrfs": 3}, tried, {("DUR", "xfs"): 2})
    assert cell(table, "DUR", "xfs") == PromiseCell("broken", 3, 2)
    states = Counter(cell.state for row in table.rows for cell in row.cells)
    assert states["broken"] == 1
    assert states["held"] == 2 * len(INVARIANTS) - 1
