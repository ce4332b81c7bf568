"""Opening a store: the scan after an unclean exit, and the start after a clean one.

Over copy-on-write maps of files that were just read, so that neither a disk nor what the round before has repaired is
measured; what recovery writes again, the last seconds of the log, it writes to memory.
"""

from pathlib import Path
from time import perf_counter

from ...store.message_store import MessageStore
from ...store.real.world import overlay_world
from .figure import Sample
from .workplace import Workplace

_CHUNK_BYTES = 1 << 20


def recovery_scan(place: Workplace, *, keyed: bool = False) -> Sample:
    """Return MB (10^6 bytes) of log per second that recovery reads after an unclean exit, with CRC and queues.

    keyed: a smaller log, with a key in each message; how much of the index is built again is recovery's choice.
    """
    size_bytes = place.settings.small_log_bytes if keyed else place.settings.log_bytes
    end_offset, seconds = _load(place, place.filled(size_bytes, keyed=keyed), clean_exit=False)
    return Sample(end_offset / seconds / 1e6)


def clean_load(place: Workplace) -> Sample:
    """Return how many ms the start after a clean exit takes until puts could begin; the log is that of the scan."""
    _, seconds = _load(place, place.filled(place.settings.log_bytes), clean_exit=True)
    return Sample(seconds * 1_000)


def _load(place: Workplace, directory: str, *, clean_exit: bool) -> tuple[int, float]:
    """Load the store in a directory; return where its log ends, and the seconds it took."""
    _have_in_page_cache(Path(directory))
    store = MessageStore(overlay_world(), place.config(directory))
    began = perf_counter()
    report = store.load(clean_exit=clean_exit)
    took = perf_counter() - began
    log_bytes = store.max_phy_offset
    store.close()
    if report.end_offset != log_bytes or report.records == 0:
        raise RuntimeError(
            f"recovery found {report.records} records up to {report.end_offset} of {log_bytes}"
        )
    return log_bytes, took


def _have_in_page_cache(directory: Path) -> None:
    for path in directory.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                while file.read(_CHUNK_BYTES):
                    pass
