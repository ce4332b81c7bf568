"""A service ends of what it did not foresee, and nobody is told: puts go on, its work is not done."""

from dataclasses import replace

from ...store.service import Service
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _run(self: Service) -> None:
    while not self.is_stopping:
        self.step()
    self.finish()


def _narrow(ranges: Ranges) -> Ranges:
    return replace(ranges, out_of_memory_chance=(0.5,))


MUTANT = Mutant(
    "service-dies-silently",
    "services",
    "a service that ends of what nobody foresaw tells nobody, and the store goes on as if it were there",
    (Patch(Service, "_run", _run),),
    _narrow,
    ("LIVE", "STATUS"),
)
