"""`tornlog probe` without a check: the durability report of programs, compared with the verdict of a check."""

import json
import shlex
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from textwrap import dedent

import pytest

from tests.command_line import tornlog
from tests.reports.cli.probe.programs import CHECK

SAVE = """
    import os, sys
    for value in ("one", "two"):
        with open("new", "w") as file:
            file.write(value)
            if "file" in sys.argv:
                file.flush()
                os.fsync(file.fileno())
        os.replace("new", "value")
        if "directory" in sys.argv:
            os.fsync(os.open(".", os.O_RDONLY))
        print(value)
    """
STORES = """
    #include <fcntl.h>
    #include <stdio.h>
    #include <sys/mman.h>
    #include <unistd.h>

    int main(void) {
        int log = open("log", O_CREAT | O_WRONLY | O_DSYNC, 0644), map = open("map", O_CREAT | O_RDWR, 0644);
        fsync(open(".", O_RDONLY));
        write(log, "hello", 5);
        ftruncate(map, 8192);
        char *bytes = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, map, 0);
        bytes[10] = 1;
        bytes[5000] = 2;
        msync(bytes, 4096, MS_SYNC);
        puts("kept");
    }
    """
SQLITE = """
    import sqlite3, sys
    base = sqlite3.connect("base")
    base.execute(f"pragma synchronous={sys.argv[1]}")
    base.execute("create table rows(row)")
    for row in range(3):
        base.execute("insert into rows values(?)", (row,))
        base.commit()
        print("row", row)
    """


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str, str], Path]:
    def program(name: str, lines: str) -> Path:
        path = tmp_path / name
        path.write_text(dedent(lines))
        path.chmod(0o755)
        return path

    return program


invoke = partial(tornlog, "probe", columns=120)


def report(*arguments: object) -> dict:
    result = invoke("--json", "-", *arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def in_short(groups: list[dict]) -> list[str]:
    return [f"{group['kind']} {group['name']}: {group['missing']}" for group in groups]


@pytest.mark.parametrize("syncs", [(), ("file",), ("directory",), ("file", "directory")])
@pytest.mark.parametrize("disk", ["strict-posix", "ext4-ordered"])
def test_a_saver_has_no_rows_if_and_only_if_a_check_finds_no_breach(
    program: Callable[[str, str], Path], disk: str, syncs: tuple[str, ...]
) -> None:
    script, check = program("save.py", SAVE), program("check.py", CHECK)
    found = report("--disk", disk, "--", script, *syncs)
    verdict = invoke("--jobs", "0", "--disk", disk, "--check", check, "--", script, *syncs)

    assert found["durable"] == ([disk] if verdict.exit_code == 0 else [])
    assert in_short(found["not_durable"]) == [
        *(["append new: fsync of new"] if not syncs or (syncs == ("directory",) and disk == "strict-posix") else []),
        *(["rename new -> value: fsync of the directory ."] if "directory" not in syncs else []),
    ]


def test_the_terminal_shows_the_missing_sync_and_how_to_add_a_check(program: Callable[[str, str], Path]) -> None:
    script = program("save.sh", "#!/bin/sh\necho one > new; mv new value; echo one; echo two > new\n")
    result = invoke("--disk", "ext4", "--disk", "process-kill", "--", script)
    lines = [line.rstrip() for line in result.stdout.splitlines()]

    assert result.exit_code == 0
    assert lines[0] == "5 operations, 1 promise: 2 kinds of effect not durable at a promise"
    rename = next(number for number, line in enumerate(lines) if line.startswith("rename new -> value"))
    assert lines[rename].split()[-4:] == ["1", "1", "1", "0"]
    assert lines[rename + 1 : rename + 3] == ["  missing: fsync of the directory .", "  on ext4"]
    assert "3 rename new -> value  renameat2  by mv of" in lines[rename + 3]  # the rest depends on the width
    assert "the page cache survives the crash, so no effect is lost, on process-kill" in lines
    assert "after the last promise, not durable at the end of the run, which is usual:" in lines
    assert lines[-1] == (
        "no check was given, so nothing was judged; to add one: "
        f"tornlog probe --check ./check.sh --disk ext4 --disk process-kill -- {shlex.quote(str(script))}"
    )


def test_a_program_without_promises_has_its_rows_at_the_end_of_the_run(program: Callable[[str, str], Path]) -> None:
    script = program("save.sh", "#!/bin/sh\necho one > new\nsync new\n")
    result = invoke("--disk", "strict-posix", "--", script)

    assert "0 promises: 1 kind of effect not durable at the end\n" in result.stdout
    assert "note: no promise was recorded" in result.stdout
    assert "create new" in result.stdout
    assert report("--disk", "strict-posix", "--", script)["not_durable"] == []


@pytest.mark.parametrize(
    ("setting", "left"),
    [
        ("EXTRA", []),
        ("FULL", ["unlink base-journal: fsync of the directory ."]),
        (
            "OFF",
            [
                "append base: fsync of base",
                "create base: fsync of the directory .",
                "unlink base-journal: fsync of the directory .",
                "write base: fsync of base",
            ],
        ),
    ],
)
def test_sqlite_is_durable_as_its_manual_says(
    program: Callable[[str, str], Path], setting: str, left: list[str]
) -> None:
    script = program("rows.py", SQLITE)
    found = report("--record", "calls", "--disk", "strict-posix", "--", script, setting)

    assert found["promises"] == 3
    assert sorted(in_short(found["not_durable"])) == left


def test_an_msync_covers_only_its_pages_and_a_write_to_o_dsync_needs_no_sync(
    program: Callable[[str, str], Path], tmp_path: Path
) -> None:
    source, binary = program("stores.c", STORES), tmp_path / "stores"
    subprocess.run(["gcc", "-g", "-w", "-o", binary, source], check=True)
    (group,) = report("--stacks", "--disk", "strict-posix", "--", binary)["not_durable"]

    assert (group["kind"], group["name"], group["range"], group["bytes"]) == ("store", "map", [5000, 5001], 1)
    assert "stores.c:14 main" in group["first"]["by"]
    assert (group["first"]["promise"], group["first"]["text"]) == (1, "kept")


def test_the_summary_and_the_page_have_the_rows(program: Callable[[str, str], Path], tmp_path: Path) -> None:
    script, summary, out = program("save.py", SAVE), tmp_path / "summary.md", tmp_path / "out"
    result = invoke("--summary", summary, "--out", out, "--", script)

    assert result.exit_code == 0
    for text in (summary.read_text(), (out / "report.html").read_text()):
        assert "missing: fsync of the directory ." in text
        assert "Nothing was judged" in text or "### tornlog probe" in text
