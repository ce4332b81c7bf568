"""Command checks: an executable started for each state, or a long-running server. Also the table of all kinds of check.

The working directory of a command is the crash state. The command reads the promises, one per line, from standard
input, and the refused operations from the file TORNLOG_REFUSED. Exit code 0 means that all promises are kept. With any
other code the command prints messages to standard output; if that is empty, standard error has the messages.

A server starts once, in the user's directory, and again whenever it has ended. For each state it reads one line,
`{"directory": path, "acknowledged": [promises], "refused": [operations]}`, and writes one line, `{"broken":
[messages]}`.

TMPDIR is the program's directory for temporary files. The end of a check kills all its processes.

To add a kind, write a subclass of `Check` and add a row. The row gives it an option with help text, the replay of
failures, and crashes in recovery.
"""

import contextlib
import json
import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from tempfile import NamedTemporaryFile, TemporaryFile
from time import monotonic
from typing import IO

import msgspec

from ..endings import exit_text
from ..record import FILES, TEMPORARY, Answers
from .check import (
    BROKEN,
    DIED,
    HELD,
    NO_TEXT,
    RAISED,
    VIOLATIONS_MAX,
    Check,
    CheckError,
    CheckOutcome,
    PythonCheck,
    timed_out_outcome,
)

_KEPT_BYTES_MAX = 64 << 10  # maximum bytes to keep of each output of a command
_CHUNK_BYTES = 64 << 10
_CHUNKS_AT_ONCE = 16
_REFUSED = "TORNLOG_REFUSED"
_POLL_SECONDS, _ENDING_SECONDS = 0.05, 1.0


class CommandCheck(Check):
    """An executable that judges one state per run. CheckError: the file is not executable."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path.resolve()))
        if not path.is_file():
            raise CheckError(f"{path}: expected a Python file or an executable, found nothing")
        if not os.access(path, os.X_OK):
            raise CheckError(f"{path}: expected a Python file or an executable; make it executable with chmod +x")
        self._running: subprocess.Popen[bytes] | None = None
        self._refused: Path | None = None

    def judge(self, root: Path, answers: Answers, seconds_max: float) -> CheckOutcome:
        end = monotonic() + seconds_max
        try:
            process = self._running = self._start_check(root, answers)
        except OSError as error:
            self.close()
            return CheckOutcome(RAISED, (f"{self.name}: {error.strerror}",))
        outputs = _read_outputs(process, end)
        code = process.poll()
        self.close()
        if code is None:
            return timed_out_outcome(seconds_max)
        os.write(2, outputs[1])
        return _outcome_of_exit(code, outputs, root)

    def _start_check(self, root: Path, answers: Answers) -> subprocess.Popen[bytes]:
        refused = os.devnull
        if answers.refused:
            with NamedTemporaryFile(prefix="tornlog-refused-", delete=False) as file:
                self._refused = Path(refused := file.name)
                file.write(_join_lines(answers.refused).encode())
        with TemporaryFile() as promises:
            promises.write(_join_lines(answers.acknowledged).encode())
            promises.seek(0)
            return subprocess.Popen(
                [self.name],
                stdin=promises,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=f"{root}{FILES}",
                env={**os.environ, "TMPDIR": f"{root}{TEMPORARY}", _REFUSED: refused},
                process_group=0,
            )

    def program(self, file: Path, answers: Answers, seconds_max: float) -> list[str]:
        """Return a shell command that redirects the promises to the command's input and then executes it."""
        file.write_text(_join_lines(answers.acknowledged))
        refused = file.with_name(f"{file.name}-refused")
        refused.write_text(_join_lines(answers.refused))
        return ["/bin/sh", "-c", f'export {_REFUSED}="$2"; exec "$0" < "$1"', self.name, str(file), str(refused)]

    def close(self) -> None:
        if self._running is not None:
            _kill_process_group(self._running)
            self._running = None
        if self._refused is not None:
            self._refused.unlink(missing_ok=True)
            self._refused = None


def _join_lines(texts: Iterable[str]) -> str:
    return "".join(f"{text}\n" for text in texts)


def _outcome_of_exit(code: int, outputs: tuple[bytes, bytes], root: Path) -> CheckOutcome:
    if code == 0:
        return CheckOutcome(HELD)
    output = next((output for output in outputs if output.strip()), b"")
    text = output.decode(errors="replace").replace(str(root), "")
    lines = tuple(line for line in text.splitlines() if line.strip())[:VIOLATIONS_MAX]
    if code < 0:
        return CheckOutcome(DIED, (f"the check has ended: {exit_text(code)}", *lines))
    return CheckOutcome(BROKEN, lines or (f"the check has ended: {exit_text(code)}",))


def _read_outputs(process: subprocess.Popen[bytes], end: float) -> tuple[bytes, bytes]:
    """Read standard output and standard error until the process ends or the deadline is reached."""
    assert process.stdout is not None, process.args
    assert process.stderr is not None, process.args
    outputs = {process.stdout: b"", process.stderr: b""}
    with DefaultSelector() as selector:
        for pipe in outputs:
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, EVENT_READ)
        has_ended = False
        while not has_ended and monotonic() < end:
            if selector.get_map():
                # poll before the read, so that the last read gets all output
                has_ended = process.poll() is not None
                ready = selector.select(0 if has_ended else min(_POLL_SECONDS, max(0.0, end - monotonic())))
            else:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, end - monotonic()))
                break
            for pipe in [pipe for pipe in outputs if any(key.fileobj is pipe for key, _ in ready)]:
                outputs[pipe], is_open = _read_available(pipe, outputs[pipe])
                if not is_open:
                    selector.unregister(pipe)
    return outputs[process.stdout], outputs[process.stderr]


