"""Implementation of `fuzz`: fuzzes formats in processes, and builds the result."""

from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import typer

from ...faults.simulation.artefact import ArtefactError
from ...faults.simulation.failure_text import FailureText, LineKind, TextLine
from ...scenarios.campaigns.amounts import parse_seconds
from ...scenarios.campaigns.first_seed import draw_first_seed
from ...scenarios.campaigns.runner import CampaignReach, incomplete_verdict_words
from ...scenarios.campaigns.worker_pool import run_in_processes
from ...scenarios.fuzz.campaign import FuzzReport, FuzzSettings, applied_fuzz_mutant, fuzz_format, write_findings
from ...scenarios.fuzz.coverage import fuzz_covered, is_installed
from ...scenarios.fuzz.engine import FuzzTally
from ...scenarios.fuzz.judging import FuzzFailure, FuzzViolation, address_space_limited, judge_within_limits
from ...scenarios.fuzz.mutants import FUZZED, find_fuzz_mutant
from ...scenarios.fuzz.target import InputOutcome
from ...scenarios.fuzz.targets import TARGETS
from ...scenarios.mutants import MUTANTS
from ...sim.interruption import Interruption, interruptible
from ...store.errors import install_command
from ..quantities import count_text
from ..results.model import FailureGroup, Failures, On, Result, ResultBlock, ResultTable, Row, Tone, Verdict
from ..results.output import write_result_and_exit
from .console import print_error, print_note, show_progress
from .fuzz import ENGINES, FuzzOptions
from .named import is_mutant
from .options import (
    EXIT_BROKEN,
    EXIT_HARNESS,
    EXIT_HELD,
    ResultFiles,
    command_line,
    require_known_name,
    results_written,
    unknown_name_error,
)

_SECONDS = 10.0
_SHOWN_CHARACTERS = 300
_COUNTS = ("name", "inputs", "accepted", "refused", "broken", "outcomes", "corpus")
"""Fields of `FuzzReport` with the same name in JSON."""


def fuzz_formats(options: FuzzOptions) -> NoReturn:
    require_known_name(ENGINES, options.engine, "--engine")
    names, mutant, seed = _format_names(options.formats), options.mutant, options.seed
    if mutant is not None and not is_mutant(mutant, "--mutant", find_fuzz_mutant):
        raise unknown_name_error("mutant", mutant, [*FUZZED, *MUTANTS], "--mutant")
    if options.replay is not None:
        _replay_file(options.replay, options)
    if options.engine == "atheris" and not is_installed():
        raise typer.BadParameter(f"needs atheris: install with {install_command('fuzz')}", param_hint="--engine")
    seconds = None if options.time is None else parse_seconds(options.time)
    if seconds is None and options.inputs is None:
        seconds = _SECONDS
    if seed is None:
        seed = 0
        if seconds is not None:
            drawn = draw_first_seed()
            seed, line = drawn.seed, command_line(options.context)
            print_note(f"seed {seed}, drawn {drawn.origin}; reproduce: {line} --seed {seed}")
    every = [FuzzSettings(name, seed, seconds, options.inputs, mutant, options.out) for name in names]
    with interruptible() as interruption:
        try:
            results = list(_reports_with_progress(every, options.engine, options.jobs, interruption))
        except (RuntimeError, BrokenProcessPool) as error:
            print_error(error)
            raise typer.Exit(EXIT_HARNESS) from error
        fuzzed = {result.name for result in results}
        reach = CampaignReach(
            len(names), tuple(name for name in names if name not in fuzzed), interruption.is_requested
        )
        findings = [finding for result in results for finding in result.findings]
        files, paths = ResultFiles(), dict[str, Path]()
        with files.writing(), results_written("--out"):
            paths = {} if options.out is None else write_findings(findings, options.out)
        document = {
            "format": "tornlog-fuzz/1",
            "not_run": list(reach.not_run),
            "interrupted": reach.interrupted,
            "engine": options.engine,
            "seed": seed,
            "mutant": mutant,
            "formats": [_report_json(result, paths) for result in results],
        }
        exit_code = EXIT_BROKEN if findings else EXIT_HELD
        verdict = "no promise broken" if reach.interrupted else "every promise held"
        if findings:
            verdict = count_text(len(findings), "finding")
        verdict = ", ".join([*incomplete_verdict_words(reach, "format"), verdict])
        inputs, took = sum(one.inputs for one in results), sum(one.seconds for one in results)
        texts = [_finding_text(finding, paths.get(finding.name)) for finding in findings]
        result = Result(
            "fuzz",
            f"{inputs:,} inputs in {took:.1f} s: {verdict}",
            Verdict(Tone.BROKEN if findings else Tone.HELD, verdict),
            interruption.exit_code if interruption.is_requested else exit_code,
            document,
            blocks=[_formats_table(results, reach), Failures("Findings", On.ALARM, groups=[FailureGroup(texts)])],
        )
        write_result_and_exit(result, json_file=options.json_file, files=files)


