"""Puts go to a buffer of the process first, writes fall short or fail, and the process is killed or loses power."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "a-kill-takes-only-what-was-not-committed",
    "with a buffer in front of the log, a kill takes only what was not committed, and nothing that a consumer saw",
    Ranges(
        sync_flush=(False,),
        transient_pool=(True,),
        disk=("process-kill", "process-kill", "nothing-lost", "strict-posix", "ext4-ordered"),
        commit_log_bytes=(1024, 2048, 8192, 16384),
        consumers=(0, 1, 2),
        pause_chance=(0.2, 0.5),
        pause_ms_max=(1, 100, 1000),
        faults={
            "failed_write_chance": (0.0, 0.0, 0.1),
            "short_write_chance": (0.0, 0.3),
            "refused_lock_chance": (0.0, 0.3),
            "failed_creation_chance": (0.0, 0.0, 0.1),
            "failed_sync_chance": (0.0, 0.0, 0.0, 0.03),
        },
        warm_files=(False, True),
        endings=("crash in traffic", "crash in traffic", "crash at rest", "crash in load", "stop"),
    ),
)