def _read_available(pipe: IO[bytes], before: bytes) -> tuple[bytes, bool]:
    """Read a pipe. Return the first bytes of the output so far, and whether the pipe is still open."""
    for _ in range(_CHUNKS_AT_ONCE):
        try:
            chunk = os.read(pipe.fileno(), _CHUNK_BYTES)
        except BlockingIOError:
            break
        if not chunk:
            return before, False
        before = (before + chunk)[:_KEPT_BYTES_MAX]
    return before, True


class _ServerAnswer(msgspec.Struct):
    broken: list[str]


class CheckServer(Check):
    """A server that judges one state after another. CheckError: the command line cannot be parsed."""

    kind = "check_server"
    keeps_processes = True

    def __init__(self, command: str) -> None:
        super().__init__(command)
        try:
            self._command = shlex.split(command)
        except ValueError as error:
            raise CheckError(f"{command}: {error}") from error
        if not self._command:
            raise CheckError("expected a command, found nothing")
        self.directory: str | None = None
        """The working directory of the server. None: this process's directory."""
        self._server: subprocess.Popen[bytes] | None = None

    def judge(self, root: Path, answers: Answers, seconds_max: float) -> CheckOutcome:
        """Send a state to the server and return its verdict. Start the server if it is not running."""
        question = {"directory": f"{root}{FILES}", **answers._asdict()}
        try:
            server = self._running_server()
            assert server.stdin is not None, self.name
            server.stdin.write(json.dumps(question).encode() + b"\n")
            server.stdin.flush()
        except BrokenPipeError:
            return self._outcome_of_ended_server()
        except OSError as error:
            return CheckOutcome(RAISED, (f"{self._command[0]}: {error.strerror}",))
        line = _read_line(server, monotonic() + seconds_max)
        if line is None:
            self.close()
            return timed_out_outcome(seconds_max)
        if not line.endswith(b"\n"):
            return self._outcome_of_ended_server()
        try:
            broken = msgspec.json.decode(line, type=_ServerAnswer).broken
        except msgspec.MsgspecError as error:
            text = line.decode(errors="replace").strip()
            return CheckOutcome(
                RAISED, (f'the check\'s server: expected {{"broken": [...]}}, found {text}', str(error))
            )
        lines = tuple(one.replace(str(root), "") or NO_TEXT for one in broken[:VIOLATIONS_MAX])
        return CheckOutcome(BROKEN, lines) if lines else CheckOutcome(HELD)

    def _running_server(self) -> subprocess.Popen[bytes]:
        if self._server is not None and self._server.poll() is not None:
            self.close()
        if self._server is None:
            pipe = subprocess.PIPE
            self._server = subprocess.Popen(
                self._command, stdin=pipe, stdout=pipe, bufsize=0, process_group=0, cwd=self.directory
            )
        return self._server

    def _outcome_of_ended_server(self) -> CheckOutcome:
        """Return the outcome DIED of a server that ended in a check. The next state starts a new server."""
        server = self._server
        assert server is not None, self.name
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(_ENDING_SECONDS)  # the server has closed its output, so it is about to exit
        self.close()
        return CheckOutcome(DIED, (f"the check's server has ended: {exit_text(server.returncode)}",))

    def end_processes(self) -> None:
        """Close the server's input and wait until it ends. If it does not end, kill it."""
        if self._server is not None:
            assert self._server.stdin is not None, self.name
            self._server.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._server.wait(_ENDING_SECONDS)
            self.close()

    def close(self) -> None:
        if self._server is not None:
            _kill_process_group(self._server)
            self._server = None


def _read_line(server: subprocess.Popen[bytes], end: float) -> bytes | None:
    """Return a line from a server, its last bytes if it has ended, or None at the deadline."""
    assert server.stdout is not None, server.args
    line = b""
    with DefaultSelector() as selector:
        selector.register(server.stdout, EVENT_READ)
        while not line.endswith(b"\n"):
            if not selector.select(max(0.0, end - monotonic())):
                return None
            chunk = os.read(server.stdout.fileno(), _CHUNK_BYTES)
            if not chunk:
                break
            line += chunk
    return line


def _kill_process_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its group, and close its pipes."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # all processes of the group have ended
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def check_in_file(path: Path) -> Check:
    """Return the check in a file: a Python function or an executable. CheckError: the file is neither."""
    return PythonCheck(path) if path.suffix == ".py" else CommandCheck(path)


@dataclass(frozen=True, slots=True)
class CheckKind:
    """One way to select a check on the command line. make: returns the check for a value, or raises CheckError."""

    make: Callable[[str], Check]
    help_text: str
    metavar: str = ""
    """The option's value in help texts. "": the value is a file."""


CHECK_KINDS: Mapping[str, CheckKind] = {
    "check": CheckKind(
        lambda name: check_in_file(Path(name)),
        "A Python file with check(directory, acknowledged), or an executable that exits with 0 if all promises hold.",
    ),
    CheckServer.kind: CheckKind(
        CheckServer, "A check that keeps running: reads and writes one JSON line per state.", metavar="COMMAND"
    ),
}
"""Kinds by `Check.kind`, which is the option's name with `_` for `-`."""
assert {check.kind for check in (PythonCheck, CommandCheck, CheckServer)} <= set(CHECK_KINDS)
