"""Gallery pages: a table of all programs with filters, and a page per program with its breaches.

Sources are `docs/gallery/NAME/row.toml` and `result.json`. `gallery.json` has all results in one document.
"""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

import msgspec

_ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(_ROOT))  # the runner of the gallery is not in the package
from tests.gallery.results import FORMAT, DiskResult, RowResult, SettingResult, outcome_text, read_result  # noqa: E402
from tests.gallery.rows import CRASHES, KIND_WORDS, POWER_CUT, Finding, Row, Setting, all_rows  # noqa: E402

_PROMISES = ("power cut", "kill", "nothing")
_CLIENTS = {"python": "pip install", "node": "npm install", "java": "mvn dependency:get"}
_BUILDS = {"go": "go build", "rust": "cargo build --release"}
_SOURCES = (".py", ".go", ".rs", ".js", ".java", ".c")
_INTRO = """---
hide: [toc]
---

# What survives the plug

Every row was measured by `tornlog probe`: a small program commits three transactions and says after each one that it
is there. Its system calls, and its stores through memory maps, are recorded. Then it is killed at each step, and the
power is cut at each step, on two kinds of disk. In every state that is left the program's own recovery runs, and a
check looks for what was promised. `make gallery` measures all of it again, `make gallery ONLY=lmdb` one program.
[What breaks, and how to see it](what-breaks.md) has the broken promises, one line each.
"""
_OUTRO = """
## The crashes

- **A kill** keeps all written data. It is possible between any two system calls, between any two stores through a map,
  and inside a write of several pages, because the kernel checks for a fatal signal before each page
  (`generic_perform_write` in `mm/filemap.c`). A script without tornlog confirms each breach, on the program's page.
- **ext4** has its default mount options. Names survive in the order of their changes, appended data is durable before
  the length that covers it, and each overwritten page survives on its own. A new file that was never synced may be
  empty, even if later files were synced, unless it was renamed over another one. `make gallery-real` cuts the power of
  a real one, if it may mount one, and fails if that loses data that the model keeps.
- **Strict POSIX** keeps only synced data, and a name only if its directory was synced. No common file system loses that
  much; a program that breaks only here depends on its file system.
- `faults/crashes/profiles.py` has the possible losses on each disk, with sources. See also [limits](limits.md),
  [how programs are recorded](probe-recorder.md), and [how to add a row](gallery/README.md).
"""
_LEGEND = """
| outcome | meaning |
| --- | --- |
| kept | no crash lost anything |
| data lost | a committed transaction is missing |
| partial transaction | only a part of a transaction is there |
| cannot open | the program does not open its files, reports them as damaged, or refuses writes |
| wrong data | data is there that was never stored |

Numbers are broken states of all states. *Not promised*: the program does not promise to survive this crash with this
setting. *Prefix*: late commits may be lost, no more. *Whole file*: the old or the new one is left. *Existing data*: the
program starts with durable data instead of an empty directory. Each cell links to the reason in the program and to the
smallest example.
"""
_STYLE = """<style>
.gallery-filters { display: flex; flex-wrap: wrap; gap: .4rem 1.2rem; margin: 1rem 0; font-size: .7rem; }
.gallery-filters label { white-space: nowrap; }
.gallery-filters select { font: inherit; color: inherit; background: var(--md-default-bg-color); border: 1px solid
  var(--md-default-fg-color--lighter); border-radius: .2rem; padding: .1rem .3rem; }
.md-typeset .gallery { display: table; font-size: .66rem; width: 100%; }
.md-typeset .gallery th { min-width: 0; }
.md-typeset .gallery th, .md-typeset .gallery td { padding: .3em .6em; vertical-align: top; }
.md-typeset .gallery tr.first td { border-top: .1rem solid var(--md-default-fg-color--light); }
.md-typeset .gallery td.broken { background: #d32f2f26; font-weight: 600; }
.md-typeset .gallery td.kept { background: #388e3c26; }
.md-typeset .gallery td.broken a, .md-typeset .gallery td.kept a { color: var(--md-typeset-color); text-decoration:
  underline; }
.md-typeset .gallery .language { opacity: .75; white-space: nowrap; }
@media (max-width: 44.9em) {  /* too narrow for six columns: each setting is a card */
  .md-typeset .gallery, .md-typeset .gallery tbody, .md-typeset .gallery tr, .md-typeset .gallery td { display: block; }
  .md-typeset .gallery thead { display: none; }
  .md-typeset .gallery [hidden] { display: none; }
  .md-typeset .gallery td, .md-typeset .gallery tr.first td { border-top: 0; padding: .1em .6em; }
  .md-typeset .gallery tr { border-top: .05rem solid var(--md-typeset-table-color); padding: .4em 0; }
  .md-typeset .gallery td[data-title]::before { content: attr(data-title) ": "; font-weight: 400; }
  .md-typeset .gallery .program { visibility: visible !important; }
}
</style>"""
_SCRIPT = """<script>
(() => {
  const filters = [...document.querySelectorAll(".gallery-filters select")];
  const rows = [...document.querySelectorAll(".gallery tbody tr")];
  const fits = (row, name, wanted) => {
    if (wanted === "") return true;
    if (name === "outcome") return (row.dataset.outcomes || "").split(" ").includes(wanted);
    return row.dataset[name] === wanted;
  };
  const show = () => {
    const disk = document.querySelector("select[name=disk]").value;
    document.querySelectorAll(".gallery [data-disk]").forEach((cell) => {
      cell.hidden = disk !== "" && cell.dataset.disk !== disk;
    });
    let before = "", shown = 0;
    rows.forEach((row) => {
      const cells = [...row.querySelectorAll("td[data-disk]")].filter((cell) => !cell.hidden);
      row.dataset.outcomes = cells.map((cell) => cell.className).join(" ");
      row.hidden = !filters.every((one) => one.name === "disk" || fits(row, one.name, one.value));
      row.classList.toggle("first", !row.hidden && row.dataset.program !== before);
      row.querySelector(".program").style.visibility = row.dataset.program === before ? "hidden" : "";
      if (!row.hidden) { before = row.dataset.program; shown += 1; }
    });
    document.querySelector(".gallery-count").textContent = `${shown} of ${rows.length} settings`;
  };
  filters.forEach((one) => one.addEventListener("change", show));
  show();
})();
</script>"""
Measured = tuple[Row, RowResult | None]


