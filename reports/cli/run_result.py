"""The result of `run`: lists scenarios, coverage, broken promises and their causes."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from ...faults.simulation.failure_text import FailureText, LineKind, TextLine, plain_text
from ...scenarios.campaigns.causes import ViolationKind, cause_text, likeliest_cause_names
from ...scenarios.campaigns.coverage import faults_of, never_injected
from ...scenarios.campaigns.failures.failure import Failure
from ...scenarios.campaigns.pairs import count_occurred_pairs
from ...scenarios.campaigns.runner import ALL, CampaignReach, Tally, incomplete_verdict_words, verdict_of
from ...scenarios.claims.catalogue import SCENARIOS
from ...scenarios.mutants.version import BugPresence, Version
from ...scenarios.oracle.invariants import INVARIANTS
from ...scenarios.runs.marks import MARKS
from ...scenarios.runs.outcome import COUNTED
from ..quantities import count_text, first_names_text
from ..results.coverage import coverage_blocks, promises_matrix
from ..results.model import (
    Case,
    FailureGroup,
    Failures,
    Lines,
    On,
    Outcome,
    Result,
    ResultBlock,
    ResultTable,
    Row,
    TableCell,
    Tone,
    Verdict,
)
from .comparison import EarlierCampaign
from .corpus import CorpusOutcome
from .options import EXIT_BROKEN, EXIT_HARNESS, EXIT_HELD, EXIT_NONDETERMINISTIC
from .reporting import FailureLinks, skipped_cases

_CAUSES_SHOWN_MAX = 3
_UNCERTAIN_SHOWN_MAX = 5
_NAMES_SHOWN = 4
_PLACES_SHOWN = 3
_MOST_SHOWN = 3
"""Maximum number of faults or marks on a line of 80 columns."""
_COUNTS = ("seeds", "crash_points", "violations", "digest")


@dataclass(frozen=True, slots=True)
class RunResults:
    """The data from which the result of `tornlog run` is built."""

    command: str
    tallies: Sequence[Tally]
    seconds: float
    broken: Sequence[ViolationKind] = ()
    """The violations. They have causes if --as applied the bugs of a version."""
    mutant: str | None = None
    version: Version | None = None
    """The version from which --as applied the bugs."""
    never: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Faults, marks and scenarios that --require-coverage requires and that never occurred."""
    failures: Mapping[str, FailureLinks] = field(default_factory=dict)
    """The first failure of each signature."""
    reach: CampaignReach = ALL
    first_seed: int | None = None
    paths: Sequence[Path] = ()
    drawn: Sequence[Path] = ()
    against: EarlierCampaign | None = None
    corpus: CorpusOutcome | None = None
    """The results of stored seeds from earlier runs, if any."""

    def total(self, name: str) -> Counter[Any]:
        return sum((getattr(tally, name) for tally in self.tallies), Counter())


def run_result(results: RunResults, interrupted: int | None = None) -> Result:
    """interrupted: the exit code if a signal ended the run."""
    tallies, seconds = results.tallies, results.seconds
    times = {failure.signature: row for row in results.broken for failure in row.failures}
    found = {
        signature: left.text(about=_failure_details(left.failure, times.get(signature)))
        for signature, left in results.failures.items()
    }
    seeds = sum(tally.seeds for tally in tallies)
    assert all(row.first.signature in found for row in results.broken), "a kind of violation without its failure"
    facts = [
        ("scenarios", f"{len(tallies):,}"),
        ("seeds", f"{seeds:,}"),
        *((one.meaning, f"{sum(getattr(tally, one.name) for tally in tallies):,}") for one in COUNTED),
        ("faults injected", f"{faults_of(results.total('injected')).total():,}"),
        ("seconds", f"{seconds:,.1f}"),
        ("seeds a second", f"{seeds / seconds:,.0f}" if seconds else "-"),
    ]
    subject = f"with the bug {results.mutant}" if results.mutant else ""
    kept = f", {results.corpus.verdict}" if results.corpus is not None and results.corpus.verdict else ""
    return Result(
        "run",
        f"{count_text(seeds, 'seed')} in {seconds:.1f} s: {verdict_of(tallies, results.reach)}{kept}",
        _verdict(results, seeds),
        _exit_code(results) if interrupted is None else interrupted,
        _json_document(results),
        results.command,
        facts,
        list(_blocks(results, found)),
        [*(_test_case(tally, found) for tally in tallies), *skipped_cases(results.reach)],
        subject=subject if results.version is None else f"as {results.version.id}",
    )


def failures_by_kind_in_turn(rows: Sequence[ViolationKind]) -> list[Failure]:
    """Return all failures, starting with the first of each kind, because only a few timelines are drawn."""
    in_turn = zip_longest(*(row.failures for row in rows))
    return [failure for failure in chain.from_iterable(in_turn) if failure is not None]


