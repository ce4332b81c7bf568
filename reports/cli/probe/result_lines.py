"""Result lines: describe rules, recoveries, reruns, baseline and gaps of a probe."""

from collections.abc import Iterator

from ....faults.crashes.at_rest import AT_REST, DAMAGES
from ....faults.crashes.profiles import PROFILES
from ....faults.probe.recovery import Recoveries
from ....faults.probe.reruns import Reruns
from ....faults.probe.story import named
from ....faults.probe.visits import FaultCoverage
from ...quantities import count_text
from .results import ProbeResults, points_text

_REASONS_SHOWN_MAX, _DISCARDED_SHOWN_MAX, _FILES_SHOWN_MAX = 3, 5, 8


def baseline_lines(results: ProbeResults) -> Iterator[str]:
    for signature in dict.fromkeys(results.known(results.signatures)):
        yield f"known: {signature}: {results.baseline[signature]}"
    is_partial = bool(results.gaps) or results.is_sample
    for signature in results.gone:
        what = "not found in what was tried" if is_partial else "gone"
        yield f"{what}: {signature}: {results.baseline[signature]}"


def rule_lines(results: ProbeResults) -> Iterator[str]:
    for rule, calls in results.crash_rules:
        reached = f"{count_text(calls, 'match', 'matches')}; other crashes were not tried" if calls else "never reached"
        yield f"{rule}: {reached}"
    for rule, calls in results.record.rules:
        times = f"injected at {count_text(calls, 'call')}" if calls else "never reached"
        yield f"requested by the program: {rule}: {times}"
    if results.record.cuts:
        yield f"marked by the program: {count_text(len(results.record.cuts), 'crash point')}"


def separate_disk_lines(results: ProbeResults) -> Iterator[str]:
    separate_disks, found = results.record.separate_disks, results.found
    if separate_disks:
        names = ", ".join(f"{named(one.path)}{one.profile and f' ({one.profile})'}" for one in separate_disks)
        yield (
            f"separate disks: {names}, and one with all other files; {found.combined:,} of {found.combinations:,} "
            "combinations of their states were tried"
        )


def recovery_lines(recoveries: Recoveries, results: ProbeResults) -> Iterator[str]:
    is_sample, points = recoveries.points < recoveries.points_of, points_text(recoveries.points, recoveries.points_of)
    verdict = results.verdict_on(list(recoveries.breaches), results.recovery_gaps, is_sample=is_sample)
    yield (
        f"crashes in recovery: {recoveries.recorded:,} recoveries, {recoveries.writing:,} of them write, "
        f"{points}, {recoveries.states:,} states, {recoveries.judged:,} checked: {verdict}"
    )
    for reason, times in recoveries.refused.most_common(_REASONS_SHOWN_MAX):
        yield f"  {count_text(times, 'recovery', 'recoveries')} could not be recorded: {reason}"
    if recoveries.refused and results.hint:
        yield f"  {results.hint}"


def rerun_lines(reruns: Reruns, results: ProbeResults) -> Iterator[str]:
    is_sample, points = reruns.points < reruns.points_of, points_text(reruns.points, reruns.points_of)
    verdict = results.verdict_on(results.rerun_signatures, results.rerun_gaps, is_sample=is_sample)
    refused = f", {count_text(reruns.refusals, 'operation')} refused" if results.takes_refusals else ""
    yield (
        f"run again: {count_text(reruns.runs, 'run')}, {reruns.failed:,} ended with an error{refused}, "
        f"{points}, {reruns.states:,} states, {reruns.judged:,} checked: {verdict}"
    )
    if reruns.injected:
        yield f"  faults at calls: {', '.join(f'{kind} {times:,}' for kind, times in reruns.injected.items())}"
    for rule, calls in reruns.aimed.items():
        if calls:
            files = _first_names(FaultCoverage(calls).files)
            yield f"  {rule}: injected at {count_text(len(calls), 'call')}, in {files}"
        else:
            yield f"  {rule}: never reached"
    if reruns.never_injected:
        yield f"  never injected, because no call matches: {', '.join(reruns.never_injected)}"
    yield from (f"  {kind}: {_coverage_text(found)}" for kind, found in reruns.coverage.items() if found.is_partial)
    if reruns.seeds:
        hurry = f", {reruns.hurried:,} of them while another thread still ran" if reruns.hurried else ""
        yield f"  {reruns.seeds:,} seeds, {reruns.orders:,} other orders, with {reruns.choices:,} choices{hurry}"
    for reason, controls in list(reruns.discarded.items())[:_REASONS_SHOWN_MAX]:
        names = ", ".join(map(str, controls[:_DISCARDED_SHOWN_MAX]))
        more = ", …" if len(controls) > _DISCARDED_SHOWN_MAX else ""
        yield f"  {count_text(len(controls), 'run')} could not be recorded ({names}{more}): {reason}"