def _format_names(formats: list[str] | None) -> list[str]:
    strange = [name for name in formats or () if name not in TARGETS]
    if strange:
        raise typer.BadParameter(f"no format {', '.join(strange)}; expected one or more of {', '.join(TARGETS)}")
    return list(dict.fromkeys(formats or TARGETS))


# -- fuzzing ---------------------------------------------------------------------------------------


def _reports_with_progress(
    every: list[FuzzSettings], engine: str, jobs: int, interruption: Interruption
) -> Iterator[FuzzReport]:
    """After an interruption the built-in engine returns a partial report; atheris returns none."""
    is_ours = engine != "atheris"
    with show_progress(total=len(every), ticks=jobs == 1) as update:

        def on_progress(tally: FuzzTally) -> None:
            facts = f"{tally.inputs:,} inputs, {tally.corpus.outcomes:,} outcomes, {tally.broken:,} broken"
            update(facts=facts)

        if jobs > 1:
            fuzz_one: Callable[[FuzzSettings], FuzzReport] = fuzz_format if is_ours else fuzz_covered
            for _, result in run_in_processes(fuzz_one, every, jobs, interruption):
                if isinstance(result, BrokenProcessPool):
                    raise result
                update(description=result.name, advance=1)
                yield result
            return
        for settings in every:
            if interruption.is_requested:
                return
            update(description=settings.name)
            if is_ours:
                yield fuzz_format(settings, on_progress, lambda: interruption.is_requested)
            elif (covered := interruption.result_unless_requested(partial(fuzz_covered, settings))) is not None:
                yield covered
            update(advance=1)


def _report_json(report: FuzzReport, paths: dict[str, Path]) -> dict[str, Any]:
    return {
        **{name: getattr(report, name) for name in _COUNTS},
        "seconds": round(report.seconds, 3),
        "cpu_seconds": round(report.cpu_seconds, 3),
        "inputs_per_second": round(report.per_second, 1),
        "findings": [_finding_json(finding, paths) for finding in report.findings],
    }


def _finding_json(finding: FuzzFailure, paths: dict[str, Path]) -> dict[str, Any]:
    return {
        **asdict(finding.breach),
        "number": finding.number,
        "input_bytes": len(finding.raw),
        "file": str(paths.get(finding.name, "")),
    }


def _formats_table(results: list[FuzzReport], reach: CampaignReach) -> ResultTable:
    rows = []
    for one in results:
        counts = (one.inputs, round(one.per_second), one.accepted, one.refused)
        kept = (one.outcomes, one.corpus, len(one.findings))
        rows.append(Row((one.name, *map(_short_number, counts), *kept), bool(one.findings)))
    rows += [Row((name, "not run"), is_open=True) for name in reach.not_run]
    figures = ("inputs", "per s", "accepted", "refused", "outcomes", "corpus", "findings")
    return ResultTable("Formats", On.TERMINAL, texts=("format",), figures=figures, rows=rows)


