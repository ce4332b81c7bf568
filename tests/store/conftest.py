"""Golden stores as fixtures: directories the real RocketMQ 4.9.8 wrote, extracted anew for each test."""

import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tornlog.store.config import FlushDiskType, StoreConfig
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import real_world
from tornlog.store.world import World

GOLDEN = Path(__file__).parents[1] / "golden"


class Golden:
    """One case: its manifest, and its trees in a directory of the test's own."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.manifest: dict[str, Any] = json.loads((GOLDEN / name / "manifest.json").read_text("utf-8"))
        self.directory = directory

    @property
    def before(self) -> Path:
        """Return the store as its writer left it."""
        return self.tree("before")

    @property
    def after(self) -> Path:
        """Return the store as RocketMQ left it after it had recovered it."""
        return self.tree("after")

    def tree(self, name: str) -> Path:
        """Return `before` or `after`, extracted with mtimes kept when it is first asked for."""
        root = self.directory / name
        if not root.exists():
            with tarfile.open(GOLDEN / self.name / "store.tar.gz") as tar:
                members = [member for member in tar if member.name.split("/")[0] == name]
                tar.extractall(self.directory, members, filter="data")
        return root

    @property
    def observed(self) -> dict[str, Any]:
        """Return what RocketMQ saw in the store."""
        observed: dict[str, Any] = self.manifest["inspect"]["observed"]
        return observed

    def config(self, root: Path) -> StoreConfig:
        """Return the settings the store was written with, for a directory."""
        values = self.manifest["config"]
        return StoreConfig(
            str(root),
            flush_disk_type=FlushDiskType(values["flushDiskType"]),
            mapped_file_size_commit_log=values["mappedFileSizeCommitLog"],
            mapped_file_size_consume_queue=values["mappedFileSizeConsumeQueue"],
            max_message_size=values["maxMessageSize"],
            message_delay_level=values["messageDelayLevel"],
        )


@pytest.fixture
def golden(tmp_path: Path) -> Callable[[str], Golden]:
    """Extract a case."""
    return lambda name: Golden(name, tmp_path / name)


@pytest.fixture
def loaded() -> Iterator[Callable[..., MessageStore]]:
    """Make and load a store in the real world, not started; closed after the test if it still has its lock."""
    stores: list[MessageStore] = []

    def load(config: StoreConfig, world: World | None = None) -> MessageStore:
        store = MessageStore(world or real_world(), config)
        stores.append(store)
        store.load()
        return store

    yield load
    for store in stores:
        store.close()


@pytest.fixture
def started(loaded: Callable[..., MessageStore]) -> Iterator[Callable[..., MessageStore]]:
    """Make, load and start a store in the real world; shut down after the test if it still runs."""
    stores: list[MessageStore] = []

    def start(config: StoreConfig, world: World | None = None) -> MessageStore:
        store = loaded(config, world)
        stores.append(store)
        store.start()
        return store

    yield start
    for store in stores:
        if Path(store.config.abort_path).exists():
            store.shutdown()


@pytest.fixture
def fingerprint() -> Callable[[Path], dict[str, tuple[int, bytes | None]]]:
    """Return what must not change in a directory: every path with its mtime and content."""

    def of(directory: Path) -> dict[str, tuple[int, bytes | None]]:
        return {
            str(path.relative_to(directory)): (
                path.lstat().st_mtime_ns,
                path.read_bytes() if path.is_file() else None,
            )
            for path in sorted([directory, *directory.rglob("*")])
        }

    return of
