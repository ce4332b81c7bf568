"""The table of promises by disk: what is promised where, and what it shows if that breaks."""

from collections import Counter

from tornlog.reports.html.promises import Cell, Promises, promises_table
from tornlog.scenarios.claims.realities import REALITIES
from tornlog.scenarios.oracle.invariants import INVARIANTS


def cell(table: Promises, invariant: str, disk: str) -> Cell:
    (row,) = [row for row in table.rows if row.invariant == invariant]
    return row.cells[[column.name for column in table.disks].index(disk)]


def test_every_invariant_and_every_disk_has_its_place() -> None:
    table = promises_table({}, {}, {})
    assert [row.invariant for row in table.rows] == list(INVARIANTS)
    assert [disk.name for disk in table.disks] == list(REALITIES)
    assert {len(row.cells) for row in table.rows} == {len(REALITIES)}


def test_a_promise_holds_only_where_seeds_tried_it() -> None:
    tried = {("DUR", "xfs"): 5, ("DUR", "dying-disk"): 2}
    table = promises_table({"xfs": 7, "dying-disk": 2}, tried, {})
    assert cell(table, "DUR", "xfs") == Cell("held", 5, 0)
    assert cell(table, "VIS", "xfs") == Cell("untried", 0, 0)
    assert cell(table, "DUR", "dying-disk") == Cell("intact", 2, 0)
    assert cell(table, "DUR", "btrfs") == Cell("unjudged", 0, 0)
    assert cell(table, "DUR", "lying-disk") == Cell("none", 0, 0)
    assert cell(table, "TX", "dying-disk") == Cell("none", 0, 0)


def test_what_broke_is_shown_where_it_did_and_nowhere_else() -> None:
    tried = {(invariant, disk): 3 for invariant in INVARIANTS for disk in ("xfs", "btrfs")}
    table = promises_table({"xfs": 7, "btrfs": 3}, tried, {("DUR", "xfs"): 2})
    assert cell(table, "DUR", "xfs") == Cell("broken", 3, 2)
    states = Counter(cell.state for row in table.rows for cell in row.cells)
    assert states["broken"] == 1
    assert states["held"] == 2 * len(INVARIANTS) - 1