def _short_number(count: int) -> str:
    return f"{count:,}" if count < 1_000_000 else f"{count / 1e6:.2f} M"


def _finding_text(finding: FuzzFailure, path: Path | None) -> FailureText:
    again = (
        "add --out DIR, which stores the failure" if path is None else f"tornlog fuzz {finding.target} --replay {path}"
    )
    size = f"input:    {len(finding.raw):,} bytes, shrunk from {len(finding.original):,}"
    lines = [*_violation_lines(finding.breach), TextLine(LineKind.TEXT, size)]
    return FailureText(finding.target, lines, again, f"seed {finding.seed}, input {finding.number:,}")


def _violation_lines(breach: FuzzViolation) -> list[TextLine]:
    return [
        TextLine(LineKind.TEXT, breach.signature),
        TextLine(LineKind.DETAIL, f"expected: {breach.expected[:_SHOWN_CHARACTERS]}"),
        TextLine(LineKind.DETAIL, f"found:    {breach.found[:_SHOWN_CHARACTERS]}"),
    ]


# -- replaying -------------------------------------------------------------------------------------


def _replay_file(file: Path, options: FuzzOptions) -> NoReturn:
    finding, formats, mutant = _finding_in(file), options.formats, options.mutant
    name = finding.target if finding is not None else formats[0] if formats and len(formats) == 1 else None
    if name is None or name not in TARGETS:
        raise typer.BadParameter(f"{file} is not a finding: a raw input needs one FORMAT", param_hint="--replay")
    if formats and formats != [name]:
        raise typer.BadParameter(f"{file}: expected {name}, found {', '.join(formats)}", param_hint="--replay")
    if finding is not None and mutant is None:
        mutant = finding.mutant
        if mutant is not None and not is_mutant(mutant, "--replay", find_fuzz_mutant):
            raise typer.BadParameter(f"{file}: there is no mutant {mutant}", param_hint="--replay")
    raw = file.read_bytes() if finding is None else finding.raw
    with applied_fuzz_mutant(mutant), address_space_limited():
        judged = judge_within_limits(TARGETS[name](), raw)
    outcome, breach = None, dict.fromkeys(("signature", "expected", "found"))
    if isinstance(judged, FuzzViolation):
        breach = asdict(judged)
    else:
        outcome = _outcome_text(judged)
    same = None if finding is None else breach["signature"] == finding.breach.signature
    document = {"format": "tornlog-fuzz-replay/1", "name": name, "mutant": mutant, "same": same}
    headline, blocks, tone = f"{name}: {outcome}", list[ResultBlock](), Tone.HELD
    if isinstance(judged, FuzzViolation):
        note = {True: ", as recorded", False: ", but not as recorded", None: ""}[same]
        text = FailureText(f"{name}{note}", _violation_lines(judged))
        headline, tone = f"{name}: broken{note}", Tone.BROKEN
        blocks.append(Failures("Findings", On.TERMINAL, groups=[FailureGroup([text])]))
    result = Result(
        "fuzz",
        headline,
        Verdict(tone, headline),
        EXIT_BROKEN if outcome is None else EXIT_HELD,
        {**document, "outcome": outcome, **breach},
        blocks=blocks,
    )
    write_result_and_exit(result, json_file=options.json_file)


def _finding_in(file: Path) -> FuzzFailure | None:
    """Return the finding in a file; None for a raw input. Raises BadParameter for an invalid finding."""
    if file.suffix != ".json":
        return None
    try:
        return FuzzFailure.from_json(file.read_text())
    except (OSError, UnicodeDecodeError, ArtefactError) as error:
        raise typer.BadParameter(f"{file}: {error}", param_hint="--replay") from error


def _outcome_text(outcome: InputOutcome) -> str:
    return f"{'accepted' if outcome.accepted else 'refused'}: {outcome.way.strip() or 'unchanged'}"
