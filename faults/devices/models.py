"""The storages that can be asked for by name."""

from collections.abc import Callable
from typing import NamedTuple

from ...sim.choices import Stream
from .flash import nvme_ssd, sata_ssd
from .hdd import HardDisk
from .storage import JournalledStorage, Storage

StorageModel = Callable[[Stream], Storage]
"""Makes a storage that draws from a stream."""


class NamedModel(NamedTuple):
    """One storage, and what it stands for."""

    meaning: str
    make: StorageModel


MODELS: dict[str, NamedModel] = {
    "hdd": NamedModel("a hard disk of 7,200 turns a minute", lambda stream: JournalledStorage(HardDisk())),
    "sata-ssd": NamedModel(
        "a SATA flash drive without capacitors", lambda stream: JournalledStorage(sata_ssd(stream))
    ),
    "nvme-ssd": NamedModel(
        "an NVMe flash drive with capacitors", lambda stream: JournalledStorage(nvme_ssd(stream))
    ),
}
