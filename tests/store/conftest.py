"""Golden stores written by the real RocketMQ 4.9.8, and simulated machines with a faulty disk."""

import errno
import json
import os
import shutil
import tarfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest

from tests.native_core import load_native
from tests.one_life import call_in_one_life
from tests.store.rigs import started as started_store
from tornlog.faults.disk.disk import Disk
from tornlog.faults.disk.image import FileImage, Image
from tornlog.faults.disk.syncs import SyncTiming
from tornlog.faults.plan import FaultPlan
from tornlog.scenarios.claims.simulated_core import SimulatedCore
from tornlog.sim.choices import Choices
from tornlog.sim.errors import TaskFailedError
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk
from tornlog.store.config import FlushDiskType, StoreConfig
from tornlog.store.formats.columns import NativeCore
from tornlog.store.message_store import MessageStore
from tornlog.store.real.native import load_core
from tornlog.store.real.world import real_world
from tornlog.store.world import World

GOLDEN = Path(__file__).parents[1] / "golden"
RESERVED_HOURS = 300_000
"""34 years: golden stores never expire during tests, however full the disk is."""


@pytest.fixture(scope="session", params=["C", "simulated"])
def core(request: pytest.FixtureRequest) -> NativeCore:
    """The C core, and its replacement for simulated disks."""
    return load_c_core() if request.param == "C" else cast(NativeCore, SimulatedCore())


@pytest.fixture(scope="session")
def c_core() -> NativeCore:
    return load_c_core()


def load_c_core() -> NativeCore:
    return load_native(load_core, "tornlog.store.formats.native", "_records", "SANITIZED_CORE")


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Call a test through its fixture `inside`, if it has one, or in a lab if it has a parameter `world`."""
    inside = pyfuncitem.funcargs.get("inside")
    if inside is None:
        return call_in_one_life(pyfuncitem, ("world", "bench"))
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    inside(
        lambda **given: pyfuncitem.obj(**{**arguments, **{name: given[name] for name in given if name in arguments}})
    )
    return True


@cache
def manifest_of(name: str) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((GOLDEN / name / "manifest.json").read_text("utf-8"))
    return manifest


class Golden:
    """One golden store: its manifest, and its directories, copied for the test."""

    def __init__(self, name: str, extracted: Path, directory: Path) -> None:
        self.manifest = manifest_of(name)
        self._extracted = extracted
        self._directory = directory

    @property
    def before(self) -> Path:
        """Return the store's directory as RocketMQ wrote it."""
        return self.tree("before")

    @property
    def after(self) -> Path:
        """Return the store's directory after RocketMQ's recovery."""
        return self.tree("after")

    def tree(self, name: str) -> Path:
        """Return `before` or `after`, copied with mtimes at the first call."""
        root = self._directory / name
        if not root.exists():
            shutil.copytree(self._extracted / name, root)
        return root

    @property
    def observed(self) -> dict[str, Any]:
        """Return the state of the store as RocketMQ reported it."""
        observed: dict[str, Any] = self.manifest["inspect"]["observed"]
        return observed

    def config(self, root: Path) -> StoreConfig:
        """Return the settings of the store's writer, for a directory."""
        values = self.manifest["config"]
        return StoreConfig(
            str(root),
            flush_disk_type=FlushDiskType(values["flushDiskType"]),
            mapped_file_size_commit_log=values["mappedFileSizeCommitLog"],
            mapped_file_size_consume_queue=values["mappedFileSizeConsumeQueue"],
            max_message_size=values["maxMessageSize"],
            message_delay_level=values["messageDelayLevel"],
            max_hash_slot_num=values["maxHashSlotNum"],
            max_index_num=values["maxIndexNum"],
            file_reserved_time_hours=RESERVED_HOURS,
            clean_file_forcibly_enable=False,
            disk_space_warning_level_ratio=1.0,
            delete_commit_log_files_interval_ms=0,
            delete_consume_queue_files_interval_ms=0,
        )


