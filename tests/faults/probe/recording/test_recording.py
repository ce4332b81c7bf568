"""The recorder of Python programs: steps with lines, and reports of unrecorded actions."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.probe.steps import as_short_texts, steps_of, stories
from tornlog.faults.probe.record import FILES, TEMPORARY, ProgramRecord, Step
from tornlog.faults.probe.recording.run import ProgramError, record_program, start_image_of

Recorded = Callable[..., tuple[ProgramRecord, list[str]]]
Taken = Callable[..., list[Step]]


@pytest.fixture
def recorded_steps(recorded: Recorded) -> Taken:
    """Return a function that records a script and returns its steps."""
    return lambda *arguments, **named: steps_of(recorded(*arguments, **named))


_STORIES = r"""
= bytes are recorded when Python passes them to the kernel
with open("log", "w") as log:
    log.write("one")
    print("written")
    log.flush()
    print("flushed")
    log.write("two")
    os.fsync(log.fileno())
> create /files/log #0 | acknowledge written | write #0 'one' | acknowledge flushed | sync #0 | write #0 @3 'two'
= every way to write through a descriptor
file = os.open("file", os.O_RDWR | os.O_CREAT | os.O_EXCL)
os.write(file, memoryview(b"0123"))
os.writev(file, [b"45", bytearray(b"67")])
os.pwrite(file, b"AB", 2)
os.pwritev(file, [b"C", b"D"], 6)
twin = os.dup(file)
os.write(twin, b"89")
os.posix_fallocate(file, 0, 20)
os.ftruncate(twin, 15)
os.truncate("file", 12)
os.close(file)
os.fdatasync(twin)
source = os.open("file", os.O_RDONLY)
copy = os.open("copy", os.O_RDWR | os.O_CREAT)
os.sendfile(copy, source, 1, 4)
os.copy_file_range(source, copy, 3, 8, 10)
> create /files/file #0 | write #0 '0123' | write #0 @4 '4567' | write #0 @2 'AB' | write #0 @6 'CD' | write #0 @8 '89'
> allocate #0 +20 | truncate #0 @15 | truncate #0 @12 | sync data #0
> create /files/copy #1 | write #1 '1AB4' | write #1 @10 '89\x00'
= names and directories
pathlib.Path("a").touch()
os.makedirs("d/e")
os.link("a", "d/b")
pathlib.Path("a").rename("d/a")
os.replace("d/b", "d/e/b")
directory = os.open("d", os.O_RDONLY)
os.unlink("a", dir_fd=directory)
os.fsync(directory)
pathlib.Path("d/e/b").unlink()
os.removedirs("d/e")
os.sync()
> create /files/a #0 | make directory /files/d | make directory /files/d/e | link /files/a /files/d/b
> rename /files/a /files/d/a | rename /files/d/b /files/d/e/b | unlink /files/d/a | sync directory /files/d
> unlink /files/d/e/b | remove directory /files/d/e | remove directory /files/d | sync all
= a directory is renamed with its content
os.makedirs("a/in")
log = open("a/in/log", "w")
os.rename("a", "b")
log.write("x"); log.close()
os.rename("b/in/log", "b/log")
os.mkdir("a"); os.rename("a", "b/in")
> make directory /files/a | make directory /files/a/in | create /files/a/in/log #0 | rename /files/a /files/b
> write #0 'x' | rename /files/b/in/log /files/b/log | make directory /files/a | rename /files/a /files/b/in
= each write to a file opened synchronously is a sync, with O_DSYNC without times
file = os.open("file", os.O_WRONLY | os.O_CREAT | os.O_DSYNC)
os.write(file, b"a")
open("other", "wb", 0).write(b"b")
os.write(os.open("file", os.O_WRONLY | os.O_SYNC), b"c")
> create /files/file #0 | write #0 'a' | sync data #0 | create /files/other #1 | write #1 'b' | write #0 'c' | sync #0
= existing files are emptied
for _ in range(2):
    with open("file", "w") as file: file.write("x")
