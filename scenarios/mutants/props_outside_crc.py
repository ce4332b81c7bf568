"""#14 props-outside-crc: the checksum covers the body, and nothing looks at topic and properties behind it.

A record whose last sectors were lost passes if its lengths are on the sectors that were not.
"""

from dataclasses import replace

from ...store.formats import scan
from ..claims.plan import Ranges
from .mutant import Mutant, Patch


def _torn_properties(topic: bytes, properties: bytes, properties_at: int) -> str | None:
    return None


def _narrow(ranges: Ranges) -> Ranges:
    return replace(
        ranges,
        sync_flush=(False,),
        disk=("ext4-ordered", "strict-posix"),
        property_bytes_max=(700, 1500),
        commit_log_bytes=(8192, 16384),
        endings=("crash in traffic", "crash at rest"),
    )


MUTANT = Mutant(
    "props-outside-crc",
    "record format / recovery",
    "a record that lost the sectors with its properties is taken for whole",
    (Patch(scan, "torn_properties", _torn_properties),),
    _narrow,
    ("PREFIX", "CQ-VALID"),
)
