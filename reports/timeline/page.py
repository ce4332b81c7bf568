"""Timeline page: writes a self-contained HTML file with script and recording.

The recording is JSON with numbers and a table of texts:

    texts       every text once; all other entries refer to a text by its index
    subject     scenario, claim, seed, mutant; broken: the violations; facts: pairs of texts to show
    moments     ns and steps, as differences from the preceding moment
    machines    [name, begin, end, ending]
    tasks       [name, begin, end, ending]
    spans       [task, state: 0 running, 1 ready, 2 waiting, begin, length, why]
    holds       [task, lock, begin, length]
    operations  [task, kind, path, start, stop, begin, length, ending, parts, place, taken]
    positions   name -> [[moment, value], ...]
    checkpoints [moment, physic ms, logics ms, index ms]
    faults      [moment, kind, about]
    cuts        {at, what, lost: [texts], following, files: [[path, bytes before, bytes after, letters before,
                letters after, torn pages, name is durable, pages shown (empty: all), others], ...]}
    puts        [name, queue, task, asked, answered, status, place, path, start, stop, log offset,
                outcomes: [[moment, machine, found + 2 * promised + 4 * returned], ...],
                story: [[moment, text, tone], ...]]
    promises    [task, text, begin, length, place]
    broken      [moment, task, text, path, puts, story]

A moment is an index into moments; a length is a number of moments.
"""

import json
from collections.abc import Callable
from importlib.resources import files
from itertools import pairwise
from typing import Any

from .. import html
from ..html.render import environment_of
from .recording.record import READY, RUNNING, WAITING, Cut, FileMap, OperationRecord, Put, RunRecording, ViolationRecord
from .story import (
    BAD,
    GOOD,
    PLAIN,
    Line,
    Storyteller,
    cut_text,
    last_changes,
    printable_text,
    shorten_paths,
    task_name_text,
)

SCRIPTS = (
    "record",
    "axis",
    "paint",
    "lanes",
    "log_lane",
    "picture",
    "details",
    "cuts",
    "ledger",
    "search",
    "input",
    "main",
)
"""The files in this folder that form the script of the page, in order."""
_PALETTE = files(html) / "palette.css"
_STATES = {RUNNING: 0, READY: 1, WAITING: 2}
_CHANGES_SHOWN_MAX = 8


def timeline_page(run: RunRecording) -> str:
    here = files(__package__)
    return (
        environment_of(__package__)
        .get_template("page.html")
        .render(
            subject=run.subject,
            is_timed=_is_timed(run),
            facts=_page_facts(run),
            broken=[_text_shortener(run)(str(broken.violation)) for broken in run.broken],
            style=_PALETTE.read_text("utf-8") + here.joinpath("page.css").read_text("utf-8"),
            script="\n".join(here.joinpath(f"{name}.js").read_text("utf-8") for name in SCRIPTS),
            record=_embedded_json(run),
        )
    )


def _page_facts(run: RunRecording) -> list[tuple[str, str]]:
    plan, last = run.plan, run.moments[-1]
    of_store = []
    if plan is not None:
        of_store = [
            ("messages", f"{len(run.puts):,}"),
            ("flush", "sync" if plan.sync_flush else "async"),
            ("disk", plan.disk),
        ]
    if not _is_timed(run):
        return [*run.facts, ("digest", run.digest)]
    return [
        *of_store,
        ("lives", f"{len(run.machines) if plan is None else len(plan.lives):,}"),
        ("steps", f"{last.step:,}"),
        ("virtual time", f"{last.now_ns / 1e6:,.1f} ms"),
        *run.facts,
        ("digest", run.digest),
    ]


def _is_timed(run: RunRecording) -> bool:
    """Return whether the run has virtual time, which a recorded program lacks."""
    return run.subject.seed is not None


def _text_shortener(run: RunRecording) -> Callable[[str], str]:
    """Return a function that shortens texts.

    It makes paths of a store relative, but not paths of a program.
    """
    return printable_text if run.subject.seed is None else shorten_paths


def _embedded_json(run: RunRecording) -> str:
    document = _EmbeddedRun(run).document()
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


