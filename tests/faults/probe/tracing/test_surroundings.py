"""The environment of recorded programs, and messages for programs that cannot be recorded."""

import ctypes
import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent

import pytest

from tests.faults.probe.steps import as_short_texts, steps_of
from tests.faults.probe.tracing.programs import compiled, python, traced
from tornlog.faults.disk.image import FileImage, Image
from tornlog.faults.probe.record import FILES, TEMPORARY
from tornlog.faults.probe.recording.run import EMPTY, ProgramError
from tornlog.faults.probe.tracing import ptrace, run
from tornlog.faults.probe.tracing.run import record_traced

NOBODY = 65534


def test_a_shell_script_is_recorded_with_its_processes() -> None:
    steps = steps_of(record_traced(["sh", "-c", "echo one > a; mv a b & wait; cat b"], EMPTY, 60.0))

    assert as_short_texts(steps) == [
        "create /files/a #0",
        "write #0 'one\\n'",
        "rename /files/a /files/b",
        "acknowledge one",
    ]


def test_a_thread_is_shown_by_its_name_at_its_first_step() -> None:
    record, unlike = traced(
        """
        def work():
            os.sched_getaffinity(0)  # seen, and no step
            libc.prctl(15, b"later")
            os.write(file(), b"1")
            libc.prctl(15, b"too late")
            os.write(file(), b"2")
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        """
    )

    assert unlike == []
    assert {record.tasks[step.by].name for step in record.steps} == {"later"}


def test_a_step_has_its_process_thread_and_system_call() -> None:
    record, unlike = record_traced(["sh", "-c", "echo one > a; mv a b; :"], EMPTY, 60.0)

    assert unlike == []
    assert [(record.tasks[step.by], step.call) for step in record.steps] == [
        ((0, 0, "sh"), "openat"),
        ((0, 0, "sh"), "write"),
        ((1, 1, "mv"), record.steps[2].call),
    ]
    assert record.steps[2].call.startswith("rename")


def test_a_static_program_without_any_library_is_recorded(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        """
        #include <fcntl.h>
        #include <stdio.h>
        #include <unistd.h>
        int main(void) {
            FILE *log = fopen("log", "w");
            fputs("through stdio", log);
            printf("not yet\\n");
            fclose(log);
            printf("now\\n");
            return 0;
        }
        """,
        "-static",
    )

    steps = steps_of(record_traced([program], EMPTY, 60.0))

    assert as_short_texts(steps) == [
        "create /files/log #0",
        "acknowledge not yet",
        "write #0 'through stdio'",
        "acknowledge now",
    ]


def test_a_recorded_call_changes_only_the_result_register(tmp_path: Path) -> None:
    """After mmap the recorder makes the thread execute other calls; on aarch64 the kernel shows a mark in x7."""
    program = compiled(
        tmp_path,
        """
        #include <fcntl.h>
        #include <sys/mman.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        #if defined __aarch64__
        #define CALL "svc 0"
        #define LOST "memory"
        #define NAMED(x86, arm) asm(arm)
        #else
        #define CALL "syscall"
        #define LOST "rcx", "r11", "memory"
        #define NAMED(x86, arm) asm(x86)
        #endif
        int main(void) {
            int file = open("f", O_CREAT | O_RDWR, 0600);
            register long number NAMED("rax", "x8") = SYS_mmap;
            register long start NAMED("rdi", "x0") = 0;
            register long size NAMED("rsi", "x1") = 4096;
            register long protection NAMED("rdx", "x2") = PROT_READ | PROT_WRITE;
            register long flags NAMED("r10", "x3") = MAP_SHARED;
            register long descriptor NAMED("r8", "x4") = file;
            register long offset NAMED("r9", "x5") = 0;
            register long other NAMED("r12", "x7") = 7777;
            asm volatile(CALL : "+r"(number), "+r"(start), "+r"(other)
                : "r"(size), "r"(protection), "r"(flags), "r"(descriptor), "r"(offset) : LOST);
            return other == 7777 ? 0 : 3;
        }
        """,
        "-O1",
    )

    assert as_short_texts(steps_of(record_traced([program], EMPTY, 60.0))) == ["create /files/f #0"]


