"""The process is killed; the page cache lives on."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "process-kill-loses-nothing",
    "after a process kill, every answered message is there, and a power cut after the restart does not change that",
    Ranges(disk=("process-kill", "process-kill", "strict-posix"), lives=(1, 2, 3)),
)
