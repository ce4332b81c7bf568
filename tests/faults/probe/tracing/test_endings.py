"""Threads that exit or execute a program while the recorder handles another thread."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.faults.probe.tracing.programs import compiled
from tornlog.faults.probe.recording.run import EMPTY
from tornlog.faults.probe.tracing.run import record_traced

pytestmark = pytest.mark.slow

RUNS = 100
PROGRAM = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
static char **arguments;
static void *end(void *nothing) {
    usleep(atoi(arguments[1]));
    if (arguments[2] == 0) _exit(0);
    execv(arguments[2], arguments + 2);
    _exit(9);
}
int main(int count, char **given) {
    (void)count;
    arguments = given;
    int file = open("f", O_RDWR | O_CREAT, 0644);
    if (ftruncate(file, 8192)) return 8;
    volatile char *at = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    pthread_t other;
    pthread_create(&other, 0, end, 0);
    for (;;) { at[0] = 1; at[5000] = 2; }
}
"""


@pytest.fixture(scope="module")
def storing_program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A program that stores through a map until its second thread ends it."""
    return compiled(tmp_path_factory.mktemp("storing"), PROGRAM, "-O1", "-pthread")


@pytest.fixture
def busy_processors() -> Iterator[None]:
    """Keep all processors busy, so that the recorder is interrupted between its requests."""
    with ExitStack() as running:
        busy = [sys.executable, "-c", "while True: pass"]
        processes = [running.enter_context(subprocess.Popen(busy)) for _ in range(os.cpu_count() or 1) for _ in "ab"]
        try:
            yield
        finally:
            for process in processes:
                process.kill()


@pytest.mark.usefixtures("busy_processors")
@pytest.mark.parametrize("instead", [[], ["/bin/true"]])
def test_an_exec_or_exit_during_stores_to_a_map_is_recorded(instead: list[str], storing_program: str) -> None:
    for number in range(RUNS):
        record, unlike = record_traced([storing_program, str(2000 + 180 * number), *instead], EMPTY, 60.0)

        assert (record.exit, unlike) == (0, [])
