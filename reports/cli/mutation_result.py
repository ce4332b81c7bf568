"""The result of `mutants`: lists found mutants with scenario and effort."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median

from ...scenarios.campaigns.mutation_run import SIZES_SHOWN, MutantResult, core_seconds_texts
from ...scenarios.campaigns.runner import ALL, CampaignReach, incomplete_verdict_words
from ...scenarios.mutants.known import find_mutant
from ..quantities import count_text, first_names_text
from ..results.model import (
    Case,
    FailureGroup,
    Failures,
    Lines,
    On,
    Outcome,
    Picture,
    Result,
    ResultBlock,
    ResultTable,
    Row,
    TableCell,
    Tone,
    Verdict,
)
from .options import EXIT_BROKEN, EXIT_HARNESS, EXIT_HELD
from .reporting import FailureLinks, skipped_cases

_NAMES_SHOWN = 4
_POINTS_MIN = 3
"""With fewer found mutants no curve is drawn."""
_NOT_FOUND = "not found: "
_SHOWN = On.TERMINAL | On.VERBOSE


@dataclass(frozen=True, slots=True)
class MutationResults:
    """The data from which the result of `tornlog mutants` is built."""

    command: str
    mutant_results: Sequence[MutantResult]
    seconds: float
    survivors: Mapping[str, str]
    """Mutant id -> reason why scenarios need not find the mutant."""
    failures: Mapping[str, FailureLinks] = field(default_factory=dict)
    """`Failure.file_stem_of_mutant` -> failure."""
    reach: CampaignReach = ALL
    is_named: bool = False
    """Whether the command line names the mutants."""
    all_scenarios: bool = False

    @property
    def found(self) -> list[MutantResult]:
        return [one for one in self.mutant_results if one.found]


def mutation_result(results: MutationResults, interrupted: int | None = None) -> Result:
    """interrupted: the exit code if a signal ended the run."""
    every, found = results.mutant_results, results.found
    core_seconds = core_seconds_texts(every)
    facts = [
        ("mutants", f"{len(every):,}"),
        ("found", f"{len(found):,}"),
        *((f"core-seconds until found, {name}", text if found else "-") for name, text in core_seconds.items()),
        ("seeds until found, median", f"{median(one.seeds for one in found):,.0f}" if found else "-"),
        ("seeds run", f"{sum(one.seeds for one in every):,}"),
        ("seconds", f"{results.seconds:,.1f}"),
    ]
    headline = [*incomplete_verdict_words(results.reach, "mutant"), f"{len(found)} of {len(every)} mutants found"]
    left_out = [{"id": name, "not_run": True} for name in results.reach.not_run]
    return Result(
        "mutants",
        ", ".join(headline),
        _verdict(results),
        _exit_code(results) if interrupted is None else interrupted,
        [*(one.to_json() for one in every), *left_out],
        results.command,
        facts,
        list(_blocks(results, core_seconds)),
        [*(_test_case(one, results.survivors) for one in every), *skipped_cases(results.reach)],
    )


def _exit_code(results: MutationResults) -> int:
    if any(one.error for one in results.mutant_results):
        return EXIT_HARNESS
    return EXIT_BROKEN if any(_is_unexpected(one, results) for one in results.mutant_results) else EXIT_HELD


def _is_unexpected(one: MutantResult, results: MutationResults) -> bool:
    return bool(one.error or one.clean_violation) or not (one.found or one.id in results.survivors)


def _verdict(results: MutationResults) -> Verdict:
    every, found = results.mutant_results, results.found
    noisy = [one.id for one in every if one.clean_violation]
    missed = [one.id for one in every if _is_unexpected(one, results) and not one.clean_violation]
    known = len(every) - len(found) - len(missed)
    more = []
    if noisy:
        more.append(f"The store without the bug also broke: {first_names_text(noisy, _NAMES_SHOWN)}")
    if missed:
        more.append(f"Not found: {first_names_text(missed, _NAMES_SHOWN)}")
    if known:
        more.append(f"{count_text(known, 'mutant')} not found for known reasons")
    more += incomplete_verdict_words(results.reach, "mutant")
    text = f"{len(found)} of {count_text(len(every), 'mutant')} found"
    if noisy or missed:
        return Verdict(Tone.BROKEN, text, tuple(more))
    tone = Tone.UNSURE if results.reach.not_run else Tone.HELD
    return Verdict(tone, f"{text}, and the unmodified store kept every promise", tuple(more))


# -- blocks ----------------------------------------------------------------------------------------


def _blocks(results: MutationResults, core_seconds: Mapping[str, str]) -> Iterator[ResultBlock]:
    every, found = results.mutant_results, results.found
    why = {one.id: _reason_if_unexpected(one, results.survivors) for one in every}
    texts = {name: left.text(left.failure.mutant or "") for name, left in results.failures.items()}
    missing = [
        Row((TableCell(one.id, _mutant_summary(one.id)), why[one.id], one.seeds), _is_unexpected(one, results))
        for one in every
        if why[one.id]
    ]
    yield ResultTable("Not found", On.PAGE, "missing", "", ("mutant", "reason"), ("seeds",), missing)
    yield _mutants_table(results)
    failed = [one for one in every if one.error or one.clean_violation]
    lines = []
    if results.reach.not_run:
        lines.append(f"not run: {', '.join(results.reach.not_run)}")
    if found:
        lines.append(f"core-seconds until found: {', '.join(f'{name} {text}' for name, text in core_seconds.items())}")
    for one in every if results.all_scenarios else ():
        lines.append(f"{one.id}: {count_text(len(one.finds), 'scenario')}")
        lines += [f"  {find.scenario} --seed {find.seed}: {find.invariant}" for find in one.finds]
    lines += [f"{one.id}: {why[one.id].removeprefix(_NOT_FOUND)}" for one in every if why[one.id] and one not in failed]
    yield Lines("", _SHOWN, lines=lines)
    alarms = [f"{one.id}: {one.error or why[one.id]}" for one in failed]
    yield Lines("", On.ALARM, lines=alarms, is_text=True, style="red")
    if len(found) >= _POINTS_MIN:
        draw = partial(_detection_svg, [one.seeds for one in found], len(every))
        note = "Mutants found within a number of seeds."
        yield Picture("Seeds until found", anchor="detection", note=note, draw=draw)
    groups = [FailureGroup([text]) for text in texts.values()]
    yield Failures("Failures that found them", On.PAGE, "failures", groups=groups, opened=0)


def _detection_svg(seeds: Sequence[int], mutants: int) -> str:
    from ..plotting import detection_figure, inline_svg

    return inline_svg(lambda: detection_figure(seeds, mutants), "detection")


def _mutants_table(results: MutationResults) -> ResultTable:
    sized = any(one.shrunk for one in results.mutant_results)
    rows = []
    for one in results.mutant_results:
        left = None if one.failure is None else results.failures.get(one.failure.file_stem_of_mutant)
        links = [("timeline", left.timeline)] if left is not None and left.timeline else []
        name = TableCell(one.id, _mutant_summary(one.id), "" if left is None else left.name, links)
        size = [_shrunk_size_text(one)] if sized else []
        figures = (one.seeds, f"{one.core_seconds:.1f}", _count_or_dash(one.reached), _count_or_dash(one.bit))
        rows.append(Row((name, _found_by_cell(one, results), *size, *figures), _is_unexpected(one, results)))
    note = (
        "Seeds and core-seconds (CPU time of runs with the bug) until it was found. Reached: seeds in which the mutated"
        " code ran. Bit: seeds in which it reported a changed behaviour; - if it does not report. A find counts only if"
        " the store without the bug keeps every promise on that seed."
    )
    return ResultTable(
        "Mutants",
        _SHOWN | On.PAGE,
        "mutants",
        note,
        ("mutant", "found by", *(["size"] if sized else [])),
        ("seeds", "core s", "reached", "bit"),
        rows,
        only_bad=not results.is_named,
        is_stacked=True,
        folded_as=("mutant as expected", "mutants as expected"),
    )


def _mutant_summary(name: str) -> str:
    mutant = find_mutant(name)
    return "" if mutant is None else mutant.summary


def _found_by_cell(one: MutantResult, results: MutationResults) -> TableCell:
    if one.error:
        return TableCell("harness failed", is_bad=True)
    if one.clean_violation:
        return TableCell("clean store broke", is_bad=True)
    if not one.found:
        return TableCell("not found", is_bad=_is_unexpected(one, results))
    others = [find.scenario for find in one.finds[1:]]
    more = f"also {', '.join(others)}" if others else ""
    return TableCell(f"{one.invariant}{'' if one.is_expected else ' (not expected)'} in {one.scenario}", more)


def _shrunk_size_text(one: MutantResult) -> str:
    return f"shrunk to {', '.join(f'{one.shrunk[name]} {name}' for name in SIZES_SHOWN)}" if one.shrunk else ""


def _count_or_dash(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"


def _reason_if_unexpected(one: MutantResult, survivors: Mapping[str, str]) -> str:
    """Return why a mutant was not found, or was found unexpectedly; empty if it was found as expected."""
    survives = survivors.get(one.id, "")
    if one.error:
        return f"the harness failed: {one.error.splitlines()[-1]}"
    if one.clean_violation:
        return f"also without the bug: {one.clean_violation}"
    if not one.found:
        return survives or _NOT_FOUND + one.missed_because
    return f"found, although it was expected to survive: {survives}" if survives else ""


def _test_case(one: MutantResult, survivors: Mapping[str, str]) -> Case:
    names = ("scenario", "invariant", "seeds", "reached", "bit")
    properties = {name: "" if (value := getattr(one, name)) is None else value for name in names}
    properties |= {"expected": one.is_expected, "core-seconds": f"{one.core_seconds:.3f}"}
    outcomes = []
    if one.error:
        outcomes.append(Outcome("error", "harness", one.error.splitlines()[-1], one.error))
    elif violation := one.clean_violation:
        outcomes.append(Outcome("failure", "clean", f"also without the bug: {violation}", violation))
    elif not one.found and one.id in survivors:
        outcomes.append(Outcome("skipped", "survivor", survivors[one.id]))
    elif not one.found:
        message = f"not found in {one.seeds} seeds: {one.missed_because}"
        again = shlex.join(["tornlog", "mutants", one.id])
        outcomes.append(Outcome("failure", "survivor", message, f"{message}; reproduce: {again}"))
    return Case(one.id, one.core_seconds, properties, outcomes)