@pytest.mark.skipif(os.uname().machine != "aarch64", reason="other processors guard no jumps, or Linux does not")
def test_injected_calls_work_in_code_with_branch_protection(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        """
        #include <fcntl.h>
        #include <string.h>
        #include <sys/mman.h>
        #include <unistd.h>
        void sync_guarded(int), store(volatile char *, int);
        asm(".globl sync_guarded, store");
        asm("sync_guarded: hint 34; mov x8, 82; svc 0; ret");
        asm("store: strb w1, [x0]; ret");
        int main(void) {
            int file = open("f", O_CREAT | O_RDWR, 0600);
            ftruncate(file, 4096);
            char *code = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            memcpy(code, sync_guarded, 16);
            __builtin___clear_cache(code, code + 16);
            if (mprotect(code, 4096, PROT_READ | PROT_EXEC | 16) && mprotect(code, 4096, PROT_READ | PROT_EXEC))
                return 3;
            void (*volatile sync_it)(int) = (void *)code;
            void (*volatile store_it)(volatile char *, int) = store;
            char *map = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
            sync_it(file);
            store_it(map, 'B');
            return 0;
        }
        """,
        "-O1",
    )

    steps = steps_of(record_traced([program], EMPTY, 60.0))

    assert as_short_texts(steps) == ["create /files/f #0", "truncate #0 @4096", "sync #0", "store #0 'B'"]


def test_files_at_the_start_exist_and_have_numbers() -> None:
    start = Image({f"{FILES}/a": FileImage(b"A", 0), f"{FILES}/b": FileImage(b"B", 0)}, (FILES, TEMPORARY))

    steps = steps_of(traced('os.write(os.open("b", os.O_WRONLY | os.O_APPEND), open("a", "rb").read())', start=start))

    assert as_short_texts(steps) == ["write #1 @1 'A'"]


def test_stores_made_by_a_system_call_are_found_at_the_next_call() -> None:
    steps = steps_of(
        traced(
            "f = file(content=bytes(8192)); m = mmap.mmap(f, 8192); m[0] = 65; m[9] = 66; os.fsync(f); m[5000] = 67",
            "call",
        )
    )

    assert as_short_texts(steps)[2:] == ["store #0 'A" + "\\x00" * 8 + "B'", "sync #0", "store #0 @5000 'C'"]


def test_a_blocked_call_does_not_block_other_threads() -> None:
    steps = steps_of(
        traced(
            """
            f = file("f", b"")
            r, w = os.pipe()
            def answer():
                os.pwrite(f, b"first", 0)
                os.write(w, b"piped")
            thread = threading.Timer(0.2, answer)
            thread.start()
            os.splice(r, f, 5, offset_dst=10)
            """
        )
    )

    assert as_short_texts(steps) == ["create /files/f #0", "write #0 'first'", "write #0 @10 'piped'"]


def test_signals_reach_a_recorded_program() -> None:
    found = traced(
        """
        f = file(content=bytes(12288))
        m = mmap.mmap(f, 12288)
        count = 0
        def handler(*_):
            global count
            count += 1
            m[4096] = count % 256
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        for turn in range(300):
            m[turn % 2 * 8192 + turn] = 1  # of many to one page in a row not each is a step
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert count
        child = os.fork()
        if not child:
            signal.pause()
        os.kill(child, signal.SIGTERM)
        assert os.WTERMSIG(os.wait()[1]) == signal.SIGTERM
        """
    )

    assert len([step for step in steps_of(found) if step.kind == "store"]) > 300


