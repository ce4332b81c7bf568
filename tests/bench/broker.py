"""Measurements of a broker over loopback, with load clients."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tornlog.reports.studies.closed_loop import Latency, Sample
from tornlog.store.config import FlushDiskType

from .exchanges import QUEUES
from .workplace import Workplace

_FILL_CONNECTIONS = QUEUES
_WARM_UP_SECONDS = 0.5
"""A new broker creates its first files and its topic in this time."""
_STOP_SECONDS = 60.0


class ProcessError(Exception):
    """A process failed; the text has its output."""


class BrokerProcess:
    """`tornlog serve` of a directory, on a port chosen by the system, inside a `with` block."""

    def __init__(self, directory: str, settings: Sequence[str] = (), options: Sequence[str] = ()) -> None:
        """settings: lines of its broker.conf. options: of the command line."""
        self.address = ""
        self.stopped: dict[str, Any] = {}
        """The broker's output after the stop."""
        self._directory = directory
        self._settings = settings
        self._options = options
        self._complaints = Path(directory, "complaints.txt")
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        conf = Path(self._directory, "broker.conf")
        conf.write_text("".join(f"{line}\n" for line in self._settings), encoding="utf-8")
        store = str(Path(self._directory, "store"))
        serve = [sys.executable, "-m", "tornlog", "serve", store]
        command = [*serve, "--port", "0", "--json", "--config", str(conf), *self._options]
        with self._complaints.open("w", encoding="utf-8") as complaints:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints, text=True)
        assert self._process.stdout is not None
        ready = self._process.stdout.readline()
        if not ready:
            end_process(self._process)
            raise ProcessError(f"the broker did not start: {self._complaints.read_text(encoding='utf-8')}")
        self.address = json.loads(ready)["addresses"][0]
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            out = self._process.communicate(timeout=_STOP_SECONDS)[0]
        except subprocess.TimeoutExpired as late:
            self._process.kill()
            self._process.communicate()
            raise ProcessError(f"the broker did not stop in {_STOP_SECONDS:.0f} s") from late
        if self._process.returncode != 0:
            complaints = self._complaints.read_text(encoding="utf-8")[-2_000:]
            raise ProcessError(f"the broker ended with {self._process.returncode}: {complaints}")
        self.stopped = json.loads(out)

    @property
    def resident_bytes(self) -> int:
        assert self._process is not None
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii")
        (line,) = (line for line in status.splitlines() if line.startswith("RssAnon:"))
        return int(line.split()[1]) * 1024


@dataclass(frozen=True, slots=True)
class LoadResult:
    """Output of a load process."""

    messages: int
    busy: int
    """Number of answers that the broker was too busy."""
    answers: int
    per_second: float
    p50_us: float
    p99_us: float
    max_us: float


class LoadProcess:
    """`python -m tests.bench.load_client`, started at once."""

    def __init__(self, kind: str, address: str, *options: str) -> None:
        command = [sys.executable, "-m", "tests.bench.load_client", kind, address, *options]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def result(self) -> LoadResult:
        """Wait for the end of the process. Raises ProcessError if it failed."""
        out, err = self._process.communicate()
        if self._process.returncode != 0:
            raise ProcessError(f"a load client ended with {self._process.returncode}: {err.strip()[-2_000:]}")
        return LoadResult(**json.loads(out))

    def kill(self) -> None:
        end_process(self._process)


def end_process(process: "subprocess.Popen[str]") -> None:
    """Kill a process that has not ended, and close its pipe."""
    if process.poll() is None:
        process.kill()
    process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def measure_broker_sends(place: Workplace, flush: FlushDiskType, connections: int) -> Sample:
    """Measure sends of 1 KiB per second; each connection waits for its answer before the next send."""
    with _broker(place, flush) as broker:
        _run_load(broker, "send", connections, _WARM_UP_SECONDS)
        return _sample(_run_load(broker, "send", connections, place.settings.seconds))


def measure_broker_pulls(place: Workplace, connections: int) -> Sample:
    """Measure pulled messages of 1 KiB per second, 32 at a time; latencies are of pulls."""
    with _broker(place, FlushDiskType.ASYNC_FLUSH) as broker:
        _run_load(broker, "send", _FILL_CONNECTIONS, place.settings.seconds)
        return _sample(_run_load(broker, "pull", connections, place.settings.seconds))


@contextmanager
def _broker(place: Workplace, flush: FlushDiskType) -> Iterator[BrokerProcess]:
    with place.directory() as directory:
        settings = (f"mapedFileSizeCommitLog={place.settings.segment_bytes}", f"flushDiskType={flush.value}")
        with BrokerProcess(directory, settings) as broker:
            yield broker


def _run_load(broker: BrokerProcess, kind: str, connections: int, seconds: float) -> LoadResult:
    options = ("--connections", str(connections), "--seconds", str(seconds))
    found = LoadProcess(kind, broker.address, *options).result()
    if found.busy:
        raise RuntimeError(f"{found.busy} of {found.answers} requests were refused")
    return found


def _sample(found: LoadResult) -> Sample:
    return Sample(found.per_second, Latency(found.p50_us, found.p99_us, found.max_us))
