from collections import Counter

from tornlog.reports.results.coverage import promises_matrix
from tornlog.reports.results.model import Matrix, MatrixCell
from tornlog.scenarios.claims.disk_models import DISK_MODELS
from tornlog.scenarios.oracle.invariants import INVARIANTS


def cell(table: Matrix, invariant: str, disk: str) -> MatrixCell:
    (row,) = [row for row in table.rows if row.name == invariant]
    return row.cells[[column.name for column in table.columns].index(disk)]


def test_the_promise_matrix_has_every_invariant_and_every_disk() -> None:
    table = promises_matrix({}, {}, {})
    assert [row.name for row in table.rows] == list(INVARIANTS)
    assert [disk.name for disk in table.columns] == list(DISK_MODELS)
    assert {len(row.cells) for row in table.rows} == {len(DISK_MODELS)}


def test_a_promise_counts_as_kept_only_on_disks_where_seeds_tried_it() -> None:
    tried = {("DUR", "xfs"): 5, ("DUR", "dying-disk"): 2}
    table = promises_matrix({"xfs": 7, "dying-disk": 2}, tried, {})
    assert cell(table, "DUR", "xfs") == MatrixCell("held", 5, 0)
    assert cell(table, "VIS", "xfs") == MatrixCell("untried", 0, 0)
    assert cell(table, "DUR", "dying-disk") == MatrixCell("intact", 2, 0)
    assert cell(table, "DUR", "btrfs") == MatrixCell("unjudged", 0, 0)
    assert cell(table, "DUR", "lying-disk") == MatrixCell("none", 0, 0)
    assert cell(table, "TX", "dying-disk") == MatrixCell("none", 0, 0)


def test_a_broken_promise_is_shown_only_on_the_disk_where_it_broke() -> None:
    tried = {(invariant, disk): 3 for invariant in INVARIANTS for disk in ("xfs", "btrfs")}
    table = promises_matrix({"xfs": 7, "btrfs": 3}, tried, {("DUR", "xfs"): 2})
    assert cell(table, "DUR", "xfs") == MatrixCell("broken", 3, 2)
    states = Counter(cell.state for row in table.rows for cell in row.cells)
    assert states["broken"] == 1
    assert states["held"] == 2 * len(INVARIANTS) - 1