with open("file", "r+") as file: file.truncate()
> create /files/file #0 | write #0 'x' | truncate #0 | write #0 'x' | truncate #0
= files that are never closed are flushed at exit
def last(): print("exit function")
atexit.register(last)
file = open("file", "w")
file.write("left open")
> create /files/file #0 | acknowledge exit function | write #0 'left open'
= os._exit flushes no file
buffered = open("file", "w"); buffered.write("never flushed")
os._exit(0)
> create /files/file #0
= a descriptor may come to mean another file
one, other = open("one", "wb", 0), open("other", "wb", 0)
one.write(b"1")
os.dup2(other.fileno(), one.fileno())
one.write(b"2")
os.unlink("one")
> create /files/one #0 | create /files/other #1 | write #0 '1' | write #1 '2' | unlink /files/one
= a sparse file of a GiB
file = os.open("segment", os.O_RDWR | os.O_CREAT)
os.ftruncate(file, 1 << 30)
os.pwrite(file, b"record", 1 << 29)
os.posix_fallocate(file, 0, 1 << 16)
> create /files/segment #0 | truncate #0 @1073741824 | write #0 @536870912 'record' | allocate #0 +65536
"""
STORIES = stories(_STORIES)


@pytest.mark.parametrize("sentence", STORIES)
def test_the_steps_of_a_recorded_program_equal_the_expected_steps(recorded: Recorded, sentence: str) -> None:
    lines, expected = STORIES[sentence]

    assert as_short_texts(steps_of(recorded(f"import atexit, os, pathlib\n{lines}"))) == expected


@pytest.mark.parametrize("opened", ['open("log", "ab", buffering=0)', 'os.fdopen(os.open("log", APPEND), "wb", 0)'])
def test_appends_are_recorded_at_their_real_offset(recorded_steps: Taken, opened: str) -> None:
    steps = recorded_steps(
        f"""
        import os
        APPEND = os.O_WRONLY | os.O_APPEND
        with open("log", "wb") as log:
            log.write(b"0123")
        one, other = {opened}, {opened}
        one.write(b"ab"); other.write(b"cd"); one.write(b"ef")
        os.pwrite(one.fileno(), b"gh", 0)
        """
    )

    written = [(step.at, step.data) for step in steps if step.kind == "write"]
    assert written == [(0, b"0123"), (4, b"ab"), (6, b"cd"), (8, b"ef"), (10, b"gh")]


def test_shutil_and_similar_libraries_are_recorded(recorded: Recorded) -> None:
    found = recorded(
        """
        import gzip, mailbox, pathlib, shutil, tarfile, tempfile, zipfile
        pathlib.Path("text").write_text("hello" * 5000)
        shutil.copyfile("text", "copy"); shutil.copytree(".", "tree", ignore=shutil.ignore_patterns("tree"))
        shutil.rmtree("tree"); shutil.move("copy", "moved")
        with tempfile.NamedTemporaryFile(delete=False) as one: one.write(b"kept")
        with tempfile.TemporaryFile() as one: one.write(b"of no name")
        with tempfile.TemporaryDirectory() as directory: pathlib.Path(directory, "x").write_text("y")
        with gzip.open("text.gz", "wb") as one: one.write(b"z" * 1000)
        with zipfile.ZipFile("zip", "w") as one: one.writestr("member", "y" * 100)
        with tarfile.open("tar", "w") as one: one.add("text.gz")
        mail = mailbox.Maildir("mail"); mail.add("hello"); mail.flush()
        """
    )
    steps = steps_of(found)

    assert {step.kind for step in steps} >= {"create", "write", "rename", "unlink", "make directory", "link"}
    assert any(step.path.startswith(TEMPORARY) for step in steps)


def test_writes_of_threads_are_recorded_in_file_order(recorded_steps: Taken) -> None:
    steps = recorded_steps(
        """
        import threading
        log = open("log", "ab", buffering=0)
        def work(name):
            for number in range(50):
                log.write(f"{name}{number:02}".encode())
        threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
        for thread in threads: thread.start()
        """
    )

    written = [step for step in steps if step.kind == "write"]
    assert [step.at for step in written] == list(range(0, 450, 3))
    for name in b"abc":
        mine = [step.data for step in written if step.data[0] == name]
        assert mine == [b"%c%02d" % (name, number) for number in range(50)]


def test_a_recorded_stack_includes_library_and_program_lines(recorded: Recorded) -> None:
    record, _ = recorded(
        """
        import dbm.dumb
        def put(accounts):
            accounts["ann"] = "x"
        put(dbm.dumb.open("accounts"))
        """
    )
    stack = record.stacks[next(step.stack for step in record.steps if step.kind == "write")]

    files = [(Path(place.file).name, place.line, place.function) for place in stack]
    assert files[0][0] == "dumb.py"
    assert files[-2:] == [("script.py", 4, "put"), ("script.py", 5, "<module>")]


def test_explicit_promises_replace_printed_lines(recorded: Recorded) -> None:
    record, _ = recorded(
        """
        from tornlog.faults.probe import acknowledge
        print("chatter")
        acknowledge("order 7")
        print("more", end="")
        """
    )
    assert record.acknowledged == ["order 7"]

    record, _ = recorded('print("a\\nb"); print("c", end=""); print("d"); print("unfinished", end="")')
    assert record.acknowledged == ["a", "b", "cd"]


def test_a_module_runs_as_with_python_m(recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__init__.py").touch()
    (tmp_path / "app" / "__main__.py").write_text(
        "import sys\nfrom . import there\nopen(sys.argv[1], 'w').write(f'{__name__} {__package__} {there.X}')\n"
    )
    (tmp_path / "app" / "there.py").write_text("X = 1\n")
    monkeypatch.chdir(tmp_path)
    record, unlike = record_program(["-m", "app", "file"], start_image_of(_empty(tmp_path)), 60.0)

    assert unlike == []
    assert record.steps[-1].data == b"__main__ app 1"


def _empty(tmp_path: Path) -> Path:
    directory = tmp_path / "empty"
    directory.mkdir()
    return directory


def test_a_recorded_program_may_start_with_existing_files(recorded_steps: Taken, tmp_path: Path) -> None:
    begin = tmp_path / "begin"
    (begin / "d").mkdir(parents=True)
    (begin / "d" / "old").write_text("old")
    steps = recorded_steps(
        """
        with open("d/old", "r+") as file: file.write("O")
        open("new", "w").close()
        """,
        start=start_image_of(begin),
    )

    assert as_short_texts(steps) == ["write #0 'O'", "create /files/new #1"]
    assert (begin / "d" / "old").read_text() == "old"


UNSEEN = {
    "mmap.__new__": """
        import mmap, os
        file = open("file", "w+b"); file.write(b"x" * 4096); file.flush()
        mmap.mmap(file.fileno(), 4096, access=mmap.ACCESS_READ)
        mmap.mmap(file.fileno(), 4096)
        """,
    "sqlite3.connect": "import sqlite3; sqlite3.connect(':memory:'); sqlite3.connect('file')",
    "subprocess.Popen": "import subprocess, sys; subprocess.run([sys.executable, '-c', ''])",
    "os.system": "import os; os.system('true')",
    "os.fork": """
        import os
        if os.fork() == 0: os._exit(0)
        os.wait()
        """,
    "ctypes.dlsym": "import ctypes; ctypes.CDLL(None).sync",
    "os.symlink": "import os; os.symlink('file', 'link')",
    "os.splice": """
        import os
        reader, writer = os.pipe(); os.write(writer, b"x")
        os.splice(reader, os.open("file", os.O_WRONLY | os.O_CREAT), 1)
        """,
    "limit": "import os; os.truncate(os.open('file', os.O_WRONLY | os.O_CREAT), 1 << 41)",
}


@pytest.mark.parametrize("event", UNSEEN)
def test_actions_that_cannot_be_recorded_are_reported_with_their_lines(recorded: Recorded, event: str) -> None:
    record, _ = recorded(UNSEEN[event])

    assert {one.event for one in record.unseen} == {event}
    for one in record.unseen:
        assert any(place.file.endswith("script.py") for place in record.stacks[one.stack])


def test_unrecordable_actions_of_multiprocessing_children_are_reported(recorded: Recorded) -> None:
    record, _ = recorded(
        """
        import multiprocessing
        if __name__ == "__main__":
            process = multiprocessing.get_context("spawn").Process(target=print)
            process.start(); process.join()
        """
    )

    assert {one.event for one in record.unseen} == {"subprocess.Popen"}


def test_a_file_moved_in_from_outside_is_reported(recorded: Recorded, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("x")
    record, unlike = recorded("import os, sys; os.rename(sys.argv[1], 'inside')", str(tmp_path / "outside"))

    assert [one.event for one in record.unseen] == ["os.rename"]
    assert unlike == [f"{FILES}/inside: expected no such file, found one"]


def test_imports_of_harmless_libraries_are_not_reported(recorded_steps: Taken) -> None:
    recorded_steps(
        "import asyncio, ctypes, logging, mmap, multiprocessing, shelve, sqlite3, subprocess, uuid; uuid.uuid4()"
    )


BEHIND_ITS_BACK = {
    "in C": (
        """
        import numpy, os
        numpy.save("file", numpy.arange(9, dtype="u1"))
        """,
        "/files/file.npy @ 128: expected the file's end, found 0x00 (sizes: expected 128, found 137)",
    ),
    "by a map": (
        """
        import mmap
        file = open("file", "w+b"); file.write(b"x" * 4096); file.flush()
        mmap.mmap(file.fileno(), 4096)[100:102] = b"yz"
        """,
        "/files/file @ 100: expected 0x78, found 0x79",
    ),
    "by another process": (
        """
        import subprocess, sys
        subprocess.run([sys.executable, "-c", "open('file', 'w').close()"])
        """,
        "/files/file: expected no such file, found one",
    ),
    "by a removal in another process": (
        """
        import subprocess
        open("file", "w").close()
        subprocess.run(["rm", "file"])
        """,
        "/files/file: expected a file, found none",
    ),
}


@pytest.mark.parametrize("how", BEHIND_ITS_BACK)
def test_after_the_run_the_files_are_compared_with_the_recording(recorded: Recorded, how: str) -> None:
    lines, difference = BEHIND_ITS_BACK[how]
    _, unlike = recorded(lines)

    assert unlike == [difference]


def test_a_special_file_counts_as_a_difference(recorded: Recorded) -> None:
    _, unlike = recorded("import os; os.mkfifo('pipe')")

    assert unlike == ["files/pipe: expected a file or a directory, found a FIFO"]


@pytest.mark.parametrize("then", ["", "; os.unlink(name)"])
def test_a_name_that_is_not_utf_8_is_refused_even_if_removed(recorded: Recorded, then: str) -> None:
    with pytest.raises(ProgramError, match=r"expected names in UTF-8, found b'/files/\\xff'"):
        recorded(f"import os; name = os.fsdecode(b'\\xff'); open(name, 'w').close(){then}")


def test_an_unfinished_output_line_is_not_a_promise(recorded: Recorded) -> None:
    record, _ = recorded("print('one'); print('tw', end=''); print('o', end='')")

    assert (record.acknowledged, record.unended) == (["one"], "two")
    assert ProgramRecord.from_json(record.to_json()).unended == "two"


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("raise ValueError('no')", "ended with 1"),
        ("import sys; sys.exit(3)", "ended with 3"),
        ("import sys; sys.exit('because')", "ended with 1"),
        ("import os; os._exit(5)", "ended with 5"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ended with SIGKILL"),
        ("import (", "ended with 1"),
    ],
)
def test_a_program_that_fails_is_not_probed(recorded: Recorded, lines: str, why: str) -> None:
    with pytest.raises(ProgramError, match=why):
        recorded(lines)


def test_a_program_that_exceeds_the_time_limit_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("while True: pass")
    with pytest.raises(ProgramError, match="not ended within"):
        record_program([str(script)], start_image_of(_empty(tmp_path)), 0.5)


def test_the_recorded_open_raises_the_same_errors_as_open(recorded: Recorded, tmp_path: Path) -> None:
    lines = """
        import json, os, sys
        os.mkdir("d")
        tries = [("x", "wb", 0, "utf-8"), ("x", "w", 0), ("x", "rw"), ("x", "q"), ("x", "w", -3), ("d", "w"),
                 ("none/x", "w"), ("x", "wbt"), (12345, "w"), ("x", "w", -1, "no-such-code"), ("x", "x"), ("x", "xb")]
        said = []
        for one in tries:
            try:
                open(*one).close()
                said.append("done")
            except Exception as error:
                said.append(f"{type(error).__name__}: {error}")
        print(json.dumps(said))
        """
    record, _ = recorded(lines)
    plain = tmp_path / "plain"
    plain.mkdir()
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, tmp_path / "script.py"], cwd=plain, capture_output=True, text=True, check=True
    )

    assert record.acknowledged == [done.stdout.strip()]


def test_each_step_names_its_thread(recorded: Recorded) -> None:
    record, unlike = recorded(
        """
        import threading
        def put(name):
            with open(name, "w") as file:
                file.write(name)
        for name in ("a", "b"):
            thread = threading.Thread(target=put, args=(name,), name=f"writer {name}")
            thread.start()
            thread.join()
        put("c")
        """
    )

    assert unlike == []
    by = [(record.tasks[step.by].name, step.data) for step in record.steps if step.kind == "write"]
    assert by == [("writer a", b"a"), ("writer b", b"b"), ("MainThread", b"c")]
    assert [task.process for task in record.tasks] == [0, 0, 0]
