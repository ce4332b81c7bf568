"""Recorded program: runs a program with the recorder in a separate process.

 python -m tornlog.faults.probe.recording ROOT RECORD (SCRIPT | -m MODULE) ARGUMENTS...

The process is separate because Python cannot remove an audit hook. ROOT contains the program's working directory and
temporary directory. The exit code is 0 if RECORD was written; the record has the program's exit code.
"""

import _posixsubprocess
import atexit
import builtins
import gc
import io
import os
import sys
import tempfile
import threading
import traceback
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import CodeType, ModuleType
from typing import Any, NoReturn

from .. import listen
from ..record import FILES, TEMPORARY
from .audit import AuditHook
from .files import RecordedFile, recorded_open
from .os_calls import OsCalls, install
from .recorder import ProgramRecorder

_real_open, _real_exit, _fork_exec = io.open, os._exit, _posixsubprocess.fork_exec


class RecordedOutput(io.TextIOWrapper):
    """Standard output that records each line at the print call, before the buffer is flushed."""

    recorder: ProgramRecorder

    def write(self, text: str, /) -> int:
        *lines, self.recorder.begun = (self.recorder.begun + text).split("\n")
        for line in lines:
            self.recorder.acknowledged(line, printed=True)
        return super().write(text)


class MainModule:
    """The program as the module `__main__`. It starts and exits as Python's own code for a script or `-m` does.

    At exit Python deletes the names of the module one by one, which flushes open files. The garbage collector might
    close a raw file before its buffer.

    Running raises an error if the program does not exist or does not compile.
    """

    def __init__(self, program: list[str]) -> None:
        self._program = program
        self._module = ModuleType("__main__")
        self._module.__dict__["__builtins__"] = builtins

    def run(self) -> None:
        sys.modules["__main__"] = self._module
        code = self._module_code() if self._program[0] == "-m" else self._script_code()
        exec(code, self._module.__dict__)

    def clear(self) -> None:
        """Delete the names of the module as Python does at exit: first names with one underscore, then all others."""
        names = self._module.__dict__
        private = [name for name in names if name.startswith("_") and not name.startswith("__")]
        others = [name for name in names if name not in private and name != "__builtins__"]
        for name in (*private, *others):
            names[name] = None

    def _script_code(self) -> CodeType:
        path = self._program[0]
        sys.argv = list(self._program)
        self._module.__file__ = path
        with io.open_code(path) as file:
            return compile(file.read(), path, "exec")

    def _module_code(self) -> CodeType:
        name = self._program[1]
        spec = find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = find_spec(f"{name}.__main__")
        if spec is None or spec.loader is None:
            raise ImportError(f"expected a module that can be run, found none named {name}")
        code = _code_from_spec(spec)
        sys.argv = [spec.origin or name, *self._program[2:]]
        self._module.__file__ = spec.origin
        self._module.__package__ = spec.parent
        self._module.__spec__ = spec
        return code


def _code_from_spec(spec: ModuleSpec) -> CodeType:
    code = spec.loader.get_code(spec.name)  # type: ignore[union-attr]  # every finder sets a loader with this method
    if not isinstance(code, CodeType):
        raise ImportError(f"{spec.name}: expected code, found none")
    return code


class ProgramRecording:
    """The recording of one program, from its first line to its last."""

    def __init__(self, root: str, record: str, program: list[str]) -> None:
        self._record = record
        self._program = program
        self._main = MainModule(program)
        self.recorder = ProgramRecorder(root, MainModule.run.__code__)
        self._process = os.getpid()
        self._is_over = False

    def start(self) -> None:
        recorder = self.recorder
        calls = OsCalls(recorder)
        RecordedFile.recorder, RecordedFile.calls = recorder, calls
        own = {builtins.open: recorded_open, io.FileIO: RecordedFile, os._exit: self._finish_and_exit}
        install({**calls.replaced_calls, **own, _fork_exec: self._start_process})
        sys.addaudithook(AuditHook(recorder))
        listen(recorder.acknowledged)
        printed = RecordedOutput(sys.stdout.buffer, sys.stdout.encoding, sys.stdout.errors, line_buffering=True)
        printed.recorder = recorder
        sys.stdout = printed

    def run(self) -> int:
        """Run the program as Python does, with its threads and exit functions. Return the exit code."""
        code = self._run_main()
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
        atexit._run_exitfuncs()
        self._main.clear()
        gc.collect()
        return code

    def _run_main(self) -> int:
        try:
            self._main.run()
        except SystemExit as error:
            return _exit_code(error.code)
        except BaseException as error:
            trace = error.__traceback__
            while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
                trace = trace.tb_next
            traceback.print_exception(type(error), error, trace)
            return 1
        return 0

    def finish(self, code: int) -> None:
        """Write the record once, but not in a forked child."""
        if not self._is_over and os.getpid() == self._process:
            self._is_over = True
            text = self.recorder.record(self._program, code).dumps()
            with _real_open(self._record, "w") as file:
                file.write(text)

    def _start_process(self, *arguments: Any) -> int:
        """Replace the function that starts processes for `subprocess` and `multiprocessing`; the latter has no audit
        event.
        """
        self.recorder.report_unseen("subprocess.Popen", f"{arguments[0][0]!s}: another process")
        return _fork_exec(*arguments)

    def _finish_and_exit(self, status: int) -> NoReturn:
        self.finish(status)
        _real_exit(status)


def _exit_code(code: Any) -> int:
    """Return the exit code for the argument of SystemExit."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code
    print(code, file=sys.stderr)
    return 1


def main() -> None:
    root, record, *program = sys.argv[1:]
    if program[0] == "-m":
        sys.path.insert(0, os.getcwd())
    else:
        program[0] = os.path.abspath(program[0])
        sys.path.insert(0, os.path.dirname(program[0]))
    root, record = os.path.realpath(root), os.path.abspath(record)
    temporary = root + TEMPORARY
    os.chdir(root + FILES)
    os.environ["TMPDIR"] = tempfile.tempdir = temporary
    recording = ProgramRecording(root, record, program)
    recording.start()
    recording.finish(recording.run())
    sys.stdout.flush()
    _real_exit(0)  # skip Python's own exit steps, which would not be recorded
