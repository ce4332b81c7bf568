"""The worlds a store can really live in."""

from ..world import World
from .clock import RealClock
from .files import RealFiles
from .network import RealNetwork
from .overlay import OverlayFiles
from .tasks import ThreadTasks


def real_world(network: RealNetwork | None = None) -> World:
    """Return this computer: clock, threads, files mapped and synced for good, and a network, plain if none is given."""
    return World(RealClock(), ThreadTasks(), RealFiles(), network or RealNetwork())


def overlay_world() -> World:
    """Return this computer with files whose changes stay in memory: nothing on disk is ever altered."""
    return World(RealClock(), ThreadTasks(), OverlayFiles())
