"""How prices move. Has nothing to do with anybody's simulation of disks."""

import random


def price(day: int) -> float:
    """Return a price."""
    return random.Random(day).random()
