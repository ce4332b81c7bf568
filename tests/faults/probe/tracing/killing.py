"""Programs killed at a recorded step: the disk must match the steps.

Run as a program of its own, because it waits for its children: `killing.py NAME KILLS` prints a JSON object. With the
further argument `stepped`, the processor executes every store, and Python makes all requests.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.faults.probe.tracing.programs import python
from tornlog.faults.disk.export import export_image
from tornlog.faults.probe.record import STORE, ProgramRecord, Step
from tornlog.faults.probe.recording.run import EMPTY, record_differences
from tornlog.faults.probe.tracing import plain_stores, ptrace
from tornlog.faults.probe.tracing.notes import ProgramNotes
from tornlog.faults.probe.tracing.process import trace

STEPPED = "stepped"
PROGRAMS = {
    "a log that is appended to and synced": """
        log = file("log", b"")
        for number in range(20):
            os.write(log, b"%d " % number * 300)
            os.fdatasync(log)
            print(number, flush=True)
        """,
    "values that are replaced by renaming": """
        for number in range(8):
            new = file("new", b"value %d" % number)
            os.fsync(new)
            os.close(new)
            os.rename("new", f"value{number % 2}")
            os.fsync(os.open(".", os.O_RDONLY))
        """,
    "records that are stored to a map": """
        f = file(content=bytes(16384))
        m = mmap.mmap(f, 16384)
        for number in range(30):
            struct.pack_into("<QI", m, number * 511, number + 1, 7)
            m[0] = number + 1
        m.flush()
        """,
    "stores across pages, and long ones": """
        f = file(content=bytes(65536))
        m = mmap.mmap(f, 65536)
        for number in range(12):
            m[number * 5000:number * 5000 + 3000] = bytes([65 + number]) * 3000
            ctypes.c_uint64.from_address(address(m, 4092)).value = number * 0x0101010101010101
        """,
    "threads that write and store": """
        f = file(content=bytes(16384))
        m = mmap.mmap(f, 16384)
        def work(number):
            for turn in range(8):
                m[number * 4096 + turn * 8] = turn + 1
                os.pwrite(f, b"%d" % turn, number * 4096 + 1000 + turn)
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        """,
    "processes that share a map and a position": """
        f = file(content=bytes(8192))
        m = mmap.mmap(f, 8192)
        def child():
            for turn in range(6):
                m[turn] = 65
                os.write(f, b"child")
        for _ in range(3):
            in_child(child)
            m[4096] += 1
        """,
    "names of all kinds": """
        for number in range(6):
            os.mkdir(f"d{number}")
            os.close(file(f"d{number}/f", b"x"))
            os.link(f"d{number}/f", f"l{number}")
            os.symlink(f"l{number}", f"s{number}")
            os.rename(f"d{number}", f"e{number}")
            os.unlink(f"l{number}")
            done(libc.renameat2(-100, b"e0", -100, b"e%d" % number, 2))
        """,
    "sizes and holes under a map": """
        f = file(content=b"a" * 20000)
        m = mmap.mmap(f, 8192)
        for turn in range(8):
            m[turn * 100] = 66
            done(libc.fallocate(f, 3, long(turn * 1000), long(700)))
            os.ftruncate(f, 20000 + turn)
            m[4096 + turn] = 67
        """,
    "a database with a journal": """
        import sqlite3
        database = sqlite3.connect("db")
        database.execute("create table t (a)")
        for number in range(3):
            with database:
                database.execute("insert into t values (?)", (number,))
        """,
    "a database with a log and a shared index": """
        import sqlite3
        database = sqlite3.connect("db")
        database.execute("pragma journal_mode = wal")
        database.execute("create table t (a)")
        for number in range(3):
            with database:
                database.execute("insert into t values (?)", (number,))
        database.close()
        """,
    "a log that io_uring appends to": """
        log, r = file("log", b""), Ring(16)
        for number in range(6):
            line = at(b"%d" % number * 9000)
            r.do(*((WRITE, log, (3 * number + part) * 9000, line, 9000, 0, {"flags": LINK}) for part in range(3)),
                (FSYNC, log, 0, 0, 0, 1))
            r.do((WRITE, log, number, line, 1), (FSYNC, log), (ALLOCATE, log, 60000 + number, 10),
                (FTRUNCATE, log, 70000))
            print(number, flush=True)
        """,
    "values that io_uring replaces by renaming": """
        r, here, link = Ring(16), -100, {"flags": LINK}
        r.register(13, at(struct.pack("IIQQQ", 4, 1, 0, 0, 0)), 32)
        for number in range(6):
            r.do((OPENAT, here, 0, at(b"new"), 0o644, os.O_CREAT | os.O_WRONLY, link | {"slot": 1}),
                (WRITE, 0, 0, at(b"%d" % number * 5000), 5000, 0, {"flags": LINK | FIXED}),
                (FSYNC, 0, 0, 0, 0, 0, {"flags": LINK | FIXED}), (CLOSE, 0, 0, 0, 0, 0, link | {"slot": 1}),
                (RENAMEAT, here, at(b"value%d" % (number % 2)), at(b"new"), here))
            r.do((MKDIRAT, here, 0, at(b"d"), 0o755), (LINKAT, here, at(b"d/l"), at(b"value0"), here),
                (SYMLINKAT, here, at(b"d/s"), at(b"l")), (UNLINKAT, here, 0, at(b"d/l")),
                (UNLINKAT, here, 0, at(b"d/s")), (UNLINKAT, here, 0, at(b"d"), 0, 0x200))
        """,
    "threads with rings, and one that stores to a map": """
        f = file(content=bytes(16384))
        m = mmap.mmap(f, 16384)
        def work(number):
            r = Ring(4, 1 << 12 | 1 << 13)
            for turn in range(5):
                r.do((WRITE, f, number * 4096 + turn, at(b"x"), 1), (WRITE, f, number * 4096 + 99, at(b"%d" % turn), 1))
        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for turn in range(30):
            m[12288 + turn] = turn + 1
        for thread in threads:
            thread.join()
        """,
}


class KillingNotes(ProgramNotes):
    """Kills all processes of the program with SIGKILL when a step is recorded."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self._at = at
        self.killed = 0

    def _append_step(self, step: object) -> None:
        super()._append_step(step)  # type: ignore[arg-type]
        if len(self.steps) == self._at:
            for process in list(_descendants(os.getpid())):
                os.kill(process, signal.SIGKILL)
                self.killed += 1