def pages() -> dict[str, str]:
    """Return the contents of all gallery pages and of the JSON, by path."""
    measured = [(row, read_result(row)) for row in all_rows()]
    made = {"gallery.md": table_page(measured), "gallery.json": _all_results(measured)}
    return made | {f"gallery/{row.name}/index.md": row_page(row, result) for row, result in measured}


def _all_results(measured: Sequence[Measured]) -> str:
    """Return all results as JSON: `{"format", "rows": {name: {"row": declaration, "result": measurement}}}`."""
    rows = {row.name: {"row": msgspec.to_builtins(row), "result": msgspec.to_builtins(one)} for row, one in measured}
    return json.dumps({"format": FORMAT, "rows": rows}, indent=1)


def table_page(measured: Sequence[Measured]) -> str:
    """Return the page with the table."""
    there = [(row, result) for row, result in measured if result is not None]
    languages = sorted({row.language for row, _ in there})
    settings = sum(len(row.settings) for row, _ in there)
    counts = f"{len(there)} programs in {len(languages)} languages, {settings} settings"
    facts = f'{counts}. <a href="gallery.json">All results as JSON</a>.'
    head = "".join(f'<th data-disk="{disk}">after {CRASHES[disk]}</th>' for disk in CRASHES)
    body = "\n".join(line for row, result in there for line in _table_lines(row, result))
    missing = [f"- {row.title}: not measured yet" for row, result in measured if result is None]
    table = (
        f'<table class="gallery"><thead><tr><th>program</th><th>setting</th><th>promises to survive</th>{head}</tr>'
        f"</thead><tbody>\n{body}\n</tbody></table>"
    )
    filters = "\n".join(
        [
            _filter("disk", "after", "every disk", CRASHES),
            _filter("promise", "promises to survive", "any", {name: name for name in _PROMISES}),
            _filter(
                "outcome",
                "outcome",
                "any",
                {"broken": "broken promises", "kept": "kept promises", "unpromised": "loss without a promise"},
            ),
            _filter("language", "language", "any", {name: name for name in languages}),
        ]
    )
    chosen = f'<div class="gallery-filters">\n{filters}\n<span class="gallery-count"></span>\n</div>'
    return "\n\n".join([_INTRO, _LEGEND, facts, _STYLE, chosen, table, *missing, _SCRIPT, _OUTRO])


def _filter(name: str, label: str, everything: str, choices: dict[str, str]) -> str:
    options = "".join(f'<option value="{escape(value)}">{escape(text)}</option>' for value, text in choices.items())
    return f'<label>{label} <select name="{name}"><option value="">{everything}</option>{options}</select></label>'


def _table_lines(row: Row, result: RowResult) -> Iterator[str]:
    link = f"gallery/{row.name}/index.html"
    for setting in row.settings:
        found = result.setting(setting.name)
        promise = f"{setting.promise}, {setting.leaves}" if setting.leaves else setting.promise
        cells = [
            f'<td data-disk="{disk}" data-title="after {CRASHES[disk]}" '
            f'class="{_class(setting, disk, found.disks[disk])}">'
            f'<a href="{link}#{_anchor(setting)}">{_cell(setting, disk, found.disks[disk])}</a></td>'
            for disk in CRASHES
        ]
        yield (
            f'<tr data-program="{row.name}" data-language="{escape(row.language)}" data-promise="{setting.promise}">'
            f'<td><span class="program"><a href="{link}">{escape(row.title)}</a> '
            f'<span class="language">{escape(row.language)}</span></span></td>'
            f'<td data-title="setting">{escape(setting.title)}</td>'
            f'<td data-title="promises to survive">{promise}</td>'
            f"{''.join(cells)}</tr>"
        )


