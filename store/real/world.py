"""The worlds a store can really live in."""

from ..world import World
from .clock import RealClock
from .files import RealFiles
from .overlay import OverlayFiles
from .tasks import ThreadTasks


def real_world() -> World:
    """Return this computer: its clock, threads, and files mapped and synced for good."""
    return World(RealClock(), ThreadTasks(), RealFiles())


def overlay_world() -> World:
    """Return this computer with files whose changes stay in memory: nothing on disk is ever altered."""
    return World(RealClock(), ThreadTasks(), OverlayFiles())
