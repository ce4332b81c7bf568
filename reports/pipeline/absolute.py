"""Where a place is, whoever asks: Spark's processes need not stand in the directory in which the program was called."""

import os


def absolute(place: str) -> str:
    """Return a path of this machine from its root on, and a URI as it is."""
    return place if "://" in place else os.path.abspath(place)