def _class(setting: Setting, disk: str, found: DiskResult) -> str:
    """Return the style and filter value of an outcome."""
    if setting.broken_by(disk, found.kinds):
        return "broken"
    if setting.promises_on(disk):
        return "kept"
    return "unpromised" if found.broken else "lucky"


def _cell(setting: Setting, disk: str, found: DiskResult) -> str:
    share = f", {found.broken:,}/{found.states:,}" if found.broken else ""
    return f"{outcome_text(setting, disk, found)}{share}"


def _anchor(setting: Setting) -> str:
    return re.sub(r"[^a-z0-9]+", "-", setting.name.lower()).strip("-")


def row_page(row: Row, result: RowResult | None) -> str:
    """Return the page of one program."""
    parts = [f"# {row.title}", row.about, "\n".join(f"- {fact}" for fact in _facts(row, result))]
    if row.findings:
        parts.append("## Findings")
        parts += [_finding(row, finding, result) for finding in row.findings]
    parts.append("## Settings")
    for setting in row.settings:
        parts += _setting(setting, None if result is None else result.setting(setting.name))
    return "\n\n".join(parts) + "\n"


def _facts(row: Row, result: RowResult | None) -> Iterator[str]:
    if result is not None:
        yield f"Measured: {result.version}, {result.date}, on {result.system}"
    brought = [f"`{_CLIENTS[row.runtime]} {' '.join(row.packages)}`"] if row.packages else []
    brought += [f"`apt-get install {' '.join(row.apt)}`"] if row.apt else []
    brought += [f"`{_BUILDS[row.runtime]}` in its folder"] if row.runtime in _BUILDS else []
    yield f"Installed: {', '.join(brought) or f'with {row.runtime}'}"
    yield f"Again: `make gallery ONLY={row.name}`"
    files = sorted(file.relative_to(row.folder) for file in row.folder.rglob("*") if file.suffix in _SOURCES)
    yield "Its program and check: " + ", ".join(f"[{name}]({name})" for name in files)


def _finding(row: Row, finding: Finding, result: RowResult | None) -> str:
    lines = [f"### {finding.title}", f"{finding.source}"]
    setting = row.setting(finding.setting)
    shown_by = f"[{setting.title}](#{_anchor(setting)})"
    facts = [f"Shown by: {shown_by}, by {CRASHES[finding.disk]}"]
    facts += [f"Known before: {finding.known}"] if finding.known else []
    if finding.confirm:
        run = None if result is None else result.confirmed.get(finding.confirm)
        said = f"{run.outcome}, {run.date}" if run is not None else "not run yet"
        facts.append(f"Without tornlog: [{finding.confirm}]({finding.confirm}), {said}")
    if (row.folder / "report.md").is_file():
        facts.append("[Report for its maintainers](report.md)")
    lines.append("\n".join(f"- {fact}" for fact in facts))
    if finding.confirm:
        lines.append(_code((row.folder / finding.confirm).read_text("utf-8"), "bash"))
        if run is not None and run.said:
            lines.append(_code("\n".join(run.said)))
    return "\n\n".join(lines)


def _setting(setting: Setting, found: SettingResult | None) -> Iterator[str]:
    yield f"### {setting.title} {{ #{_anchor(setting)} }}"
    survives = "a power cut" if setting.promise == POWER_CUT else f"a {setting.promise}"
    yield f"Promises to survive {survives if setting.promise != 'nothing' else 'nothing'}: {setting.says}"
    if found is None:
        return
    lines = ["| after | outcome | states | broken |", "| --- | --- | ---: | ---: |"]
    for disk in CRASHES:
        one = found.disks[disk]
        lines.append(f"| {CRASHES[disk]} | {outcome_text(setting, disk, one)} | {one.states:,} | {one.broken:,} |")
    yield "\n".join(lines)
    yield f"{setting.why} ({found.steps:,} steps, {found.promises:,} promises, {found.checked:,} states checked.)"
    for story in found.stories:
        title = f"{KIND_WORDS[story.kind]}, after {CRASHES[story.disk]}"
        yield f'<details markdown="1"><summary>Smallest example: {title}</summary>'
        yield _code(story.text)
        yield "</details>"


def _code(text: str, language: str = "text") -> str:
    return f"```{language}\n{text.rstrip()}\n```"