def _failure_details(failure: Failure, row: ViolationKind | None) -> str:
    seed = f"{'' if failure.shrunk is None else 'shrunk from '}seed {failure.seed}"
    return seed if row is None else f"{seed}, {count_text(row.scenarios[failure.scenario], 'time')} in all"


def _exit_code(results: RunResults) -> int:
    tallies = results.tallies
    if any(tally.errors for tally in tallies):
        return EXIT_HARNESS
    if any(tally.nondeterministic for tally in tallies):
        return EXIT_NONDETERMINISTIC
    is_broken = any(tally.violations for tally in tallies) or any(results.never.values())
    return EXIT_BROKEN if is_broken else EXIT_HELD


def _verdict(results: RunResults, seeds: int) -> Verdict:
    tallies, reach = results.tallies, results.reach
    violated = sum(tally.violations for tally in tallies)
    lost = sum(len(tally.errors) + len(tally.nondeterministic) for tally in tallies)
    more = (*incomplete_verdict_words(reach, "scenario"), *_never_happened_lines(results))
    if violated:
        names = list(dict.fromkeys(row.promise for row in results.broken))
        text = ", ".join(names) if len(names) <= _NAMES_SHOWN else count_text(len(names), "promise")
        broken = f"{text} broken" if results.version is None else f"{results.version.id} breaks {text}"
        return Verdict(Tone.BROKEN, f"{broken} in {violated:,} of {count_text(seeds, 'seed')}", more)
    if lost:
        return Verdict(Tone.BROKEN, f"{count_text(lost, 'seed')} without a verdict", (verdict_of(tallies), *more))
    if any(results.never.values()):
        return Verdict(Tone.BROKEN, "No promise broken, but required coverage is missing", more)
    if not seeds:
        return Verdict(Tone.UNSURE, "Nothing was run", more)
    if more:
        text = verdict_of(tallies, reach)
        return Verdict(Tone.UNSURE, text[0].upper() + text[1:])
    return Verdict(Tone.HELD, "Every promise held")


def _never_happened_lines(results: RunResults) -> list[str]:
    return [f"{what} that never occurred: {', '.join(names)}" for what, names in results.never.items() if names]


# -- blocks ----------------------------------------------------------------------------------------


def _blocks(results: RunResults, found: Mapping[str, FailureText]) -> Iterator[ResultBlock]:
    tallies, version = results.tallies, results.version
    yield Lines("", On.TERMINAL, lines=[f"  {name:<8} {text}" for name, text in _tried_counts(results)])
    if version is not None:
        promises, ways = len({row.promise for row in results.broken}), len(results.broken)
        broken = f"{version.id} breaks {count_text(promises, 'promise')} in {count_text(ways, 'way')}"
        yield Lines("", On.TERMINAL | On.VERBOSE, lines=[*_bug_lines(version), *([broken] if ways else [])])
    yield Lines("", On.TERMINAL | On.PAGE | On.SUMMARY, lines=[] if results.corpus is None else results.corpus.lines)
    if results.against is not None:
        yield from results.against.blocks(tallies)
    yield _broken_table(results)
    note = "The first run of each scenario, for each kind of violation."
    yield Failures("Failures", On.PAGE, "failures", note, [_failure_group(row, found) for row in results.broken])
    errors = [text for tally in tallies for text in (*tally.errors[:1], *tally.nondeterministic[:1])]
    yield Lines("No verdict", On.STDERR | On.SUMMARY | On.PAGE, "errors", "", errors, is_text=True, style="red")
    yield _scenarios_table(results)
    yield promises_matrix(results.total("judged"), results.total("tried"), results.total("broken"))
    scenarios = [tally.scenario for tally in tallies]
    yield from coverage_blocks(results.total("injected"), results.total("marks"), results.total("pairs"), scenarios)
    signatures = [failure.signature for tally in tallies for failure in tally.failures[:1]]
    first = [found[signature] for signature in signatures if signature in found]
    if version is None:
        yield Failures("Failures", On.ALARM | On.SUMMARY, groups=[FailureGroup(first)])
    else:
        caused = [_failure_with_causes(row, results.failures) for row in results.broken]
        yield Failures("Causes", On.TERMINAL | On.VERBOSE, groups=[FailureGroup(caused)])
        yield Failures("Failures", On.SUMMARY, groups=[FailureGroup(first)])
    yield Lines("", On.ALARM, lines=_never_happened_lines(results), is_text=True, style="red")
    if version is not None:
        yield _version_table(version)


