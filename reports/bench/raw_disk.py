"""What the disk itself does, without a store: the yardstick beside every figure that waits for it."""

import os
from time import perf_counter

from .closed_loop import ClosedLoop
from .figure import Sample
from .workplace import Workplace

_CHUNK = os.urandom(1 << 20)  # nothing below may compress it
_PAGE_BYTES = 4096


def sequential_write(place: Workplace) -> Sample:
    """Return MB (10^6 bytes) per second that one file takes in, its sync at the end included."""
    size_bytes = place.settings.raw_bytes
    with place.directory() as directory:
        descriptor = os.open(f"{directory}/raw", os.O_WRONLY | os.O_CREAT)
        try:
            began = perf_counter()
            for _ in range(size_bytes // len(_CHUNK)):
                os.write(descriptor, _CHUNK)
            os.fdatasync(descriptor)
            return Sample(size_bytes // len(_CHUNK) * len(_CHUNK) / (perf_counter() - began) / 1e6)
        finally:
            os.close(descriptor)


def sync_of_a_page(place: Workplace) -> Sample:
    """Return how often a second a page, the next one each time, is written and synced, in a file allocated before."""
    size_bytes = place.settings.raw_bytes
    with place.directory() as directory:
        descriptor = os.open(f"{directory}/raw", os.O_WRONLY | os.O_CREAT)
        at = 0

        def write_and_sync() -> None:
            nonlocal at
            os.pwrite(descriptor, _CHUNK[:_PAGE_BYTES], at)
            os.fdatasync(descriptor)
            at = (at + _PAGE_BYTES) % size_bytes

        try:
            os.posix_fallocate(descriptor, 0, size_bytes)
            os.fdatasync(descriptor)
            return ClosedLoop([write_and_sync], place.settings.seconds).run()
        finally:
            os.close(descriptor)