def test_sigpipe_ends_a_recorded_program() -> None:
    steps = steps_of(record_traced(["sh", "-c", "(yes; echo $? > status) | head -1; cat status"], EMPTY, 60.0))

    assert as_short_texts(steps)[-1] == f"acknowledge {128 + signal.SIGPIPE}"


def test_a_program_inherits_no_descriptor_of_the_recorder() -> None:
    inherited = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(inherited, True)
    try:
        steps = steps_of(record_traced(["sh", "-c", "echo /proc/self/fd/*; echo $TORNLOG_PROMISES"], EMPTY, 60.0))
    finally:
        os.close(inherited)

    found, promises = (step.path for step in steps)
    numbers = {int(path.rpartition("/")[2]) for path in found.split()}
    assert {0, 1, 2, int(promises)} <= numbers
    assert len(numbers) == 5, "beside these there is the one that the shell lists them by"


def test_a_process_killed_during_stores_is_recorded() -> None:
    steps = steps_of(
        traced(
            """
            f = file(content=bytes(8192))
            m = mmap.mmap(f, 8192)
            for turn in range(1, 11):
                child = os.fork()
                if not child:
                    signal.setitimer(signal.ITIMER_REAL, 0.003 * turn)
                    while True:
                        m[0] = (m[0] + 1) % 256
                os.waitpid(child, 0)
            """
        )
    )

    assert len(steps) > 20


def test_a_store_to_a_read_only_map_is_a_segmentation_fault() -> None:
    with pytest.raises(ProgramError, match="has ended with SIGSEGV"):
        traced("f = file(); m = mmap.mmap(f, 4096); ctypes.memset(libc.mmap(None, long(4096), 1, 1, f, long(0)), 1, 1)")


@pytest.mark.parametrize("promise", ["", "os.write(int(os.environ['TORNLOG_PROMISES']), b'a promise\\n')"])
def test_a_program_that_ends_with_an_error_shows_the_end_of_its_standard_output(promise: str) -> None:
    with pytest.raises(
        ProgramError, match=r"ended with 1; the end of its standard output: 4 \| 5 \| 6 \| 7 \| not locked$"
    ):
        traced(f"{promise}\nfor n in range(8): print(n)\nprint('not locked', end='', flush=True); os._exit(1)")