def _tried_counts(results: RunResults) -> Iterator[tuple[str, str]]:
    tallies, marks = results.tallies, results.total("marks")
    faults, never = faults_of(results.total("injected")), never_injected(tallies)
    points = sum(tally.crash_points for tally in tallies)
    yield "ran", f"{count_text(len(tallies), 'scenario')}, {count_text(points, 'crash point')}"
    yield "faults", f"{faults.total():,} of {count_text(len(faults), 'kind')}{_most_frequent_text(faults)}"
    if never:
        yield "never", f"{count_text(len(never), 'possible kind')}{_listed_names(never)}"
    yield "marks", f"{len(marks)} of {len(MARKS)} reached{_most_frequent_text(marks)}"
    yield "more", "--verbose shows every scenario, fault and mark"
    if results.reach.not_run:
        yield "not run", ", ".join(results.reach.not_run)


def _most_frequent_text(counts: Counter[str]) -> str:
    return _listed_names([f"{name} {times:,}" for name, times in counts.most_common()])


def _listed_names(names: Sequence[str]) -> str:
    more = ", ..." if len(names) > _MOST_SHOWN else ""
    return f": {', '.join(names[:_MOST_SHOWN])}{more}" if names else ""


def _scenarios_table(results: RunResults) -> ResultTable:
    rows = []
    for tally in results.tallies:
        broken = tally.violations + len(tally.errors) + len(tally.nondeterministic)
        lost = ((tally.nondeterministic, "not deterministic"), (tally.errors, "failed in the harness"))
        words = ", ".join(f"{len(seeds):,} {what}" for seeds, what in lost if seeds)
        counts = (tally.seeds, tally.crash_points, faults_of(tally.injected).total())
        name = TableCell(tally.scenario.name, tally.scenario.claim)
        rows.append(Row((name, *counts, TableCell(broken, words, is_bad=broken > 0)), broken > 0))
    not_run = results.reach.not_run
    rows += [Row((TableCell(name, SCENARIOS[name].claim), "not run", "-", "-", "-"), is_open=True) for name in not_run]
    on = On.TERMINAL | On.VERBOSE | On.SUMMARY | On.PAGE
    figures = ("seeds", "crash\npoints", "faults", "broken")
    folded = ("scenario without a broken promise", "scenarios without a broken promise")
    return ResultTable("Scenarios", on, "scenarios", "", ("scenario",), figures, rows, only_bad=True, folded_as=folded)


def _broken_table(results: RunResults) -> ResultTable:
    is_version = results.version is not None
    rows = []
    for row in results.broken:
        most = sorted(row.scenarios, key=lambda name: (-row.scenarios[name], name))
        promise = TableCell(row.promise, link=row.first.violations[0].signature)
        causes = [",\n".join(likeliest_cause_names(row))] if is_version else []
        rows.append(
            Row(
                (
                    promise,
                    TableCell(row.kind, first_names_text(most, _PLACES_SHOWN)),
                    *causes,
                    row.times,
                    str(row.first.seed),
                )
            )
        )
    texts = ("promise", "wrong field, scenarios", *(["likeliest cause"] if is_version else []))
    on = On.PAGE | (On.TERMINAL | On.VERBOSE if is_version else On.PAGE)
    return ResultTable("What broke", on, "broke", "", texts, ("times", "first\nseed"), rows)


def _failure_group(row: ViolationKind, found: Mapping[str, FailureText]) -> FailureGroup:
    first = dict.fromkeys(failure.signature for failure in row.failures)
    times = f"{count_text(row.times, 'time')} in {count_text(len(row.scenarios), 'scenario')}"
    return FailureGroup(
        [found[signature] for signature in first],
        row.first.violations[0].signature,
        f"{row.promise}: {row.kind}",
        f"{times}; promise: {INVARIANTS[row.promise]}",
        [cause_text(cause) for cause in row.causes],
    )


# -- versions --------------------------------------------------------------------------------------


def _bug_lines(version: Version) -> Iterator[str]:
    on = sum(fact.is_present for fact in version.facts)
    catalogue = f"{on} of the {len(version.facts)} bugs of the catalogue"
    yield f"{version.id}: {catalogue} and {len(version.deviations)} other deviations are applied"
    yield from (f"  left out, {fact.id}: {fact.left_out}" for fact in version.facts if fact.left_out)
    uncertain = [fact.id for fact in version.facts if not fact.left_out and fact.verdict is BugPresence.UNCERTAIN]
    if uncertain:
        shown = ", ".join(uncertain[:_UNCERTAIN_SHOWN_MAX])
        more = f" and {len(uncertain) - _UNCERTAIN_SHOWN_MAX} more" if len(uncertain) > _UNCERTAIN_SHOWN_MAX else ""
        yield f"  uncertain and not applied, for reasons in --json: {shown}{more}"


