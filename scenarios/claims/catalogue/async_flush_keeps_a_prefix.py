"""The plug is pulled under ASYNC_FLUSH."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "async-flush-keeps-a-prefix",
    "after a power cut under async flush, what is left is a prefix, and nothing that was flushed is missing",
    Ranges(
        sync_flush=(False,),
        disk=("ext4-ordered", "xfs", "btrfs", "strict-posix"),
        endings=("crash in traffic", "crash at rest"),
        consumers=(0,),
    ),
)
