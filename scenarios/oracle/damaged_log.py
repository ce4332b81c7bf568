"""Where in the log the disk has done damage that nobody was told of."""

from collections.abc import Iterable

from ...faults.disk.image import DamagedRange
from ...store.config import StoreConfig


def damaged_log_offset(config: StoreConfig, damage: Iterable[DamagedRange]) -> int | None:
    """Return the first log offset that is damaged, None if the log is not."""
    directory = f"{config.commit_log_directory}/"
    offsets = [
        int(path.removeprefix(directory)) + start
        for path, start, _, _ in damage
        if path.startswith(directory)
    ]
    return min(offsets, default=None)
