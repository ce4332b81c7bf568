"""Records are long, and most of their bytes are not under the checksum."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "torn-records-are-dropped",
    "a record that reached the disk in part is cut, wherever the tear is",
    Ranges(
        sync_flush=(False,),
        disk=("ext4-ordered", "xfs", "btrfs", "strict-posix"),
        body_bytes_max=(0, 40, 900),
        property_bytes_max=(700, 1500),
        commit_log_bytes=(8192, 16384),
        endings=("crash at rest", "crash in traffic"),
        consumers=(0,),
    ),
)