@pytest.fixture(scope="session")
def extracted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Extract a golden store once, with mtimes; tests copy it."""
    root = tmp_path_factory.mktemp("golden")

    def extract(name: str) -> Path:
        directory = root / name
        if not directory.exists():
            with tarfile.open(GOLDEN / name / "store.tar.gz") as tar:
                tar.extractall(directory, filter="data")
        return directory

    return extract


@pytest.fixture
def golden(extracted: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Golden]:
    return lambda name: Golden(name, extracted(name), tmp_path / name)


class OwnedStore(MessageStore):
    """A store that is closed after the test, unless the test has closed it."""

    runs = False

    def start(self) -> None:
        super().start()
        self.runs = True

    def shutdown(self) -> bool:
        self.runs = False
        return super().shutdown()


@pytest.fixture
def loaded() -> Iterator[Callable[..., MessageStore]]:
    """Make and load a store, in the real world by default. It is closed after the test."""
    stores: list[OwnedStore] = []

    def load(config: StoreConfig, world: World | None = None) -> MessageStore:
        store = OwnedStore(world or real_world(), config)
        stores.append(store)
        store.load()
        return store

    yield load
    for store in stores:
        if store.runs:
            store.shutdown()
        else:
            store.close()


@pytest.fixture
def started(loaded: Callable[..., MessageStore]) -> Callable[..., MessageStore]:
    """Make, load and start a store, which is closed after the test."""

    def start(config: StoreConfig, world: World | None = None) -> MessageStore:
        store = loaded(config, world)
        store.start()
        return store

    return start


@pytest.fixture
def fingerprint() -> Callable[[Path], dict[str, tuple[int, bytes | None]]]:
    """Return every path of a directory with its mtime and content."""

    def of(directory: Path) -> dict[str, tuple[int, bytes | None]]:
        return {
            str(path.relative_to(directory)): (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else None)
            for path in sorted([directory, *directory.rglob("*")])
        }

    return of


class Failures:
    """Planned failures of file operations, by the method's name and a part of the path."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        """Every call that could have failed, in order."""
        self._planned: list[tuple[str, str, int, int]] = []

    def plan(self, method: str, part: str, times: int = 1, number: int = errno.EIO) -> None:
        """Make the next calls of a method fail for paths that contain part. number: the errno."""
        self._planned.append((method, part, times, number))

    def meet(self, method: str, path: str) -> None:
        """Raise the failure that was planned for a call, if any."""
        self.calls.append((method, path))
        for index, (name, part, times, number) in enumerate(self._planned):
            if name == method and part in path:
                self._planned[index : index + 1] = [(name, part, times - 1, number)] if times > 1 else []
                raise OSError(number, os.strerror(number), path)


class FailingMap:
    def __init__(self, file: Any, failures: Failures) -> None:
        self._file = file
        self._failures = failures

    def __getattr__(self, name: str) -> Any:
        if name not in ("store", "pwrite", "msync", "fdatasync", "mlock", "munlock", "advise_will_need"):
            return getattr(self._file, name)

        def call(*arguments: Any) -> Any:
            self._failures.meet(name, self._file.path)
            return getattr(self._file, name)(*arguments)

        return call


class FailingFiles:
    def __init__(self, files: Any, failures: Failures) -> None:
        self._files = files
        self._failures = failures

    def __getattr__(self, name: str) -> Any:
        def call(path: str, *arguments: Any) -> Any:
            self._failures.meet(name, path)
            found = getattr(self._files, name)(path, *arguments)
            return FailingMap(found, self._failures) if name == "map" else found

        return call