def _one_instruction(notes: ProgramNotes, at: int) -> list[Step]:
    """Return the next step if both come from one store that spans two pages."""
    step, *behind = notes.steps[at - 1 : at + 1]
    return [one for one in behind if step.kind == one.kind == STORE and (step.at + len(step.data)) % 4096 == 0]


def _descendants(process: int) -> Iterator[int]:
    for thread in os.listdir(f"/proc/{process}/task"):
        for child in Path(f"/proc/{process}/task/{thread}/children").read_text().split():
            yield int(child)
            yield from _descendants(int(child))


def record_and_compare(name: str, notes: ProgramNotes) -> tuple[ProgramRecord, list[str]]:
    """Return the record of a program, with any exit code, and its differences from the disk."""
    command = python(PROGRAMS[name])
    with TemporaryDirectory(prefix="tornlog-kill-") as scratch:
        root = Path(scratch, "disk")
        root.mkdir()
        export_image(EMPTY, "/", root)
        record, _ = trace(os.path.realpath(root), command[0], command, 60.0, "step", notes)
        return record, list(record_differences(record, EMPTY, root))


def main() -> None:
    """Kill one program at many of its steps."""
    name, kills = sys.argv[1], int(sys.argv[2])
    if STEPPED in sys.argv[3:]:
        plain_stores.plain_store = lambda _: None  # type: ignore[assignment]
        ptrace.CORE = None
    whole, odd = record_and_compare(name, ProgramNotes())
    problems = [str(one) for one in (*whole.unseen, *odd)]
    count = len(whole.steps)
    killed = 0
    for turn in range(min(kills, count)):
        at = 1 + turn * (count - 1) // max(1, min(kills, count) - 1)
        notes = KillingNotes(at)
        record, odd = record_and_compare(name, notes)
        if notes.killed and record.exit == -signal.SIGKILL:
            killed += 1
        if len(notes.steps) > at + len(_one_instruction(notes, at)):
            problems.append(f"killed at step {at}: noted {len(notes.steps)}")
        problems += [f"killed at step {at} of {len(record.steps)}: {one}" for one in (*record.unseen, *odd)]
    print(json.dumps({"steps": count, "killed": killed, "problems": problems}))


if __name__ == "__main__":
    main()
