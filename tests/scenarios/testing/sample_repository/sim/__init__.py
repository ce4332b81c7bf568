"""Simulates prices. It has nothing to do with tornlog's simulation of disks."""

import random


def price(day: int) -> float:
    """Return a price."""
    return random.Random(day).random()
