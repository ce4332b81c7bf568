"""The operations that lives end in: armed by number as a seed drew them, by name as a stored failure has them."""

from dataclasses import replace

from ...faults.disk.crash_trigger import CrashPoint, NamingCrashTrigger
from ...faults.disk.disk import Disk
from .plan import Life, Plan


class CrashPoints:
    """Arms the crashes of one run. With naming, it finds out the names of those that were drawn as numbers."""

    def __init__(self, *, naming: bool = False) -> None:
        self._naming = naming
        self._number = 0
        self._aims: dict[int, NamingCrashTrigger] = {}

    def begin_life(self, number: int) -> None:
        """Take note that the life of that number is the present one."""
        self._number = number

    def arm(self, disk: Disk, life: Life) -> None:
        """Let the present life end in the operation it names, counted from now on, if it names one."""
        if life.crash_point:
            disk.crash_at_point(CrashPoint.parse(life.crash_point), life.moment)
        elif life.operation >= 0 and self._naming:
            self._aims[self._number] = disk.crash_and_name(disk.operations + life.operation, life.moment)
        elif life.operation >= 0:
            disk.crash_at(disk.operations + life.operation, life.moment)

    def named(self, plan: Plan) -> Plan:
        """Return the plan with names for the numbers that were met; one that was not met, no life ends in."""
        return replace(
            plan, lives=tuple(self._with_name(number, life) for number, life in enumerate(plan.lives))
        )

    def _with_name(self, number: int, life: Life) -> Life:
        if life.operation < 0 or life.crash_point:
            return life
        aim = self._aims.get(number)
        point = "" if aim is None or aim.point is None else str(aim.point)
        return replace(life, operation=-1, crash_point=point)
