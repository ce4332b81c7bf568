"""A policy drawn by a seed: no single one finds every order of events, so a sweep takes turns."""

from ..choices import Stream
from . import Policy
from .pct import PCT
from .pos import POS
from .random_walk import RandomWalk

_MEAN_STRETCHES = (1, 3, 10, 40)
_DEPTHS = (2, 3, 4)
_HORIZON_DIGITS = (1.5, 4.0)


def draw_policy(stream: Stream) -> Policy:
    """Return a random walk, POS or PCT, with drawn parameters; the draws are not recorded, as what they lead to is.

    How long a run will be is not known beforehand, so PCT puts its changes into a horizon of any magnitude.
    """
    kind = int(stream.unrecorded() * 4)
    if kind == 0:
        return POS(stream)
    if kind == 1:
        low, high = _HORIZON_DIGITS
        horizon_steps = round(10 ** (low + (high - low) * stream.unrecorded()))
        return PCT(stream, _DEPTHS[int(stream.unrecorded() * len(_DEPTHS))], horizon_steps)
    return RandomWalk(stream, _MEAN_STRETCHES[int(stream.unrecorded() * len(_MEAN_STRETCHES))])
