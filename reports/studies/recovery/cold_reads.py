"""What reading a log costs that nobody has in memory: the least that recovery takes on a disk, whatever it computes."""

from ....faults.devices.storage import BLOCK_BYTES
from ....sim.choices import Choices
from ..topics.grid import DEVICES


def cold_read_s(disk: str, size_bytes: int) -> float:
    """Return the seconds that the model of a disk takes to read so many bytes that lie side by side."""
    device = DEVICES[disk](Choices("cold read").stream("storage"))
    return device.read(0, (0, -(-size_bytes // BLOCK_BYTES))) / 1e9