def test_block_sharing_fails_as_unsupported() -> None:
    steps_of(
        traced(
            """
            import fcntl
            f, g = file(), file("g", b"")
            try:
                fcntl.ioctl(g, 0x40049409, f)
            except OSError as error:
                assert error.errno == errno.EOPNOTSUPP
            """
        )
    )


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        ("f = file(content=bytes(8192)); done(libc.fallocate(f, 8, long(0), long(4096)))", "fallocate"),
        ('f = file(); os.rename("f", os.environ["HOME"] + "/moved")', "rename"),
        (
            """
            f = file()
            m = mmap.mmap(f, 4096)
            context = ctypes.c_ulong()
            done(libc.syscall(IO_SETUP, 8, ctypes.byref(context)))
            request = struct.pack("<QIiHhIQQqQII", 0, 0, 0, 0, 0, f, address(m), 50, 0, 0, 0, 0)
            control = ctypes.create_string_buffer(request, 64)
            libc.syscall(IO_SUBMIT, context, long(1), (ctypes.c_void_p * 1)(ctypes.addressof(control)))
            """,
            "io_submit",
        ),
        ('file(); os.symlink("f", "s"); os.link("s", "l", follow_symlinks=False)', "link"),
    ],
)
def test_unsupported_actions_are_reported_by_name(
    lines: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    record, _ = traced(lines)

    assert [one.event for one in record.unseen] == [named]


def test_a_socket_that_is_left_in_the_directory_is_refused() -> None:
    _, unlike = traced('s = socket.socket(socket.AF_UNIX); s.bind("s")')

    assert unlike == ["files/s: expected a file or a directory, found a socket"]


def test_a_socket_may_be_renamed_before_it_is_removed() -> None:
    lines = """
        for name in ("a", "b"):
            socket.socket(socket.AF_UNIX).bind("new")
            os.rename("new", "s")
        os.unlink("s")
        """

    assert steps_of(traced(lines)) == []


def test_a_socket_that_replaces_a_file_by_rename_is_refused() -> None:
    _, unlike = traced('file(); socket.socket(socket.AF_UNIX).bind("s"); os.rename("s", "f"); os.unlink("f")')

    assert unlike != []


def test_bytes_written_by_another_program_are_found_after_the_run(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    other = subprocess.Popen(["sh", "-c", f"read path < {pipe}; echo other >> $path/f; echo done > {pipe}"])

    _, unlike = traced(f'file(); open({str(pipe)!r}, "w").write(os.getcwd() + "\\n"); open({str(pipe)!r}).read()')
    other.wait()

    assert unlike == ["/files/f @ 10000: expected the file's end, found 0x6f (sizes: expected 10000, found 10006)"]


def test_a_program_that_exceeds_its_time_is_named_and_killed() -> None:
    with pytest.raises(ProgramError, match=r"the program has not ended within 0\.5 s"):
        record_traced(["sleep", "60"], EMPTY, 0.5)


def test_leftover_processes_are_reported() -> None:
    with pytest.raises(ProgramError, match="1 processes of it have not ended within 1 s"):
        record_traced(["sh", "-c", "sleep 60 & :"], EMPTY, 1.0)


def test_a_missing_program_is_named() -> None:
    with pytest.raises(ProgramError, match="no-such-program: expected an executable, found none"):
        record_traced(["no-such-program"], EMPTY, 1.0)


def test_a_file_without_a_program_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nothing"
    path.write_bytes(b"\x00")
    path.chmod(0o755)

    with pytest.raises(ProgramError, match="nothing: Exec format error"):
        record_traced([str(path)], EMPTY, 1.0)


def test_a_program_that_fails_is_named() -> None:
    with pytest.raises(ProgramError, match="the program has ended with 3"):
        record_traced(["sh", "-c", "exit 3"], EMPTY, 10.0)


def test_an_unsupported_operating_system_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run.platform, "system", lambda: "Darwin")
    monkeypatch.setattr(run.platform, "machine", lambda: "arm64")

    with pytest.raises(ProgramError, match="recording needs Linux on x86_64 or aarch64, found Darwin on arm64"):
        record_traced(["true"], EMPTY, 1.0)


def test_an_unsupported_page_size_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run.os, "sysconf", lambda name: 65536)

    with pytest.raises(ProgramError, match="recording needs pages of 4096 bytes, found 65536"):
        record_traced(["true"], EMPTY, 1.0)


def test_forbidden_ptrace_names_the_setting(source: Path) -> None:
    """A seccomp filter around the recorder returns EPERM, as in a container."""
    lines = """
        import ctypes, os, struct, sys
        from tornlog.faults.probe.recording.run import EMPTY, ProgramError
        from tornlog.faults.probe.tracing.run import record_traced
        libc = ctypes.CDLL(None)
        ptrace = 101 if os.uname().machine == "x86_64" else 117
        code = [(0x20, 0, 0, 0), (0x15, 0, 1, ptrace), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7FFF0000)]
        code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *one) for one in code))
        head = struct.pack("<H6xQ", 4, ctypes.addressof(code))
        assert not libc.prctl(38, 1, 0, 0, 0) and not libc.prctl(22, 2, head, 0, 0)
        try:
            record_traced(["true"], EMPTY, 10.0)
        except ProgramError as error:
            print(error)
        """
    done = subprocess.run([sys.executable, "-c", dedent(lines)], cwd=source, capture_output=True, text=True, check=True)

    assert "ptrace: Operation not permitted" in done.stdout
    assert "--cap-add SYS_PTRACE" in done.stdout
    assert "securityContext" in done.stdout


