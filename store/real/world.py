"""The worlds a store, and code of your own, can really live in."""

from typing import NamedTuple

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


class ThisComputer(NamedTuple):
    """This computer as `store.own_code` has a world: clock, threads, and files by all that they can do."""

    clock: RealClock
    tasks: ThreadTasks
    files: RealFiles


def this_computer() -> ThisComputer:
    """Return this computer for code of your own, which in a simulation is given a `SimWorld`."""
    return ThisComputer(RealClock(), ThreadTasks(), RealFiles())
