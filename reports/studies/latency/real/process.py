"""Store processes: a store in a process of its own, which puts at given arrivals on request.

A process reads one line of JSON for each request and answers with one. The first line, without a request, says that
the store is started. {"do": "put", "arrivals": file, "counts": [n, ...], "answers": file} puts at the arrivals of each
producer, {"do": "stop"} shuts the store down. An answer with "error" is a failure. Both files hold integers of 64 bits,
little-endian, in ns: the gaps between arrivals, by producer; and all latencies, by producer, followed by the times of
all answers since the start.
"""

import json
import select
import shutil
import signal
import subprocess
import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..traffic import Setup
from .memory_limit import limited
from .puts import MeasuredPuts

ANSWER_SECONDS_MAX = 180
PUT_TIMEOUT_MS = 60_000
"""Time for which a store waits for a sync, or for the lock of its log, before it refuses a put."""


class StoreProcessFailed(Exception):
    """A store's process ended, answered with an error, or did not answer. The message has the reason."""


class StoreProcess:
    """A running store. Between requests it may be suspended, so that its services take no CPU time."""

    def __init__(self, command: Sequence[str], scratch: Path) -> None:
        """scratch: an existing directory for the files of requests, and for the process's errors."""
        self._scratch = scratch
        self._errors = scratch / "stderr.txt"
        # A suspended process does not notice that its input was closed, so the kernel kills it with its parent.
        with_parent = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [*with_parent, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=scratch
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, **request: Any) -> dict[str, Any]:
        """Raises StoreProcessFailed."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise StoreProcessFailed(self._exit_text()) from None
        return self.answer()

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], ANSWER_SECONDS_MAX)
        if not ready:
            raise StoreProcessFailed(f"no answer in {ANSWER_SECONDS_MAX} s")
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise StoreProcessFailed(self._exit_text())
        found: dict[str, Any] = json.loads(line)
        if "error" in found:
            raise StoreProcessFailed(found["error"])
        return found

    def put(self, gaps_ns: Sequence["array[int]"]) -> MeasuredPuts:
        arrivals, answers = self._scratch / "arrivals", self._scratch / "answers"
        arrivals.write_bytes(b"".join(little_endian(gaps) for gaps in gaps_ns))
        self.ask(do="put", arrivals=str(arrivals), counts=[len(gaps) for gaps in gaps_ns], answers=str(answers))
        found = array("q", little_endian(array("q", answers.read_bytes())))
        puts = sum(map(len, gaps_ns))
        assert len(found) == 2 * puts, "a latency and a time for each put"
        return MeasuredPuts(found[:puts], found[puts:])

    @contextmanager
    def resumed(self) -> Iterator[None]:
        """Let the process run during the block only, from the second call on."""
        self._process.send_signal(signal.SIGCONT)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGSTOP)

    def close(self) -> None:
        """Stop the store; end the process if it does not answer."""
        try:
            self._process.send_signal(signal.SIGCONT)
            if self._process.poll() is None:
                self.ask(do="stop")
                self._process.wait(ANSWER_SECONDS_MAX)
        except (StoreProcessFailed, subprocess.TimeoutExpired):
            self._process.kill()
        finally:
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                with suppress(BrokenPipeError):  # the buffer has a request that the ended process did not read
                    pipe.close()

    def _exit_text(self) -> str:
        code = self._process.wait(ANSWER_SECONDS_MAX)
        lines = self._errors.read_text(errors="replace").strip().splitlines() or ["it wrote no error"]
        killed = " (the memory limit may be too small)" if code == -signal.SIGKILL else ""
        return f"the store's process ended with {code}{killed}: {lines[-1]}"


def serve(handle: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answer the requests of the parent process until it asks to stop. handle: returns the fields of an answer."""
    _write_answer({"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "stop":
            return
        try:
            _write_answer(handle(request))
        except Exception as error:
            _write_answer({"error": f"{type(error).__name__}: {error}"})


def write_stopped() -> None:
    _write_answer({"stopped": True})


def _write_answer(fields: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def little_endian(numbers: "array[int]") -> bytes:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


@contextmanager
def store_process(command: Sequence[str], scratch: Path, memory_bytes: int | None) -> Iterator[StoreProcess]:
    """Yield a started store. Raises MemoryLimitUnavailable.

    With a limit, the store starts in a memory cgroup that is full of clean pages of a file. So each further page needs
    reclaim, as on a machine that has run for a while.
    """
    scratch.mkdir()
    if memory_bytes is not None:
        # Blocks of one page, because ext4 keeps a larger write in one folio, which reclaim frees as a whole.
        fill = 'dd if=/dev/zero of="$0" bs=4096 count="$1" conv=fsync status=none && shift && exec "$@"'
        command = ["/bin/sh", "-c", fill, str(scratch / "clean-pages"), str(memory_bytes // 4096), *command]
    with nullcontext(command) if memory_bytes is None else limited(command, memory_bytes) as whole:
        process = StoreProcess(whole, scratch)
        try:
            process.answer()
            yield process
        finally:
            process.close()


def own_store_command(root: Path, setup: Setup, sleep_seconds: float | None = None) -> list[str]:
    """Return the command of a process with this package's store. sleep_seconds: sleep that replaces a sync."""
    command = [sys.executable, "-m", f"{__package__}.own_store", str(root), json.dumps(asdict(setup))]
    return command if sleep_seconds is None else [*command, str(sleep_seconds)]
