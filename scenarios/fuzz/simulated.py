"""One task on one simulated machine, whose errors come out as they were raised."""

from collections.abc import Callable
from typing import TypeVar

from ...faults.disk.disk import Disk
from ...faults.disk.image import Image
from ...sim.choices import Choices
from ...sim.errors import LivenessError, TaskFailedError
from ...sim.kernel import Kernel
from ...sim.policies.random_walk import RoundRobin
from ...store.world import World
from ..claims.machine import world_of
from .target import TargetViolation

T = TypeVar("T")

_STEP_LIMIT = 200_000
_TIME_LIMIT_NS = 600 * 10**9
_NEVER_INTERRUPTED = 1 << 60


def run_on(image: Image | None, body: Callable[[World], T]) -> tuple[T, Image]:
    """Run body on a machine that finds an image on its disk; return its value, and what the disk has then.

    Raises what body, or any task it started, raised. Broken: it came to no end.
    """
    with Kernel(RoundRobin(_NEVER_INTERRUPTED), step_limit=_STEP_LIMIT) as kernel:
        disk = Disk(kernel, Choices("").stream("disk"), image=image)
        machine = kernel.machine("machine")
        world = world_of(machine, disk)
        try:
            value = kernel.run(machine, lambda: body(world), time_limit_ns=_TIME_LIMIT_NS)
        except TaskFailedError as failed:
            if failed.__cause__ is None:
                raise
            raise failed.__cause__ from None
        except LivenessError as stuck:
            raise TargetViolation("no-end", "an end", str(stuck)[:500]) from stuck
        return value, disk.settle()
