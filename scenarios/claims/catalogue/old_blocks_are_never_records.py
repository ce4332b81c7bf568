"""Behind the end of the log, a crash shows whole records that an older segment had in the same sectors."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "old-blocks-are-never-records",
    "bytes of an older segment behind the log's end are never taken for records, however well they check",
    Ranges(
        endings=("crash on old blocks",),
        disk=("ext4-ordered", "xfs", "strict-posix", "nothing-lost"),
        commit_log_bytes=(2048, 4096),
        body_bytes_max=(394, 394, 500),  # the first makes records of 512 bytes, which begin where sectors do
        property_bytes_max=(0,),
        equal_sizes=(True, True, False),
        messages_each=(8, 16),
        lives=(1, 2),
    ),
)
