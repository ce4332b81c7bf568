"""Coverage blocks: show counts of faults and marks, and promises by disk."""

from collections.abc import Iterable, Mapping

from ...scenarios.campaigns.coverage import MARKS, crashes_of, faults_in, faults_of
from ...scenarios.campaigns.pairs import OccurredPairs, Pair, count_occurred_pairs
from ...scenarios.claims.disk_models import DISK_MODELS
from ...scenarios.claims.scenario import Scenario
from ...scenarios.oracle.guarantees import PROMISED, Promise
from ...scenarios.oracle.invariants import INVARIANTS
from .model import Bars, Lines, Matrix, MatrixCell, MatrixColumn, MatrixRow, On, ResultBlock, bar_group

_STATES = {Promise.KEPT: "held", Promise.INTACT: "intact", Promise.NONE: "none"}
_LACKING_SHOWN_MAX = 8
_EVERYWHERE = On.VERBOSE | On.SUMMARY | On.PAGE


def coverage_blocks(
    injected: Mapping[str, int], marks: Mapping[str, int], pairs: Mapping[Pair, int], scenarios: Iterable[Scenario]
) -> list[ResultBlock]:
    """injected: counts of faults and kinds of crash."""
    groups = [
        bar_group("injected faults", faults_of(injected), faults_in(scenarios), "faults"),
        bar_group("crashes by moment and by disk", crashes_of(injected)),
        bar_group("marks reached", marks, MARKS, "marks"),
    ]
    note = (
        "Counts; bars are logarithmic. A mark is a rarely reached place in the code. The run says nothing about faults"
        " that were never injected and marks that were never reached."
    )
    met = count_occurred_pairs(pairs)
    lines = [f"{name}: {', '.join(others)}" for name, others in met.missing_partners().items()]
    title = f"{met.met:,} of {met.possible_count:,} possible pairs of features and faults occurred in the same run"
    lacking = "A feature occurs if the seed draws it, a fault if it is injected. Pairs that never occurred in one run:"
    return [
        Bars("Coverage", _EVERYWHERE, "coverage", note, groups),
        Lines("", On.VERBOSE, lines=[f"  {text}" for text in pairs_lines(met)]),
        Lines(title, On.PAGE, "", lacking, lines, is_folded=True),
    ]


def pairs_lines(pairs: OccurredPairs) -> list[str]:
    if not pairs.never:
        return []
    lacking = [f"{name} ({len(others)})" for name, others in pairs.missing_partners().items()]
    more = ", ..." if len(lacking) > _LACKING_SHOWN_MAX else ""
    counts = f"{len(pairs.never):,} of {pairs.possible_count:,}"
    names = ", ".join(lacking[:_LACKING_SHOWN_MAX])
    return [f"pairs of features and faults that never occurred in the same run: {counts}, most with {names}{more}"]


def promises_matrix(
    judged: Mapping[str, int], tried: Mapping[tuple[str, str], int], broken: Mapping[tuple[str, str], int]
) -> Matrix:
    """judged: seeds by disk; tried, broken: seeds by invariant and disk."""
    columns = [MatrixColumn(name, disk.meaning, judged.get(name, 0)) for name, disk in DISK_MODELS.items()]
    rows = [
        MatrixRow(
            invariant,
            meaning,
            [
                _matrix_cell(
                    invariant, disk, tried.get((invariant, disk.name), 0), broken.get((invariant, disk.name), 0)
                )
                for disk in columns
            ],
        )
        for invariant, meaning in INVARIANTS.items()
    ]
    note = (
        "The number of seeds that tested each promise on each disk. A seed tests a promise if it checks the promise"
        " after an event that could break it. A run ends at the first broken promise."
    )
    return Matrix("Promises by disk", On.PAGE, "promises", note, columns, rows)


def _matrix_cell(invariant: str, disk: MatrixColumn, tried: int, broken: int) -> MatrixCell:
    state = _STATES[PROMISED[disk.name][invariant]]
    if broken:
        state = "broken"
    elif state != "none" and not disk.seeds:
        state = "unjudged"
    elif state != "none" and not tried:
        state = "untried"
    return MatrixCell(state, tried, broken)