def _failure_with_causes(row: ViolationKind, failures: Mapping[str, FailureLinks]) -> FailureText:
    lines = [str(row.first.violations[0])]
    lines.append(f"in: {', '.join(f'{name} ({times})' for name, times in row.scenarios.items())}")
    lines += [f"cause: {cause_text(cause)}" for cause in row.causes[:_CAUSES_SHOWN_MAX]]
    if row.clean:
        lines.append(f"also without these bugs: {row.clean} of the runs tried")
    again = failures[row.first.signature].again
    return FailureText(row.kind, [TextLine(LineKind.TEXT, line) for line in lines], again, heading=row.promise)


def _version_table(version: Version) -> ResultTable:
    rows = [
        *(
            Row((fact.id, fact.verdict.value, "yes" if fact.is_present else "no", fact.left_out or fact.reason))
            for fact in version.facts
        ),
        *(Row((mutant.id, "deviates", "yes", mutant.summary)) for mutant in version.deviations),
    ]
    note = f"{version.summary}. {next(_bug_lines(version)).partition(': ')[2]}."
    return ResultTable(
        "The version",
        On.PAGE,
        "version",
        note,
        ("bug", "the version", "applied", "why"),
        rows=rows,
        only_bad=True,
        folded_as=("bug", "bugs and deviations"),
    )


# -- test cases and JSON ---------------------------------------------------------------------------


def _test_case(tally: Tally, found: Mapping[str, FailureText]) -> Case:
    counts = {"seeds": tally.seeds, **tally.counts(), "digest": tally.digest}
    injected = {f"injected: {kind}": times for kind, times in sorted(tally.injected.items())}
    outcomes = []
    if tally.failures:
        violation = tally.failures[0].violations[0]
        signatures = dict.fromkeys(failure.signature for failure in tally.failures)
        text = "\n\n".join(plain_text(found[one]) for one in signatures if one in found)
        message = f"{tally.violations} of {tally.seeds} seeds: {violation}"
        outcomes.append(Outcome("failure", violation.invariant, message, text))
    for kind, errors in (("nondeterminism", tally.nondeterministic), ("harness", tally.errors)):
        if errors:
            outcomes.append(Outcome("error", kind, errors[0].splitlines()[-1], "\n\n".join(errors)))
    claim = f"claim: {tally.scenario.claim}"
    return Case(tally.scenario.name, tally.wall_seconds, {**counts, **injected}, outcomes, claim)


def _json_document(results: RunResults) -> dict[str, Any]:
    pairs = count_occurred_pairs(results.total("pairs"))
    document: dict[str, Any] = {
        "format": "tornlog-run/1",
        "scenarios": [_tally_json(tally) for tally in results.tallies],
        "not_run": list(results.reach.not_run),
        "interrupted": results.reach.interrupted,
        "first_seed": results.first_seed,
        "failures": [str(path) for path in results.paths],
        "pairs": {"met": pairs.met, "can": pairs.possible_count, "never": [list(pair) for pair in pairs.never]},
        "seconds": round(results.seconds, 3),
    }
    if results.corpus is not None:
        document["corpus"] = results.corpus.to_json()
    if results.against is not None:
        document["against"] = results.against.to_json(results.tallies)
    if results.drawn:
        document["drawn"] = [str(path) for path in results.drawn]
    if results.never:
        document["never"] = results.never
    if results.version is not None:
        document["version"] = _version_json(results.version, results.broken, results.failures)
    return document


def _tally_json(tally: Tally) -> dict[str, Any]:
    return {
        "name": tally.scenario.name,
        "claim": tally.scenario.claim,
        **{name: getattr(tally, name) for name in _COUNTS},
        **{one.name: getattr(tally, one.name) for one in COUNTED if one.name not in _COUNTS},
        "injected": dict(sorted(tally.injected.items())),
        "marks": dict(sorted(tally.marks.items())),
        "errors": len(tally.errors),
        "nondeterministic": len(tally.nondeterministic),
        "seconds": round(tally.wall_seconds, 3),
        "disks": dict(sorted(tally.judged.items())),
        "tried": _group_by_invariant(tally.tried),
        "broken": _group_by_invariant(tally.broken),
    }


def _group_by_invariant(seeds: Counter[tuple[str, str]]) -> list[dict[str, Any]]:
    return [
        {"invariant": invariant, "disk": disk, "seeds": times} for (invariant, disk), times in sorted(seeds.items())
    ]


def _version_json(
    version: Version, rows: Sequence[ViolationKind], failures: Mapping[str, FailureLinks]
) -> dict[str, Any]:
    return {
        "id": version.id,
        "bugs": [
            {"id": fact.id, "verdict": fact.verdict.value, "on": fact.is_present}
            | {"reason": fact.reason, "left_out": fact.left_out}
            for fact in version.facts
        ],
        "deviations": {mutant.id: mutant.summary for mutant in version.deviations},
        "broken": [row.to_json(failures[row.first.signature].again) for row in rows],
    }
