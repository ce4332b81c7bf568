"""Source lines of steps: C and Go programs with all kinds of frames and links."""

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from tornlog.faults.probe.record import ProgramRecord
from tornlog.faults.probe.recording.run import EMPTY, ProgramError
from tornlog.faults.probe.story import step_text
from tornlog.faults.probe.tracing import source_lines
from tornlog.faults.probe.tracing.call_frames import CallFrames
from tornlog.faults.probe.tracing.elf import ElfFile
from tornlog.faults.probe.tracing.go_lines import GoLines
from tornlog.faults.probe.tracing.run import record_traced

C = """
    #include <fcntl.h>
    #include <pthread.h>
    #include <stdio.h>
    #include <sys/mman.h>
    #include <unistd.h>
    static int append_record(int file, int number) {
        char record[9000] = "record";
        return pwrite(file, record, sizeof record, number * sizeof record); // append
    }
    static void *other(void *nothing) {
        close(open("other", O_CREAT | O_WRONLY, 0600)); // other
        return nothing;
    }
    int main(void) {
        pthread_t thread;
        int file = open("log", O_CREAT | O_RDWR, 0600);
        append_record(file, 0);
        volatile char *map = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        map[7] = 'x'; // store
        FILE *buffered = fopen("notes", "w");
        fprintf(buffered, "a note");
        fclose(buffered); // flush
        pthread_create(&thread, 0, other, 0);
        pthread_join(thread, 0);
        return 0;
    }
    """
GO = """
    package main

    import "os"

    func appendRecord(file *os.File) {
        file.WriteString("record") // append
    }

    func main() {
        file, _ := os.Create("log")
        appendRecord(file)
    }
    """
Built = Callable[..., Path]


def line_number_of(source: str, mark: str) -> int:
    return next(number for number, line in enumerate(dedent(source).splitlines(), 1) if line.endswith(f"// {mark}"))


def recorded(program: Path) -> ProgramRecord:
    record, unlike = record_traced([str(program)], EMPTY, 60.0, takes_stacks=True)
    assert unlike == []
    return record


@pytest.fixture
def built(tmp_path: Path) -> Built:
    """Build the program in C with some options."""
    if shutil.which("gcc") is None or not source_lines.is_addr2line_installed():
        pytest.skip("no gcc with binutils to build a program in C with")

    def built(*options: str) -> Path:
        (tmp_path / "server.c").write_text(dedent(C))
        program = tmp_path / "server"
        subprocess.run(["gcc", "-pthread", *options, "-o", program, tmp_path / "server.c"], check=True)
        return program

    return built


@pytest.mark.parametrize(
    "options",
    [
        ("-g", "-O0", "-fno-omit-frame-pointer"),
        ("-g", "-O2", "-fomit-frame-pointer"),
        ("-g", "-O2", "-static"),
        ("-g", "-O2", "-no-pie"),
        ("-g", "-O1", "-gz"),
    ],
    ids=" ".join,
)
def test_each_step_has_its_source_line_with_any_compiler_options(built: Built, options: tuple[str, ...]) -> None:
    record = recorded(built(*options))
    inner = [(step.kind, step.path.removeprefix("/files/"), record.stacks[step.stack][0]) for step in record.steps]
    places = {(kind, path, Path(place.file).name, place.line, place.function) for kind, path, place in inner}

    assert {
        ("write", "", "server.c", line_number_of(C, "append"), "append_record"),
        ("store", "", "server.c", line_number_of(C, "store"), "main"),
        ("write", "", "server.c", line_number_of(C, "flush"), "main"),
        ("create", "other", "server.c", line_number_of(C, "other"), "other"),
    } <= places


def test_a_stack_leads_from_the_function_to_its_callers(built: Built) -> None:
    record = recorded(built("-g", "-O0"))
    write = next(step for step in record.steps if step.kind == "write")

    assert [place.function for place in record.stacks[write.stack]][:2] == ["append_record", "main"]


def test_a_stack_has_inlined_functions(built: Built) -> None:
    record = recorded(built("-g", "-O2"))
    write = next(step for step in record.steps if step.kind == "write")

    assert [place.function for place in record.stacks[write.stack]][:2] == ["append_record", "main"]


def test_a_story_names_the_line_and_the_function(built: Built) -> None:
    record = recorded(built("-g"))
    texts = [step_text(record, number) for number in range(len(record.steps))]

    assert any(
        f"write log [0, 9000)  server.c:{line_number_of(C, 'append')} append_record  pwrite64" in one for one in texts
    )


def test_a_stripped_program_has_no_guessed_lines(built: Built) -> None:
    record = recorded(built("-O2", "-s"))
    assert {record.stacks[step.stack] for step in record.steps} == {()}


def test_stacks_are_only_taken_on_request(built: Built) -> None:
    record, _ = record_traced([str(built("-g"))], EMPTY, 60.0)
    assert record.stacks == ((),)


def test_a_missing_addr2line_is_reported_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_lines, "TOOL", "no-such-tool")
    with pytest.raises(ProgramError, match="need addr2line, which is not installed: install binutils"):
        record_traced(["true"], EMPTY, 60.0, takes_stacks=True)


def test_an_address_in_a_data_file_has_no_source_line() -> None:
    for content in (b"", b"#!/bin/sh\n", b"\x7fELF\x01\x01" + bytes(60), b"\x7fELF\x02\x01"):
        with pytest.raises((ValueError, struct.error)):
            ElfFile(content)


def test_an_unknown_function_has_no_unwind_rule() -> None:
    module = ElfFile(Path(sys.executable).resolve().read_bytes())
    assert CallFrames(module).rule(1) is None
    assert module.address(1 << 60) is None


@pytest.fixture
def built_by_go(tmp_path: Path) -> Built:
    """Build the program in Go with some options."""
    if shutil.which("go") is None:
        pytest.skip("no go to build a program in Go with")

    def built_by_go(*options: str) -> Path:
        (tmp_path / "main.go").write_text(dedent(GO))
        environment = {**os.environ, "GO111MODULE": "off", "CGO_ENABLED": "0"}
        command = ["go", "build", *options, "-o", "server", "main.go"]
        subprocess.run(command, cwd=tmp_path, env=environment, check=True)
        return tmp_path / "server"

    return built_by_go


def test_a_go_program_has_source_lines(built_by_go: Built) -> None:
    record = recorded(built_by_go())
    write = next(step for step in record.steps if step.kind == "write")
    places = [(Path(one.file).name, one.line, one.function) for one in record.stacks[write.stack]]

    assert places[0][:2] == ("main.go", line_number_of(GO, "append"))
    assert places[-1][2] == "main.main"
    assert all(one.file.endswith("main.go") for one in record.stacks[write.stack])


def test_a_go_program_without_symbols_has_source_lines(built_by_go: Built) -> None:
    record = recorded(built_by_go("-ldflags=-s -w", "-gcflags=-l"))  # nothing is inlined
    write = next(step for step in record.steps if step.kind == "write")
    places = [(Path(one.file).name, one.line, one.function) for one in record.stacks[write.stack]]

    assert places == [("main.go", line_number_of(GO, "append"), "main.appendRecord"), ("main.go", 12, "main.main")]


def test_a_go_line_table_of_an_unknown_version_is_ignored() -> None:
    module = ElfFile(Path(sys.executable).resolve().read_bytes())
    with pytest.raises(ValueError, match="an unknown version: 0xfffffffb"):
        GoLines(module, struct.pack("<IHBB8Q", 0xFFFF_FFFB, 0, 1, 8, *[0] * 8), 4096)
