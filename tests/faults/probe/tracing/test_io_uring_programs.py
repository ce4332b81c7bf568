"""Programs that use io_uring: C without a library, liburing, tokio-uring, and Turso.

Each is recorded with its syncs, and without. Its effects are durable at each promise, or are found to be missing.
"""

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.faults.probe.tracing.programs import compiled, needs_io_uring
from tornlog.faults.probe.durability import durability_of
from tornlog.faults.probe.record import ACKNOWLEDGE, CREATE, RENAME, SYNC, WRITE
from tornlog.faults.probe.recording.run import EMPTY
from tornlog.faults.probe.tracing.ring_operations import ENTER
from tornlog.faults.probe.tracing.run import record_traced, run_traced

pytestmark = needs_io_uring

WITHOUT_LIBRARY = r"""
/* One thread submits writes and syncs of a log, another one reads the completions and prints the synced lines. */
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
enum { LINES = 12, BYTES = 100 };
static int ring, linked;
static sem_t printed;
static struct io_uring_params p;
static char *rings;
static struct io_uring_sqe *requests;
static unsigned *word(unsigned offset) { return (unsigned *)(rings + offset); }
static struct io_uring_sqe *queued(int opcode, int file, unsigned long data) {
    unsigned tail = *word(p.sq_off.tail), index = tail & (p.sq_entries - 1);
    struct io_uring_sqe *one = memset(&requests[index], 0, sizeof *one);
    one->opcode = opcode, one->fd = file, one->user_data = data;
    word(p.sq_off.array)[index] = index;
    __atomic_store_n(word(p.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
    return one;
}
static void *read_completions(void *nothing) {
    int failed = 0;
    for (int synced = 0; synced < LINES;) {
        syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, 0, 0);
        unsigned head = *word(p.cq_off.head), tail = __atomic_load_n(word(p.cq_off.tail), __ATOMIC_ACQUIRE);
        for (; head != tail; head++) {
            struct io_uring_cqe *one = (void *)(rings + p.cq_off.cqes);
            one += head & (p.cq_entries - 1);
            failed |= one->res < 0;
            if (one->user_data % 2) { printf("%d\n", synced++); sem_post(&printed); }
        }
        __atomic_store_n(word(p.cq_off.head), head, __ATOMIC_RELEASE);
    }
    return failed ? nothing : &ring;
}
int main(int count, char **arguments) {
    static char line[BYTES];
    void *read_all;
    pthread_t reader;
    linked = !strcmp(arguments[count - 1], "sync");
    int log = open("log", O_RDWR | O_CREAT, 0644), directory = open(".", O_RDONLY);
    if (fsync(log) || fsync(directory)) return 2;
    ring = syscall(SYS_io_uring_setup, 8, &p);
    if (ring < 0) return 3;
    rings = mmap(0, p.sq_off.array + 4 * p.sq_entries, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    requests = mmap(0, 64 * p.sq_entries, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    pthread_create(&reader, 0, read_completions, 0);
    for (int number = 0; number < LINES; number++) {
        memset(line, 'a' + number, BYTES);
        struct io_uring_sqe *write = queued(IORING_OP_WRITE, log, 2 * number);
        write->off = number * BYTES, write->addr = (unsigned long)line, write->len = BYTES;
        if (linked) write->flags = IOSQE_IO_LINK;
        queued(IORING_OP_FSYNC, log, 2 * number + 1);
        if (syscall(SYS_io_uring_enter, ring, 2, 0, 0, 0, 0) != 2) return 4;
        sem_wait(&printed);
    }
    pthread_join(reader, &read_all);
    return read_all ? 0 : 5;
}
"""
WITH_LIBURING = r"""
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <string.h>
static int waited_for(struct io_uring *ring, int count) {
    struct io_uring_cqe *one;
    int failed = io_uring_submit_and_wait(ring, count) != count;
    for (; count; count--) {
        failed |= io_uring_wait_cqe(ring, &one) || one->res < 0;
        io_uring_cqe_seen(ring, one);
    }
    return failed;
}
int main(int count, char **arguments) {
    struct io_uring ring;
    int syncs = !strcmp(arguments[count - 1], "sync"), here;
    if (io_uring_queue_init(8, &ring, 0) || (here = open(".", O_RDONLY)) < 0) return 2;
    io_uring_register_ring_fd(&ring);
    if (io_uring_register_files_sparse(&ring, 4)) return 3;
    for (int number = 0; number < 3; number++) {
        char text[32];
        struct io_uring_sqe *one = io_uring_get_sqe(&ring);
        io_uring_prep_openat_direct(one, AT_FDCWD, "new", O_WRONLY | O_CREAT | O_TRUNC, 0644, 1);
        one->flags |= IOSQE_IO_LINK;
        one = io_uring_get_sqe(&ring);
        io_uring_prep_write(one, 1, text, sprintf(text, "value %d", number), 0);
        one->flags |= IOSQE_FIXED_FILE | IOSQE_IO_LINK;
        if (syncs) {
            one = io_uring_get_sqe(&ring);
            io_uring_prep_fsync(one, 1, IORING_FSYNC_DATASYNC);
            one->flags |= IOSQE_FIXED_FILE | IOSQE_IO_LINK;
        }
        one = io_uring_get_sqe(&ring);
        io_uring_prep_close_direct(one, 1);
        one->flags |= IOSQE_IO_LINK;
        one = io_uring_get_sqe(&ring);
        io_uring_prep_renameat(one, AT_FDCWD, "new", AT_FDCWD, "value", 0);
        if (syncs) {
            one->flags |= IOSQE_IO_LINK;
            io_uring_prep_fsync(io_uring_get_sqe(&ring), here, 0);
        }
        if (waited_for(&ring, syncs ? 6 : 4)) return 4;
        printf("%d\n", number);
    }
    return 0;
}
"""
TURSO = """
import sys, turso
connection = turso.connect("db", vfs="io_uring")
cursor = connection.cursor()
cursor.execute(f"PRAGMA synchronous = {'full' if sys.argv[1] == 'sync' else 'off'}")
cursor.execute("CREATE TABLE t (a)")
for number in range(3):
    cursor.execute("INSERT INTO t VALUES (?)", (number,))
    connection.commit()
    print(number, flush=True)
"""

