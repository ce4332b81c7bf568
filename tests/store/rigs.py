"""Helpers for tests of several packages of the store."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tornlog.store.config import StoreConfig
from tornlog.store.message_store import MessageStore
from tornlog.store.real.world import overlay_world
from tornlog.store.tools.geometry import Geometry
from tornlog.store.tools.verify import Verification, verify_directory
from tornlog.store.world import World

Make = Callable[..., Any]
"""Type of fixtures that are functions, for example `lab` and `small`."""


def started(world: World, config: StoreConfig) -> MessageStore:
    store = MessageStore(world, config)
    store.load()
    store.start()
    return store


class StandingClock:
    """A clock that always returns the same time, so no delayed message becomes due."""

    def __init__(self, wall_ms: int) -> None:
        self._wall_ms = wall_ms

    def now_ms(self) -> int:
        return self._wall_ms

    def monotonic_ns(self) -> int:
        return self._wall_ms * 1_000_000

    def utc_offset_ms(self) -> int:
        return 0


def verified(root: Path, told: Geometry | None = None) -> Verification:
    """Verify a directory. told: the known settings of its store."""
    return verify_directory(overlay_world().files, str(root), told or Geometry(), lambda read_bytes: None)
