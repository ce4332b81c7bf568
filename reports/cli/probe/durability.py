"""Durability report: output of `probe` without a check."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

from ....faults.probe.durability import DurabilityReport, UnsyncedGroup, durability_of
from ....faults.probe.record import ProgramRecord
from ....faults.probe.report import ProbeReport
from ....faults.probe.story import file_names, step_text
from ...quantities import count_text
from ...results.model import Lines, On, Result, ResultBlock, ResultTable, Row, Tone, Verdict
from ...results.output import write_result_and_exit
from ..options import EXIT_HELD, command_line
from .command import ProbeOptions
from .recording import Recorded

FORMAT = "tornlog-durability/1"
_ROWS_MAX = 20
_EXAMPLE_CHECK = "--check ./check.sh"
_EVERYWHERE = On.TERMINAL | On.PAGE | On.SUMMARY
_SHOWN = On.TERMINAL | On.PAGE


def write_durability_and_exit(recorded: Recorded, disks: tuple[str, ...], options: ProbeOptions) -> NoReturn:
    report = durability_of(recorded.record, recorded.start, disks)
    shown = _ShownDurability(report, recorded.record, list(recorded.allowed), file_names(recorded.record))
    result = _durability_result(shown, command_line(options.context, after_dashes="program"))
    write_result_and_exit(result, json_file=options.json_file, page=options.out, summary=options.summary)


class _ShownDurability(NamedTuple):
    report: DurabilityReport
    record: ProgramRecord
    allowed: list[str]
    names: Mapping[int, str]

    @property
    def notes(self) -> list[str]:
        return ProbeReport({}, operations=self.report.operations, is_finished=True).notes(self.record)

    def made_by(self, group: UnsyncedGroup) -> str:
        return step_text(self.record, group.step, self.names).strip()


def _durability_result(shown: _ShownDurability, command: str) -> Result:
    report, record = shown.report, shown.record
    facts = [("steps recorded", f"{len(record.steps):,}"), ("promises", f"{report.promises:,}")]
    with_check = command.replace("tornlog probe", f"tornlog probe {_EXAMPLE_CHECK}", 1)
    unjudged = "no check was given, so nothing was judged"
    return Result(
        "probe",
        f"{count_text(report.operations, 'operation')}, {count_text(report.promises, 'promise')}: "
        f"{_finding_clause(report)}",
        Verdict(Tone.UNSURE, "Nothing was judged", (f"{unjudged[0].upper()}{unjudged[1:]}", _finding_clause(report))),
        EXIT_HELD,
        _document(shown),
        command,
        facts,
        list(_blocks(shown)),
        last_line=f"{unjudged}; to add one: {with_check}",
    )


def _finding_clause(report: DurabilityReport) -> str:
    if not report.disks:
        return "the page cache survives on these disks, so no effect is lost"
    if not report.promises:
        found = len(report.at_end)
        return f"{count_text(found, 'kind')} of effect not durable at the end" if found else "every effect was durable"
    found = len(report.at_promises)
    if not found:
        return "every effect before a promise was durable"
    return f"{count_text(found, 'kind')} of effect not durable at a promise"


# -- blocks ----------------------------------------------------------------------------------------


def _blocks(shown: _ShownDurability) -> Iterator[ResultBlock]:
    report = shown.report
    yield Lines("", _SHOWN, lines=[f"note: {note}" for note in shown.notes])
    yield _groups_table(shown)
    yield Lines("", _SHOWN, lines=list(_group_lines(report)))
    if report.promises and report.at_end:
        note = "after the last promise, not durable at the end of the run, which is usual"
        yield Lines(note, _SHOWN, lines=list(_later_promises_text(report)))
    if shown.allowed:
        yield Lines("Not recorded, by --allow", On.PAGE, lines=shown.allowed)


def _groups_table(shown: _ShownDurability) -> ResultTable:
    report = shown.report
    found = report.at_promises if report.promises else report.at_end
    columns = ("first\npromise", "promises", "steps", "bytes") if report.promises else ("steps", "bytes")
    rows = []
    for group, disks in list(found.items())[:_ROWS_MAX]:
        promises = (group.first_promise, group.promises) if report.promises else ()
        texts = (_group_title(group), f"missing: {group.missing}", f"on {', '.join(disks)}", shown.made_by(group))
        rows.append(Row((*texts, *promises, group.steps, group.data_bytes)))
    more = len(found) - _ROWS_MAX
    if more > 0:
        rows.append(Row((f"and {count_text(more, 'kind')} more, which --json lists",), is_open=True))
    title = "Not durable at a promise" if report.promises else "Not durable at the end of the run"
    note = "A power cut at this moment may lose these effects. The step is the first of its kind."
    texts = (title.lower(), "missing", "disks", "first step")
    return ResultTable(title, _EVERYWHERE, "durability", note, texts, columns, rows, is_stacked=True)


def _group_title(group: UnsyncedGroup) -> str:
    if group.names > 1:
        return f"{group.kind} {group.name}, {count_text(group.names, 'name')}"
    return f"{group.kind} {group.name}{f' [{group.start}, {group.end})' if group.end else ''}"


def _group_lines(report: DurabilityReport) -> Iterator[str]:
    if report.durable_disks:
        disks = ", ".join(report.durable_disks)
        yield f"every effect before a promise was durable when it was promised, on {disks}"
    if report.kept_caches:
        yield f"the page cache survives the crash, so no effect is lost, on {', '.join(report.kept_caches)}"


def _later_promises_text(report: DurabilityReport) -> Iterator[str]:
    groups = list(report.at_end.items())
    for group, disks in groups[:_ROWS_MAX]:
        yield f"{_group_title(group)}: no {group.missing}; {count_text(group.steps, 'step')}, on {', '.join(disks)}"
    if len(groups) > _ROWS_MAX:
        yield f"and {count_text(len(groups) - _ROWS_MAX, 'kind')} more, which --json lists"


# -- JSON ------------------------------------------------------------------------------------------


def _document(shown: _ShownDurability) -> dict[str, Any]:
    report, record = shown.report, shown.record
    promised = record.acknowledged
    return {
        "format": FORMAT,
        "program": list(record.program),
        "steps": len(record.steps),
        "operations": report.operations,
        "promises": report.promises,
        "disks": list(report.disks),
        "page_cache_survives": list(report.kept_caches),
        "durable": report.durable_disks,
        "not_durable": [_group_json(shown, one, disks, promised) for one, disks in report.at_promises.items()],
        "after_last_promise": [_group_json(shown, one, disks, promised) for one, disks in report.at_end.items()],
        "allowed": shown.allowed,
        "notes": shown.notes,
    }


def _group_json(
    shown: _ShownDurability, group: UnsyncedGroup, disks: tuple[str, ...], promised: list[str]
) -> dict[str, Any]:
    number = group.first_promise
    return {
        "kind": group.kind,
        "name": group.name,
        "names": group.names,
        "missing": group.missing,
        "disks": list(disks),
        "steps": group.steps,
        "bytes": group.data_bytes,
        "range": [group.start, group.end] if group.end else None,
        "first": {
            "promise": number or None,
            "text": promised[number - 1] if number else None,
            "step": group.step,
            "by": shown.made_by(group),
        },
        "promises": group.promises,
    }
