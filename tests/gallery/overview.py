"""Gallery overview: counts kept promises, and writes the page of findings and its picture.

`python -m tests.gallery.overview` writes `docs/what-breaks.md` and `docs/pictures/promises.png` from stored results.
"""

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tornlog.reports.plotting import INK, KINDS, QUIET, save_figure

from .results import CONFIRMED, RowResult, read_result
from .rows import (
    CRASHES,
    DEFAULT,
    EXT4,
    GALLERY,
    KILL,
    LEVELS,
    NOTHING,
    POWER_CUT,
    STRICT,
    STRICTEST,
    Finding,
    Row,
    Setting,
    all_rows,
)

PAGE = GALLERY.parent / "what-breaks.md"
PICTURE = GALLERY.parent / "pictures" / "promises.png"
KEPT, NO_PROMISE = "kept", "no promise"
OUTCOMES = (KEPT, STRICT, EXT4, KILL, NO_PROMISE)
"""Outcomes of a program: promise kept, or the mildest crash that breaks it."""
DURABLE = "durable"
PROMISES = {
    DURABLE: "durable: a commit survives a power cut",
    "prefix": "prefix: late commits may be lost, no more",
    "whole file": "whole file: the old one or the new one",
    "kill": "a commit survives a kill",
    NOTHING: "no promise",
}
SCRIPTS = {"kill.sh": "a real kill", "cut.sh": "a file cut as a kill cuts a write"}
"""How a script confirms a finding, by its name."""
REAL_EXT4, KNOWN, MODEL = "cuts of a real ext4", "known before", "the model alone"
_TARGETS = {REAL_EXT4: "gallery-real", KNOWN: "gallery", MODEL: "gallery"}
"""The target of `make` that shows a finding. Scripts have `gallery-confirm`."""
_LOOKS = {
    KEPT: (KINDS[2], "kept"),
    STRICT: (KINDS[4], "broken on strict POSIX only"),
    EXT4: (KINDS[1], "broken on ext4"),
    KILL: (INK, "broken by a kill"),
    NO_PROMISE: ("#d0d7de", "no promise"),
}
Measured = Sequence[tuple[Row, RowResult]]
Tally = Mapping[str, Counter[str]]
"""Promise -> outcome -> number of programs."""


def stored() -> Measured:
    """Return all rows with their stored results."""
    results = [(row, read_result(row)) for row in all_rows()]
    return [(row, result) for row, result in results if result is not None]


def tally(measured: Measured, level: str) -> Tally:
    """Count programs by promise and outcome at a level. Programs without a setting of the level are not counted."""
    counts: dict[str, Counter[str]] = {promise: Counter() for promise in PROMISES}
    for row, result in measured:
        promises = {_promise(setting) for setting in row.settings if level in setting.levels}
        if promises:
            counts[promises.pop()][outcome(row, result, level)] += 1
    return counts


def outcome(row: Row, result: RowResult, level: str) -> str:
    """Return the outcome of a program at a level, over all settings of this level."""
    settings = [setting for setting in row.settings if level in setting.levels]
    if all(_promise(setting) == NOTHING for setting in settings):
        return NO_PROMISE
    return next((disk for disk in CRASHES if any(_is_broken(setting, result, disk) for setting in settings)), KEPT)


def _is_broken(setting: Setting, result: RowResult, disk: str) -> bool:
    return bool(setting.broken_by(disk, result.setting(setting.name).disks[disk].kinds))


def _promise(setting: Setting) -> str:
    return DURABLE if setting.promise == POWER_CUT else setting.leaves or setting.promise


def verdict(counts: Tally) -> str:
    """Return the numbers of programs that keep their promise, as a sentence."""
    every = sum((counts[promise] for promise in PROMISES), Counter[str]())
    promising = every.total() - every[NO_PROMISE]
    return f"{every[KEPT] + every[STRICT]} of {promising} hold on ext4, {every[KEPT]} on strict POSIX"


def figure(measured: Measured) -> Figure:
    """Draw promises and outcomes at the default and at the strictest setting."""
    drawn = Figure(figsize=(9, 3.6), layout="constrained")
    panels = drawn.subplots(1, len(LEVELS), sharex=True, sharey=True)
    for panel, level in zip(panels, LEVELS, strict=True):
        counts = tally(measured, level)
        panel.set_title(f"At the {level} setting,\n{verdict(counts)}")
        for at, promise in enumerate(PROMISES):
            left = 0
            for one in OUTCOMES:
                count = counts[promise][one]
                if count:
                    panel.barh(at, count, left=left, color=_LOOKS[one][0], height=0.66, edgecolor="white")
                    ink = INK if one in (STRICT, NO_PROMISE) else "white"
                    panel.text(left + count / 2, at, f"{count}", ha="center", va="center", color=ink, weight="bold")
                    left += count
        panel.grid(visible=False, axis="y")
        panel.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        panel.set_xlabel("programs")
        panel.tick_params(axis="y", length=0)
    panels[0].set_yticks(range(len(PROMISES)), [words.replace(": ", "\n") for words in PROMISES.values()], color=INK)
    panels[0].set_ylim(len(PROMISES) - 0.5, -0.5)
    handles = [panels[0].barh(0, 0, color=colour) for colour, _ in _LOOKS.values()]
    labels = [label for _, label in _LOOKS.values()]
    drawn.legend(handles, labels, loc="outside lower center", ncols=len(labels), labelcolor=QUIET)
    drawn.suptitle(f"{len(measured)} programs: what they promise, and what breaks it", x=0.01, ha="left")
    return drawn


