"""The real RocketMQ store in its own process, controlled through pipes."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from types import TracebackType
from typing import Any

from tornlog.store.config import StoreConfig

from .maven import JavaProgram

Fields = dict[str, Any]

STORES_AT_A_TIME = 24
"""Stopping a store waits for a second and more, so many stop in parallel."""
START_MS_MAX = 30_000
_ANSWER_SECONDS_MAX = 120
_MODULES = ("java.nio", "jdk.internal.ref", "sun.nio.ch")
_SETTINGS = (
    *("mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue", "maxHashSlotNum", "maxIndexNum"),
    *("messageIndexEnable", "messageDelayLevel", "maxMessageSize", "enableLmq", "enableMultiDispatch"),
    *("transientStorePoolEnable", "transientStorePoolSize"),
    *("enableConsumeQueueExt", "mappedFileSizeConsumeQueueExt", "bitMapLengthConsumeQueueExt"),
)
_ALWAYS = {
    "maxMsgsNumBatch": 1_000,
    "fileReservedTime": 300_000,
    "deleteWhen": "25",
    "cleanFileForciblyEnable": False,
    "diskMaxUsedSpaceRatio": 95,
}
"""Look-ups return all matches, and no file expires during a test."""
_LOG_PATHS = "storePathCommitLog"
_FIELDS = {one.metadata["key"].name: one.name for one in fields(StoreConfig)}


class RealStoreFailed(Exception):
    """The real store did not execute a command. This says nothing about the stores' correctness."""


class RealStoreDied(RealStoreFailed):
    """The process of the real store ended, or does not answer."""


class RealStore:
    """One process; several directories may be open in it at a time."""

    def __init__(
        self, files: JavaProgram, home: Path, *, stores: int = STORES_AT_A_TIME, is_fast: bool = False
    ) -> None:
        """Start it. home: a directory for RocketMQ's other files, such as logs.

        is_fast: use Java's usual compiler and collector instead of those that start quickly.
        """
        heap = ["-Xmx2g"] if is_fast else ["-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        with (home / "stderr.txt").open("wb") as words:
            self.process = subprocess.Popen(
                [*(files.java, *heap, *store_options(home)), *("-cp", files.class_path, "Judge", str(stores))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=words,
                cwd=home,
                text=True,
                encoding="utf-8",
            )
        self.version = files.name
        self._home = home
        self._lock = Lock()
        self._asked = 0
        self._answers: dict[int, SimpleQueue[Fields | None]] = {}
        self._ready: SimpleQueue[Fields | None] = SimpleQueue()
        self._reader = Thread(target=self._read, name="real-store", daemon=True)
        self._reader.start()
        self._next(self._ready)

    def __enter__(self) -> "RealStore":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process without stopping its open stores."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # the process has ended already, for example after `kill`
            self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.kill()
        self._reader.join(timeout=10)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def open(self, directory: Path, config: StoreConfig, times_ms: Sequence[int] = ()) -> Fields:
        """Load and start a store in a directory, which it changes; return its state, see OpenedStore.java.

        times_ms: in ascending order; look-ups by time use each, look-ups by key the range from the first to the last.
        """
        command = {"do": "open", "root": str(directory), "config": settings_of(config)}
        return self.ask({**command, "startMs": START_MS_MAX, "times": list(times_ms)})

    def ask(self, command: Fields) -> Fields:
        """Run a command; return the last of its answers."""
        *_, last = self.answers(command)
        return last

    def answers(self, command: Fields) -> Iterator[Fields]:
        """Yield the answers to a command, including the last. RealStoreDied: the process ended."""
        queue: SimpleQueue[Fields | None] = SimpleQueue()
        with self._lock:
            self._asked += 1
            number = self._asked
            self._answers[number] = queue
            assert self.process.stdin is not None
            try:
                self.process.stdin.write(json.dumps({"id": number, **command}) + "\n")
                self.process.stdin.flush()
            except (BrokenPipeError, ValueError) as error:
                raise RealStoreDied("the process of the real store has ended") from error
        done = False
        while not done:
            answer = self._next(queue)
            done = bool(answer.get("done"))
            yield answer
        del self._answers[number]

    def _next(self, queue: SimpleQueue[Fields | None]) -> Fields:
        try:
            answer = queue.get(timeout=_ANSWER_SECONDS_MAX)
        except Empty as error:
            raise RealStoreDied(f"no answer of the real store in {_ANSWER_SECONDS_MAX} s") from error
        if answer is None:
            raise RealStoreDied(f"the process of the real store has ended: {self._last_words()}")
        return answer

    def _last_words(self) -> str:
        lines = (self._home / "stderr.txt").read_text(errors="replace").splitlines()
        return lines[-1] if lines else "it said nothing"

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if not line.endswith("\n"):
                break  # incomplete because of a kill
            answer = json.loads(line)
            queue = self._ready if "ready" in answer else self._answers[answer["id"]]
            queue.put(answer)
        for queue in (self._ready, *list(self._answers.values())):
            queue.put(None)


def store_options(home: Path) -> list[str]:
    """Return Java's options for the real store. home: a directory for RocketMQ's other files, such as logs."""
    opens = [f"--add-opens=java.base/{module}=ALL-UNNAMED" for module in _MODULES]
    disk = [f"-Drocketmq.broker.diskSpace{name}Ratio=0.99" for name in ("WarningLevel", "CleanForcibly")]
    return [*opens, *disk, f"-Duser.home={home}"]


def settings_of(config: StoreConfig) -> Fields:
    """Return a store's settings under the real store's names."""
    named = {name: getattr(config, _FIELDS[name]) for name in _SETTINGS}
    return named | {_LOG_PATHS: ",".join(config.commit_log_directories)} | _ALWAYS


def config_of_settings(directory: Path, settings: Fields, recover_whole_log: bool) -> StoreConfig:
    """Return the settings of a store in a directory, from the real store's settings for `/store`.

    Old failure files lack some settings; these had their defaults.
    """
    chosen = {_FIELDS[name]: settings[name] for name in (*_SETTINGS, _LOG_PATHS) if name in settings}
    return config_in_directory(StoreConfig("/store", recover_whole_log=recover_whole_log, **chosen), directory)


def config_in_directory(config: StoreConfig, directory: Path) -> StoreConfig:
    """Return the settings of a store in another directory, including the directories of its log."""
    root = config.store_path_root_dir
    names = [path.removeprefix(f"{root}/") for path in config.commit_log_directories]
    paths = ",".join(f"{directory}/{name}" for name in names)
    return replace(config, store_path_root_dir=str(directory), store_path_commit_log=paths)
