"""`tornlog init`: each template finds the bug of a program of its kind, and accepts the program without the bug."""

import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from textwrap import dedent

import pytest
import yaml

from tests.command_line import tornlog, usage_error

Done = CompletedProcess[str]
Run = Callable[[str], Done]

LOG = """
    import os, sys
    log = os.open("log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.fsync(os.open(".", os.O_RDONLY))
    for number in range(3):
        os.write(log, b"%sorder %d\\n" % (b"12:00 " if "timed" in sys.argv else b"", number))
        if "sound" in sys.argv:
            os.fsync(log)
        print("order", number)
"""
DATABASE = """
    import sqlite3, sys
    database = sqlite3.connect("shop.db", isolation_level=None)
    database.execute(f"PRAGMA synchronous={'EXTRA' if 'sound' in sys.argv else 'OFF'}")
    database.execute("CREATE TABLE orders (number INTEGER PRIMARY KEY, name TEXT)")
    for name in ("apple", "pear"):
        database.execute("INSERT INTO orders (name) VALUES (?)", (name,))
        print("order", name)
"""
STORE = """
    import json, os, sys
    values = {}
    for number in range(3):
        values[f"k{number % 2}"] = f"v{number}"
        with open("new", "w") as file:
            if "json" in sys.argv:
                json.dump(values, file)
            else:
                file.writelines(f"{key}={value}\\n" for key, value in values.items())
            file.flush()
            if "sound" in sys.argv:
                os.fsync(file.fileno())
        os.rename("new", "store")
        if "sound" in sys.argv:
            os.fsync(os.open(".", os.O_RDONLY))
        print(f"put k{number % 2} v{number}")
"""
VALUE = """
    import os, sys
    for value in ("one", "two"):
        with open("value.new", "w") as file:
            file.write(value)
            file.flush()
            if "sound" in sys.argv:
                os.fsync(file.fileno())
        os.rename("value.new", "value")
        if "sound" in sys.argv:
            os.fsync(os.open(".", os.O_RDONLY))
        print(value)
"""
SERVER = """
    import os, socketserver, sys

    values = {}
    if os.path.exists("data"):
        values.update(line.split() for line in open("data").read().split("\\n")[:-1])
    log = open("data", "a")
    os.fsync(os.open(".", os.O_RDONLY))

    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            for line in self.rfile:
                command, key, *value = line.decode().split()
                if command == "get":
                    self.wfile.write(values.get(key, "none").encode() + b"\\n")
                    continue
                values[key] = value[0]
                print(key, value[0], file=log, flush=True)
                if "sound" in sys.argv:
                    os.fsync(log.fileno())
                self.wfile.write(b"OK\\n")

    print("listening", flush=True)
    socketserver.TCPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    return place


@pytest.fixture
def run(project: Path, shell: Callable[..., Done]) -> Run:
    """Return a function that runs a shell command in the project, in an environment with the wheel."""

    def run(line: str) -> Done:
        return shell(line, project, GITHUB_STEP_SUMMARY=str(project / "summary.md"))

    return run


def next_command(done: Done) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout.rpartition("next: ")[2]


def command_of_workflow(project: Path) -> str:
    workflow = yaml.safe_load((project / ".github" / "workflows" / "probe.yml").read_text())
    steps = workflow["jobs"]["probe"]["steps"]
    return next(step["run"] for step in steps if "out/junit.xml" in step.get("run", ""))


@pytest.mark.ci
@pytest.mark.parametrize(
    ("text", "words", "heading", "broken"),
    [
        (LOG, "", "log: log has each printed line, in order", "'order 0' is lost"),
        (LOG, "timed ", "log: log has each printed line, in order", "'order 0' is lost"),
        (DATABASE, "", "database: 'SELECT name FROM orders' in shop.db returns each", "'order apple' is lost"),
        (STORE, "json ", "key-value: store is JSON with the printed keys and values", "'k0' is lost"),
        (STORE, "", "key-value: lines of store are the printed keys and values", "'k0' is lost"),
        (VALUE, "", "key-value: value has the last printed line", "'value' is lost"),
    ],
    ids=["log", "log with times", "database", "JSON", "lines", "value"],
)
def test_a_check_finds_the_bug_and_accepts_the_program_without_it(
    text: str, words: str, heading: str, broken: str, project: Path, run: Run
) -> None:
    (project / "writer.py").write_text(dedent(text))
    done = run(f"tornlog init -- writer.py {words}")
    command = next_command(done).strip()

    assert done.stdout.startswith(heading)
    found = run(f"{command} || test $? = 1")
    assert (found.returncode, f"  {broken}\n" in found.stdout) == (0, True), found.stdout + found.stderr
    sound = run(f"{command} sound")
    assert (sound.returncode, "every promise held" in sound.stdout) == (0, True), sound.stdout + sound.stderr


@pytest.mark.parametrize(
    ("lines", "heading"),
    [
        (["store = dbm.dumb.open('store')", "store['k'] = 'v'", "store.close()"], "key-value: store is a dbm with"),
        (["open('k', 'w').write('v')"], "key-value: files have the names of the printed keys and values"),
    ],
)
def test_the_reader_of_a_store_is_found_by_its_files(
    lines: list[str], heading: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    Path("writer.py").write_text("\n".join(["import dbm.dumb", *lines, "print('k=v')"]))

    done = tornlog("init", "--", "writer.py")

    assert done.stdout.startswith(heading), done.output


@pytest.mark.ci
def test_the_check_of_a_log_reports_order_and_torn_lines(project: Path, run: Run) -> None:
    (project / "writer.py").write_text(dedent(LOG))
    next_command(run("tornlog init -- writer.py"))
    names: dict[str, Callable[..., list[str]]] = {}
    exec((project / "probe" / "check.py").read_text(), names)

    def judged(log: bytes) -> list[str]:
        (project / "log").write_bytes(log)
        return list(names["check"](project, ["a", "b"]))

    assert judged(b"a\nb\n\0\0") == []
    assert judged(b"b\na\n") == ["'b' is out of order"]
    assert judged(b"a\nb") == ["'b' is lost"]
    assert judged(b"a\n\0\0\nb\n") == ["a torn line is before 'b': '\\x00\\x00'"]


@pytest.mark.ci
def test_a_server_is_started_by_a_client_and_again_by_the_check(project: Path, run: Run) -> None:
    (project / "server.py").write_text(dedent(SERVER))
    command = next_command(run("tornlog init -- python server.py {port}"))
    client = project / "probe" / "client.py"

    found = run(f"{command.strip()} || test $? = 1")
    client.write_text(client.read_text().replace('"{port}"]', '"{port}", "sound"]'))
    sound = run(command)

    assert "'key0' was acknowledged with 'value0', the server answers 'none'" in found.stdout, found.stderr
    assert "every promise held" in sound.stdout, sound.stderr


@pytest.mark.ci
def test_a_suite_of_pytest_gets_a_test_with_the_fixture(project: Path, run: Run) -> None:
    (project / "conftest.py").touch()
    done = run("tornlog init")
    program = project / "tests" / "crash_program.py"

    sound = run(next_command(done))
    program.write_text(program.read_text().replace("        os.fsync(log", "        (log"))
    found = run(f"{command_of_workflow(project).strip()} || test $? = 1")

    assert "1 passed" in sound.stdout
    assert "'line 0' is lost" in found.stdout
    assert list((project / "out" / "probes").glob("*/failures/*/failure.json"))


@pytest.mark.ci
def test_a_test_for_a_program_has_the_check_that_fits(project: Path, run: Run) -> None:
    (project / "writer.py").write_text(dedent(DATABASE))
    done = run(f"{next_command(run('tornlog init --kind pytest -- writer.py')).strip()} || test $? = 1")

    assert "'order apple' is lost" in done.stdout
    assert "1 failed" in done.stdout


@pytest.mark.ci
def test_the_job_for_ci_writes_its_results(project: Path, run: Run) -> None:
    shutil.copy(Path(__file__).parents[3] / "docs" / "examples" / "probe_saver.sh", project)
    next_command(run("tornlog init -- ./probe_saver.sh"))

    done = run(f"{command_of_workflow(project).strip()} || test $? = 1")

    assert done.returncode == 0, done.stderr
    assert "'value' is lost" in (project / "out" / "junit.xml").read_text()
    assert "'value' is lost" in (project / "summary.md").read_text()


def test_an_existing_file_is_left_as_it_is(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    (project / "probe").mkdir()
    check = project / "probe" / "check.py"
    check.write_text("mine")

    done = tornlog("init", "--", "sh", "-c", "echo one >>log\necho one")

    assert done.exit_code == 0, done.output
    assert "exists  probe/check.py, left as it is\nwrote   .github/workflows/probe.yml\n" in done.stdout
    assert check.read_text() == "mine"
    assert "'echo one >>log\necho one'" in command_of_workflow(project)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "expected a program after --, as in: tornlog init -- ./writer; or tests of pytest, found neither in"),
        ("--kind log", "expected a program after --, found none for --kind log"),
        ("--kind queue -- true", "expected one of database, log, key-value, server, pytest, found queue"),
        (
            "--kind server -- ./server 7000",
            "expected {port} in place of the server's port, found none in ./server 7000",
        ),
        ("-- ./gone", "./gone: expected a program, found no executable of that name"),
        ("-- touch file", "expected a program that prints a line when data is saved, found no line"),
        ("-- sleep 60", "has not ended within 1 s. A server needs {port} in place of its port"),
        ("-- mktemp ./XXX", "expected files that hold the printed lines, found files"),
    ],
)
def test_a_program_without_a_check_is_refused_with_the_reason(
    words: str, said: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    assert said in usage_error("init", "--program-seconds", "1", *words.split())
    assert list(project.iterdir()) == []


def test_a_kind_that_does_not_fit_is_written_with_a_note(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    done = tornlog("init", "--kind", "database", "--", "mktemp", "./XXX")

    assert done.exit_code == 0, done.output
    assert "note: adapt probe/check.py: it does not fit the run, which left files " in done.stdout
    assert 'DATABASE = "data.db"' in (project / "probe" / "check.py").read_text()