def _coverage_text(found: FaultCoverage) -> str:
    files, missed = found.files, found.missed_files
    text = (
        f"injected into {len(files) - len(missed):,} of {count_text(len(files), 'file')}, "
        f"at {len(found.reached):,} of {count_text(len(found.calls), 'call')}"
    )
    return f"{text}; not: {_first_names(missed)}" if missed else text


def _first_names(files: list[str]) -> str:
    more = len(files) - _FILES_SHOWN_MAX
    return ", ".join(files[:_FILES_SHOWN_MAX]) + (f" and {more:,} more" if more > 0 else "")


def untried_text(results: ProbeResults) -> Iterator[str]:
    yield from (f"{gap[0].upper()}{gap[1:]}." for gap in results.gaps)
    found, recoveries, reruns = results.found, results.recoveries, results.reruns
    if found.is_sample:
        yield f"{found.points_of - found.points:,} of {found.points_of:,} crash points, by --points."
    if not results.record.acknowledged:
        yield "The program acknowledged no data, so lost data could not be detected."
    for disk, count in found.counts.items():
        if disk in AT_REST:
            yield f"On {disk} only the first, the middle and the last synced page of each file were damaged."
        if count.cut:
            yield f"On {disk} --limit {results.limit} left states of {count_text(count.cut, 'crash point')} untried."
        elif count.exhausted < count.crashes and disk not in AT_REST:
            yield (
                f"On {disk} all states of {count.exhausted:,} of {count_text(count.crashes, 'crash point')} were "
                "tried; for the others, all states with a single loss, and some more."
            )
    if found.never_injected:
        yield f"Faults that could occur but did not: {', '.join(found.never_injected)}."
    others = [name for name in PROFILES if name not in found.counts and name != "nothing-lost"]
    if others:
        yield f"Other kinds of crash (--disk): {', '.join(others)}."
    damages = [name for name in DAMAGES if name not in found.counts]
    if damages:
        yield f"Damage at rest (--disk): {', '.join(damages)}."
    if recoveries is None:
        yield "Crashes during recovery by the check (--recovery-crashes 1)."
    else:
        for why, times in recoveries.refused.items():
            yield f"{count_text(times, 'recovery', 'recoveries')} could not be recorded: {why}"
    if results.crash_rules:
        yield f"Crashes at other moments than those of --inject: {'; '.join(rule for rule, _ in results.crash_rules)}."
    if reruns is None or not reruns.enabled:
        yield "Failing calls (--faults errors)."
    if reruns is None or not reruns.seeds:
        yield "Other orders of the program's threads and processes (--seeds 20)."
    if reruns is not None:
        if reruns.never_injected:
            yield f"Faults without a matching call: {', '.join(reruns.never_injected)}."
        for kind, coverage in reruns.coverage.items():
            if coverage.is_partial:
                yield f"Calls left out for {kind} (--fault-runs {reruns.runs_max}): {_coverage_text(coverage)}."
        for why, controls in reruns.discarded.items():
            yield f"{count_text(len(controls), 'run')} could not be recorded ({', '.join(map(str, controls))}): {why}"
    yield from (f"Not recorded, by --allow: {one}" for one in results.allowed)