NODE = """
const {writeFile} = require("fs/promises");
(async () => { for (const name of "ab") { await writeFile(name, "text", {flush: true}); console.log(name); } })();
"""


def not_durable_at_promises(command: Sequence[str], disk: str = "strict-posix") -> tuple[list[str], Counter[str]]:
    """Record a program. Return its effects that are not durable at a promise, and the kinds of io_uring's steps."""
    record, unlike = record_traced(command, EMPTY, 60.0)
    assert (record.unseen, unlike) == ((), [])
    assert len(record.acknowledged) >= 3
    found = durability_of(record, EMPTY, [disk])
    steps = Counter(step.kind for step in record.steps if step.call == ENTER)
    assert ACKNOWLEDGE not in steps
    return [f"{one.kind} {one.name}" for one in found.at_promises], steps


@pytest.fixture(scope="module")
def tokio_uring(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A program of tokio-uring, built by cargo."""
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.skip("cargo is not installed")
    target = tmp_path_factory.mktemp("tokio-uring")
    build = [cargo, "build", "--quiet", "--locked", "--target-dir", str(target)]
    done = subprocess.run(build, cwd=Path(__file__).parent / "tokio_uring", capture_output=True, text=True, check=False)
    if done.returncode and not os.environ.get("CI"):
        pytest.skip(f"cargo: {done.stderr.strip()[-200:]}")
    assert done.returncode == 0, done.stderr
    return str(target / "debug" / "saver")


def test_a_log_is_durable_only_if_its_syncs_are_linked_to_its_writes(tmp_path: Path) -> None:
    program = compiled(tmp_path, WITHOUT_LIBRARY, "-O1", "-pthread")

    assert not_durable_at_promises([program, "sync"]) == ([], {WRITE: 12, SYNC: 12})
    assert not_durable_at_promises([program, "apart"]) == (["append log"], {WRITE: 12, SYNC: 12})


def test_a_program_of_liburing_is_durable_only_with_its_syncs(tmp_path: Path) -> None:
    if not Path("/usr/include/liburing.h").exists():
        pytest.skip("liburing is not installed: apt-get install liburing-dev")
    program = compiled(tmp_path, WITH_LIBURING, "-Wl,--no-as-needed", "-luring")

    durable, steps = not_durable_at_promises([program, "sync"])
    lost, others = not_durable_at_promises([program, ""])

    assert (durable, sorted(lost)) == ([], ["append new", "rename new -> value"])
    assert steps == {CREATE: 3, WRITE: 3, SYNC: 3, RENAME: 3, "sync directory": 3}
    assert others == {CREATE: 3, WRITE: 3, RENAME: 3}


@pytest.mark.slow
def test_a_program_of_tokio_uring_is_durable_only_with_its_syncs(tokio_uring: str) -> None:
    durable, steps = not_durable_at_promises([tokio_uring, "sync"])
    lost, others = not_durable_at_promises([tokio_uring])

    assert (durable, sorted(lost)) == ([], ["append new", "rename new -> value"])
    assert steps == {CREATE: 3, WRITE: 3, SYNC: 3, RENAME: 3, "sync directory": 3}
    assert others == {CREATE: 3, WRITE: 3, RENAME: 3}


def test_turso_on_io_uring_is_durable_only_with_its_syncs() -> None:
    pytest.importorskip("turso", reason="pyturso is not installed")

    durable, steps = not_durable_at_promises([sys.executable, "-c", TURSO, "sync"], "ext4-ordered")
    lost, others = not_durable_at_promises([sys.executable, "-c", TURSO, ""], "ext4-ordered")

    assert durable == []
    assert min(steps[WRITE], steps[SYNC]) >= 5
    assert "append db-wal" in lost
    assert others[WRITE] >= 5


def test_node_falls_back_from_a_ring_that_is_read_by_a_kernel_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    if (node := shutil.which("node")) is None:
        pytest.skip("node is not installed")
    monkeypatch.setenv("UV_USE_IO_URING", "1")

    run = run_traced([node, "-e", NODE], EMPTY, 60.0)

    assert (run.record.unseen, run.unlike, run.record.exit) == ((), [], 0)
    assert len([step for step in run.record.steps if step.kind == WRITE]) == 2
    assert run.refused in (
        {},
        {"io_uring with IORING_SETUP_SQPOLL": "EPERM"},
    )  # old and new versions have it switched off
