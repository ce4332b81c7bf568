"""The page: one file that needs nothing else, with the record of the run and what draws it inside."""

from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from .. import html
from .embed import embedded_json
from .recording.record import RunRecording
from .words import path_words

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
"""The parts of the page's script, in their order; each is a file beside this one."""


PALETTE = files(html) / "palette.css"
"""The colours that all pages share."""


def timeline_page(run_recording: RunRecording) -> str:
    """Return the page of one run, as HTML."""
    environment = Environment(
        loader=PackageLoader(__package__, "."),
        autoescape=select_autoescape(),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    here = files(__package__)
    return environment.get_template("page.html").render(
        subject=run_recording.subject,
        facts=_facts(run_recording),
        broken=[path_words(str(broken.violation)) for broken in run_recording.broken],
        style=PALETTE.read_text("utf-8") + here.joinpath("page.css").read_text("utf-8"),
        script="\n".join(here.joinpath(f"{name}.js").read_text("utf-8") for name in SCRIPTS),
        record=embedded_json(run_recording),
    )


def _facts(run_recording: RunRecording) -> list[tuple[str, str]]:
    """Return what else there is to know of the run, in pairs."""
    plan, last = run_recording.plan, run_recording.moments[-1]
    return [
        ("messages", f"{len(run_recording.puts):,}"),
        ("lives", f"{len(plan.lives):,}"),
        ("flush", "sync" if plan.sync_flush else "async"),
        ("disk", plan.disk),
        ("steps", f"{last.step:,}"),
        ("virtual time", f"{last.now_ns / 1e6:,.1f} ms"),
        ("digest", run_recording.digest),
    ]