@pytest.mark.parametrize(
    ("scope", "how"), [("2", "set kernel.yama.ptrace_scope to 0 or 1"), ("3", "boot the machine with 0 or 1 there")]
)
def test_a_yama_restriction_names_the_setting(
    scope: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ptrace_scope"
    path.write_text(f"{scope}\n")
    monkeypatch.setattr(ptrace, "_SCOPE", str(path))

    found = ptrace._refusal_text(OSError(errno.EPERM, "Operation not permitted"))

    assert found == f"ptrace: Operation not permitted: {path} is {scope}: {how}"


def _without_capabilities() -> None:
    """Drop all capabilities for good, including those of root."""
    libc = ctypes.CDLL(None)
    for capability in range(64):
        libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS


_BARE = """
status = open("/proc/self/status").read()
assert "CapEff:\\t0000000000000000" in status and "CapBnd:\\t0000000000000000" in status
"""
_TRACE = """
import ctypes, json, os, sys
from tornlog.faults.probe.tracing.notes import ProgramNotes
from tornlog.faults.probe.tracing.process import trace
root, user, *command = sys.argv[1:]
if user != str(os.getuid()):
    os.setresuid(int(user), int(user), int(user))
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: as if it had started as this user
record, _ = trace(root, command[0], command, 60.0, "step", ProgramNotes())
print(json.dumps([len(record.unseen), record.exit, [step.kind for step in record.steps]]))
"""


def test_a_user_without_any_capability_can_record() -> None:
    command = python('f = file(); m = mmap.mmap(f, 4096); m[1] = 66; os.link("f", "l")')
    with TemporaryDirectory() as root:
        for name in ("files", "tmp"):
            Path(root, name).mkdir()
        arguments = [sys.executable, "-c", _BARE + _TRACE, os.path.realpath(root), str(os.getuid()), *command]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False, preexec_fn=_without_capabilities)

    assert done.stderr == ""
    assert json.loads(done.stdout) == [0, 0, ["create", "write", "store", "link"]]


@pytest.mark.skipif(os.getuid() != 0, reason="who runs this is an ordinary user already")
def test_an_ordinary_user_can_record() -> None:
    with TemporaryDirectory() as root:
        for directory in (Path(root), Path(root, "files"), Path(root, "tmp")):
            directory.mkdir(exist_ok=True)
            directory.chmod(0o777)
        command = ["/bin/sh", "-c", "echo one > f; mv f g"]
        arguments = [sys.executable, "-c", _TRACE, os.path.realpath(root), str(NOBODY), *command]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)

    assert done.stderr == ""
    assert json.loads(done.stdout) == [0, 0, ["create", "write", "rename"]]


_MINE = """
def mine():  # as it is said where nobody who records a program sees that it asks
    with open("/proc/thread-self/status") as status:
        return next(line.split()[1] for line in status if line.startswith("Cpus_allowed_list"))
print(mine())
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) == 1, reason="this machine has one processor")
@pytest.mark.parametrize(
    "act",
    [
        "seen = os.sched_getaffinity(0); print(mine() if len(seen) > 1 else seen)",
        "os.sched_setaffinity(0, range(1024)); print(mine())",
        "other = threading.Thread(target=lambda: print(mine())); other.start(); other.join()",
        "in_child(lambda: print(mine(), flush=True))",
    ],
)
def test_a_recorded_program_is_pinned_to_one_cpu_until_it_asks_for_its_cpus(act: str) -> None:
    *_, words = Path("/proc/thread-self/status").read_text().partition("Cpus_allowed_list:")
    everywhere = words.split()[0]

    alone, seen, then = as_short_texts(steps_of(traced(f"{_MINE}{act}\nprint(mine())\n")))

    assert alone.removeprefix("acknowledge ").isdecimal(), "one processor"
    assert [seen, then] == [f"acknowledge {everywhere}"] * 2