class Lab:
    """A simulated machine whose disk fails as planned. Time is virtual, so waits are fast."""

    def __init__(
        self, image: Image | None = None, timing: SyncTiming | None = None, faults: FaultPlan | None = None
    ) -> None:
        choices = Choices("lab")
        self.kernel = Kernel(RandomWalk(choices.stream("schedule"), 8))
        self.machine = self.kernel.create_machine("lab")
        self.disk = Disk(
            self.kernel, choices.stream("disk"), image=image, timing=timing or SyncTiming(0, 0), faults=faults
        )
        self.failures = Failures()
        files = FailingFiles(self.disk.mount(self.machine), self.failures)
        self.world = World(self.machine.clock, self.machine.tasks, files)

    def run(self, body: Callable[[World], Any]) -> Any:
        """Return the result of body, run as the machine's main task; raise its exception."""
        try:
            return self.kernel.run(self.machine, lambda: body(self.world), time_limit_ns=3600 * 10**9)
        except TaskFailedError as failed:
            raise failed.__cause__ or failed from None

    def switch_off(self, *, abruptly: bool = False) -> Image:
        """Return the final content of the disk; abruptly: after a process kill, with the page cache."""
        if abruptly:
            self.kernel.kill(self.machine)
        return self.disk.image_after_power_off()


@pytest.fixture
def lab() -> Iterator[Callable[..., Lab]]:
    """Make labs. Tasks that still run in a lab end after the test."""
    labs: list[Lab] = []

    def make(image: Image | None = None, timing: SyncTiming | None = None, faults: FaultPlan | None = None) -> Lab:
        labs.append(Lab(image, timing, faults))
        return labs[-1]

    yield make
    for each in labs:
        each.kernel.close()


@pytest.fixture
def small() -> Callable[..., StoreConfig]:
    """Make settings of a small store: a few messages per segment, ten entries per queue file."""

    def config(**settings: Any) -> StoreConfig:
        sizes = {
            "mapped_file_size_commit_log": 1024,
            "mapped_file_size_consume_queue": 200,
            "max_hash_slot_num": 5,
            "max_index_num": 12,
        }
        return StoreConfig("/store", **{**sizes, **settings})

    return config


@pytest.fixture
def in_store(lab: Callable[..., Lab], small: Callable[..., StoreConfig]) -> Callable[..., None]:
    """Call a body with a started store in virtual time, then stop the store cleanly."""

    def run(body: Callable[[World, MessageStore], None], **settings: Any) -> None:
        def main(world: World) -> None:
            store = started_store(world, small(**settings))
            body(world, store)
            assert store.shutdown()

        lab().run(main)

    return run


@pytest.fixture
def world(lab: Callable[..., Lab]) -> Callable[..., None]:
    """Runs a test in a new lab, with settings as those of a lab. Its arguments are then its `World` and the lab."""

    def run(test: Callable[[World, Lab], None], **machine: Any) -> None:
        made = lab(**machine)
        made.run(lambda world: test(world, made))

    return run


@pytest.fixture
def bench() -> None:
    """The lab of `world`."""


@pytest.fixture
def store() -> None:
    """A started small store in that world, provided by `inside` and stopped cleanly afterwards."""


@pytest.fixture
def inside(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Run a test in a lab if it has a parameter `world` or `store`."""
    names = request.node._fixtureinfo.argnames
    if "store" in names:
        in_store: Callable[..., None] = request.getfixturevalue("in_store")
        return lambda body: in_store(lambda world, store: body(world=world, store=store))
    if "world" in names:
        run: Callable[..., None] = request.getfixturevalue("world")
        machine = getattr(request.function, "life_settings", {})
        return lambda body: run(lambda world, bench: body(world=world, bench=bench), **machine)
    return lambda body: body()


@pytest.fixture
def patched() -> Callable[..., Image]:
    """Return an image with some bytes of one file replaced, or without the file if data is None."""

    def patch(image: Image, path: str, at: int, data: bytes | None) -> Image:
        files = dict(image.files)
        found = files.pop(path)
        if data is not None:
            content = found.content[:at] + data + found.content[at + len(data) :]
            files[path] = FileImage(content, found.mtime_ms)
        return Image(files, image.directories)

    return patch
