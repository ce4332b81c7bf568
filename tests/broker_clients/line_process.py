"""Process that answers each input line with one output line."""

import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue


class LineProcess:
    """A process that answers each input line. Output lines without the prefix are ignored."""

    def __init__(
        self, command: Sequence[str | Path], errors: Path, *, env: Mapping[str, str] | None = None, prefix: str = ""
    ) -> None:
        self._errors = errors.open("w")
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, env=env
        )
        self._prefix = prefix
        self._answers: SimpleQueue[str] = SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(self._prefix):
                self._answers.put(line.removeprefix(self._prefix).strip())

    def answer(self, timeout_s: float) -> str:
        return self._answers.get(timeout=timeout_s)

    def ask(self, line: str, timeout_s: float) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self.answer(timeout_s)

    def close(self, timeout_s: float) -> None:
        """Close the input, so that the process ends. Kill the process after the timeout."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout_s)
        finally:
            self.kill()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            assert stream is not None
            stream.close()