def page(measured: Measured) -> str:
    """Return the page: the picture, the counts, and one line for each finding."""
    findings = [(row, result, finding) for row, result in measured for finding in row.findings]
    ways = Counter(way(result, finding) for _, result, finding in findings)
    ways_said = ", ".join(f"{one} ({ways[one]})" for one in (*SCRIPTS.values(), *_TARGETS))
    dates = sorted(result.date for _, result in measured)
    parts = [
        "# What breaks, and how to see it",
        _wrapped(
            "Find your program in the table. Its line has the setting that breaks, a command for a checkout that shows "
            "it, and how it was confirmed. The report has the place in the source."
        ),
        f"![{_alt(measured)}](pictures/promises.png)",
        _wrapped(
            f"{len(findings)} findings, confirmed by: {ways_said}. "
            "The model has the losses that a disk may have, within its [limits](limits.md). "
            "*Existing data*: the program starts with durable data instead of an empty directory. "
            "*Not promised*: the program does not promise to survive this crash."
        ),
        *_tables(findings),
        "## The numbers of the picture",
        _counts(measured),
        _notes(measured),
        _wrapped(
            f"Measured from {dates[0]} to {dates[-1]}. `make gallery-page` writes this page and its picture from the "
            "stored results; [how to add a program](gallery/README.md)."
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _wrapped(text: str) -> str:
    return fill(text, 128, break_long_words=False, break_on_hyphens=False)


def _alt(measured: Measured) -> str:
    return "Promises: " + "; ".join(f"at the {one} setting {verdict(tally(measured, one))}" for one in LEVELS)


def _counts(measured: Measured) -> str:
    default, strictest = (tally(measured, level) for level in (DEFAULT, STRICTEST))
    lines = ["| promise | at the default | kept | at the strictest | kept |", "| --- | ---: | ---: | ---: | ---: |"]
    for promise, words in PROMISES.items():
        cells = []
        for counts in (default, strictest):
            kept = "" if promise == NOTHING else str(counts[promise][KEPT])
            cells += [str(counts[promise].total()), kept]
        lines.append(f"| {words} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _notes(measured: Measured) -> str:
    kept = [
        row
        for row, result in measured
        if not any(_is_broken(setting, result, disk) for setting in row.settings for disk in CRASHES)
    ]
    durable = [row.title for row in kept if any(_promise(setting) == DURABLE for setting in row.settings)]
    less = [row.title for row in kept if row.title not in durable]
    unknown = [row.title for row, _ in measured if not any(DEFAULT in setting.levels for setting in row.settings)]
    return "\n".join(
        [
            "- A promise is kept if no crash on any of the disks breaks it, also while the files are created.",
            "- A missing commit before a later one counts as lost, not as a broken prefix.",
            f"- No crash broke a promise of {'; '.join(durable)}.",
            f"- No crash broke the promises of {'; '.join(less)}, of which none is durable.",
            f"- The default was not measured: {'; '.join(unknown)}.",
        ]
    )


def _tables(findings: Sequence[tuple[Row, RowResult, Finding]]) -> Iterator[str]:
    """Yield a title and a table for each crash. The first line of a program has its anchor."""
    linked: set[str] = set()
    for disk, crash in CRASHES.items():
        yield f"## Broken by {crash}"
        lines = ["| program | setting | what breaks | see it | confirmed by |", "| --- | --- | --- | --- | --- |"]
        for row, result, finding in findings:
            if finding.disk == disk:
                anchor = "" if row.name in linked else f'<a id="{row.name}"></a>'
                lines.append(f"| {anchor}{_cells(row, result, finding)} |")
                linked.add(row.name)
        yield "\n".join(lines)


def _cells(row: Row, result: RowResult, finding: Finding) -> str:
    setting, one = row.setting(finding.setting), way(result, finding)
    promised = "" if _is_broken(setting, result, finding.disk) else " (not promised)"
    has_report = (row.folder / "report.md").is_file()
    source = "[report](gallery/{}/report.md)" if has_report else "[source](gallery/{}/row.toml)"
    words = "" if one == KNOWN else one if one in _TARGETS else f"[{one}](gallery/{row.name}/{finding.confirm})"
    words += f"{words and '; '}{KNOWN}: {finding.known.removesuffix('.')}" if finding.known else ""
    target = _TARGETS.get(one, "gallery-confirm")
    what = f"{finding.title}{promised} ({source.format(row.name)})"
    return f"{row.title} | {setting.title} | {what} | `make {target} ONLY={row.name}` | {words}"


def way(result: RowResult, finding: Finding) -> str:
    """Return the strongest confirmation of a finding."""
    run = result.confirmed.get(finding.confirm)
    if run is not None and run.outcome == CONFIRMED:
        return SCRIPTS[finding.confirm]
    if finding.on_real_ext4:
        return REAL_EXT4
    return KNOWN if finding.known else MODEL


def write(measured: Measured, page_file: Path, picture: Path) -> None:
    """Write the page and its picture."""
    page_file.write_text(page(measured), "utf-8")
    with TemporaryDirectory() as place:
        png, _ = save_figure(lambda: figure(measured), Path(place), "promises")
        shutil.copyfile(png, picture)


if __name__ == "__main__":
    write(stored(), PAGE, PICTURE)