class _EmbeddedRun:
    def __init__(self, run: RunRecording) -> None:
        self._run = run
        self._texts: dict[str, int] = {}
        self._storyteller = Storyteller(run)
        self._words = _text_shortener(run)

    def document(self) -> dict[str, Any]:
        run, text = self._run, self._text_number
        positions: dict[str, list[list[int]]] = {}
        for position in run.positions:
            positions.setdefault(position.name, []).append([position.at, position.value])
        return {
            "pageBytes": run.page_bytes,
            "sectorBytes": run.sector_bytes,
            "moments": {
                "ns": _successive_differences([moment.now_ns for moment in run.moments]),
                "steps": _successive_differences([moment.step for moment in run.moments]),
            },
            "machines": [[text(one.name), one.begin, one.end, text(one.ending)] for one in run.machines],
            "tasks": [[text(one.name), one.begin, one.end, text(one.ending)] for one in run.tasks],
            "spans": [
                [one.task, _STATES[one.state], one.begin, one.end - one.begin, text(self._words(one.why))]
                for one in run.spans
            ],
            "holds": [[one.task, text(one.lock), one.begin, one.end - one.begin] for one in run.holds],
            "operations": [self._operation_json(one) for one in run.operations],
            "positions": positions,
            "checkpoints": [list(one) for one in run.checkpoints],
            "faults": [[one.at, text(one.kind), text(self._words(one.about))] for one in run.faults],
            "cuts": [self._cut_json(one) for one in run.cuts],
            "promises": [
                [one.task, text(self._words(one.text)), one.begin, one.end - one.begin, text(self._words(one.place))]
                for one in run.promises
            ],
            "puts": [self._put_json(number, one) for number, one in enumerate(run.puts)],
            "broken": [self._violation_json(one) for one in run.broken],
            "texts": list(self._texts),  # last, because the other entries add texts
        }

    def _text_number(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))

    def _operation_json(self, one: OperationRecord) -> list[int]:
        words = self._words
        kind, path = self._text_number(one.kind), self._text_number(words(one.path))
        rest = [self._text_number(words(text)) for text in (one.ending, ", ".join(one.parts), one.place, one.taken)]
        return [one.task, kind, path, one.start, one.stop, one.begin, one.end - one.begin, *rest]

    def _cut_json(self, cut: Cut) -> dict[str, Any]:
        return {
            "at": cut.at,
            "what": cut_text(cut),
            "machine": cut.machine,
            "following": cut.following,
            "lost": [self._words(text) for text in cut.lost],
            "files": [self._file_map(one) for one in cut.files],
        }

    def _file_map(self, one: FileMap) -> list[Any]:
        path = self._text_number(self._words(one.path))
        sectors = [one.bytes_before, one.bytes_after, one.before, one.after]
        return [path, *sectors, list(one.torn), int(one.name_is_durable), list(one.pages), one.more]

    def _put_json(self, number: int, put: Put) -> list[Any]:
        outcomes = [
            [at, self._text_number(machine), found + 2 * promised + 4 * returned]
            for at, machine, found, promised, returned in put.outcomes
        ]
        path = shorten_paths(put.path)
        return [
            *map(self._text_number, (put.name, f"{put.topic}/{put.queue_id}")),
            *(put.task, put.asked, put.answered),
            *map(self._text_number, (put.status, f"{path} [{put.start}, {put.stop})" if put.path else "", path)),
            *(put.start, put.stop, put.log_offset),
            outcomes,
            self._story_json(self._storyteller.story(number)),
        ]

    def _violation_json(self, broken: ViolationRecord) -> list[Any]:
        violation = broken.violation
        changes = last_changes(self._run.operations, violation.file, _CHANGES_SHOWN_MAX)
        text, path = self._text_number(self._words(str(violation))), self._text_number(self._words(violation.file))
        lines = [self._change_json(one, is_named=not violation.file) for one in changes]
        if not violation.file:
            lines += [Line(one.at, f"{one.kind}: {one.about}", BAD) for one in self._run.faults]
            lines += [Line(one.end, f"promises {one.text!r}", GOOD) for one in self._run.promises]
            lines += [Line(cut.at, cut_text(cut), BAD) for cut in self._run.cuts]
            lines = sorted(lines, key=lambda line: line.at)[-_CHANGES_SHOWN_MAX:]
        return [broken.at, broken.task, text, path, list(broken.puts), self._story_json(lines)]

    def _change_json(self, one: OperationRecord, *, is_named: bool) -> Line:
        who = task_name_text(self._run.tasks[one.task].name)
        what = ", ".join(one.parts) or one.kind
        where = f" [{one.start}, {one.stop})" if one.start >= 0 else ""
        if is_named:
            more = what.removeprefix(one.kind)  # such as "to value" of "rename to value"
            what = f"{one.kind} {one.path}{more}" if more != what else f"{what} {one.path}"
        place = f", by {one.place}" if one.place else ""
        ending = "".join(f": {text}" for text in (one.ending, one.taken) if text)
        return Line(one.begin, self._words(f"{who}: {what}{where}{place}{ending}"), BAD if one.taken else PLAIN)

    def _story_json(self, lines: list[Line]) -> list[list[int]]:
        return [[line.at, self._text_number(line.text), self._text_number(line.tone)] for line in lines]


def _successive_differences(values: list[int]) -> list[int]:
    assert values == sorted(values), "moments are in order"
    return [after - before for before, after in pairwise([0, *values])]
