"""Implementation of `init`: records a program, selects a check, writes files."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import typer

from ....faults.disk.export import export_image
from ....faults.disk.image import Image
from ....faults.probe.programs import CALLS, STORES, RecorderChoice, is_python_program
from ....faults.probe.record import FILES, ProgramRecord
from ....faults.probe.recording.run import EMPTY, ProgramError
from ....faults.probe.replay import Replayer
from ..options import require_known_name
from .command import DATABASE, KEY_VALUE, KINDS, LOG, PORT, PYTEST, SERVER, InitOptions
from .trial import Candidate, default_check, fitting_check, render

CHECK, CLIENT, TEST, TEST_PROGRAM = (
    "probe/check.py",
    "probe/client.py",
    "tests/test_crashes.py",
    "tests/crash_program.py",
)
WORKFLOW = ".github/workflows/probe.yml"
_BY_FILES = (DATABASE, LOG, KEY_VALUE)
"""Kinds of checks that read the files of the program, in the order in which `init` tries them."""
_TESTS = ("conftest.py", "pytest.ini", "test_*.py", "tests/test_*.py", "tests/**/test_*.py")
_NAMES_MAX = 5


class ProjectFiles(NamedTuple):
    """Path -> content of the files for one program. next: the command that the user runs next."""

    heading: str
    files: Mapping[str, str]
    next: list[str]
    notes: list[str]


def init_project(options: InitOptions) -> None:
    """Write the files for a program. Print their names and the next command."""
    project = _project_files(options)
    typer.echo(project.heading)
    for name, text in project.files.items():
        path = options.out / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            typer.echo(f"exists  {path}, left as it is")
        except OSError as error:
            raise typer.BadParameter(f"{path}: {error.strerror}", param_hint="--out") from error
        else:
            typer.echo(f"wrote   {path}")
    for note in project.notes:
        typer.echo(f"note: {note}")
    typer.echo(f"next: {shlex.join(project.next)}")


def _project_files(options: InitOptions) -> ProjectFiles:
    if options.kind:
        require_known_name(KINDS, options.kind, "--kind")
    program = options.program or []
    kind = options.kind or (SERVER if any(PORT in word for word in program) else "")
    if not program:
        return _files_of_suite(options, kind)
    if kind == SERVER:
        return _files_of_server(options.out, program)
    run = _record_once(program, options.program_seconds)
    kinds = [kind] if kind in _BY_FILES else list(_BY_FILES)
    with TemporaryDirectory(prefix="tornlog-init-") as scratch:
        export_image(run.image, FILES, Path(scratch))
        found = fitting_check(Path(scratch), run.record.acknowledged, kinds)
    if found is None and kind not in _BY_FILES:
        raise typer.BadParameter(
            f"expected files that hold the printed lines, found {_files_left(run)}. --kind {'|'.join(_BY_FILES)} "
            f"writes a check to adapt; with {PORT} in place of a port the program is a server"
        )
    if kind == PYTEST:
        assert found is not None, "refused above"
        return _files_of_test(options.out, found, render("test.py", program=program, record=run.recorder))
    return _files_of_check(options.out, program, run, found, kind)


# -- one run of the program ------------------------------------------------------------------------


class _TrialRun(NamedTuple):
    record: ProgramRecord
    image: Image
    recorder: str
    """The value of --record; "" means the default."""


def _record_once(program: list[str], seconds_max: float) -> _TrialRun:
    """Record a run of a program. If the recorder for Python misses calls, record a second run at system calls."""
    reasons: list[str] = []
    for recorder in ("", CALLS) if is_python_program(program) else ("",):
        try:
            record, unlike = RecorderChoice(recorder, STORES[0], seconds_max).record(program, EMPTY)
        except ProgramError as error:
            reasons = [str(error)]
            continue
        reasons = [*(f"{one.event}: {one.detail}" for one in record.unseen), *unlike]
        if reasons:
            continue
        if not record.acknowledged:
            raise typer.BadParameter(
                "expected a program that prints a line when data is saved, found no line: each line is a promise"
            )
        replayer = Replayer(record, EMPTY)
        replayer.replay_all()
        return _TrialRun(record, replayer.intact_image(), recorder)
    hint = f". A server needs {PORT} in place of its port" if "not ended within" in reasons[-1] else ""
    raise typer.BadParameter(f"the run cannot be recorded: {'; '.join(reasons)}{hint}")


def _files_left(run: _TrialRun) -> str:
    names = [path.removeprefix(f"{FILES}/") for path in sorted(run.image.files) if path.startswith(f"{FILES}/")]
    promises = [repr(promise) for promise in run.record.acknowledged]
    parts = []
    for what, found in (("files", names), ("lines", promises)):
        more = ", …" if len(found) > _NAMES_MAX else ""
        parts.append(f"{what} {', '.join(found[:_NAMES_MAX]) or 'none'}{more}")
    return " and ".join(parts)


# -- files by kind ---------------------------------------------------------------------------------


def _files_of_check(out: Path, program: list[str], run: _TrialRun, found: Candidate | None, kind: str) -> ProjectFiles:
    record = ["--record", run.recorder] if run.recorder else []
    if found is None:
        heading = f"{kind}: as --kind says"
        notes = [f"adapt {out / CHECK}: it does not fit the run, which left {_files_left(run)}"]
        files = {CHECK: default_check(kind)}
    else:
        heading, notes, files = f"{found.kind}: {found.reason}", [], {CHECK: found.text}
    return ProjectFiles(
        heading, files | _workflow_file(record, program), _probe_command(record, out / CHECK, program), notes
    )


def _files_of_server(out: Path, program: list[str]) -> ProjectFiles:
    if not any(PORT in word for word in program):
        raise typer.BadParameter(f"expected {PORT} in place of the server's port, found none in {shlex.join(program)}")
    files = {CLIENT: render("client.py", program=program), CHECK: render("server.py")}
    record = ["--record", CALLS]
    note = f"adapt put and get in {out / CLIENT} to the protocol of the server"
    return ProjectFiles(
        "server: a client starts it, and prints each acknowledged request",
        files | _workflow_file(record, [CLIENT]),
        _probe_command(record, out / CHECK, [str(out / CLIENT)]),
        [note],
    )


def _files_of_suite(options: InitOptions, kind: str) -> ProjectFiles:
    """Return a test that contains its own program. Raises BadParameter if the directory has no tests."""
    if kind not in ("", PYTEST):
        raise typer.BadParameter(f"expected a program after --, found none for --kind {kind}")
    if not kind and not any(path for pattern in _TESTS for path in options.out.glob(pattern)):
        raise typer.BadParameter(
            "expected a program after --, as in: tornlog init -- ./writer; or tests of pytest, "
            f"found neither in {options.out.resolve()}"
        )
    log = Candidate(PYTEST, "a test crashes a separate program", render("log.py", file="log", is_part=False))
    project = _files_of_test(options.out, log, render("test.py", program=[], record=""))
    note = f"replace save in {options.out / TEST_PROGRAM} by calls of your own package"
    return project._replace(files={TEST_PROGRAM: render("crash_program.py"), **project.files}, notes=[note])


def _files_of_test(out: Path, found: Candidate, test: str) -> ProjectFiles:
    command = ["pytest", "--tornlog-out", "out", "--junit-xml", "out/junit.xml", TEST]
    workflow = render("probe.yml", packages=" pytest .", command=shlex.join(command))
    files = {TEST: found.text + test, WORKFLOW: workflow}
    return ProjectFiles(f"{PYTEST}: {found.reason}", files, ["pytest", str(out / TEST)], [])


def _workflow_file(options: list[str], program: list[str]) -> dict[str, str]:
    results = ["--junit", "out/junit.xml"]
    command = shlex.join(_probe_command([*options, *results], Path(CHECK), program))
    summary = command.replace(" -- ", ' --summary "$GITHUB_STEP_SUMMARY" -- ', 1)
    return {WORKFLOW: render("probe.yml", packages="", command=summary)}


def _probe_command(options: list[str], check: Path, program: list[str]) -> list[str]:
    return ["tornlog", "probe", *options, "--check", str(check), "--out", "out", "--", *program]
