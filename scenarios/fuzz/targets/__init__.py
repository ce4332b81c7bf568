"""The fuzz targets."""

from ..target import Target
from .checkpoint import CheckpointTarget
from .commitlog import CommitLogTarget
from .consumequeue import ConsumeQueueExtTarget, ConsumeQueueTarget
from .directory import DirectoryTarget
from .index import IndexTarget
from .remoting import RemotingTarget
from .side_json import SideJsonTarget

TARGETS: dict[str, type[Target]] = {
    target.name: target
    for target in (
        CommitLogTarget,
        ConsumeQueueTarget,
        ConsumeQueueExtTarget,
        IndexTarget,
        CheckpointTarget,
        SideJsonTarget,
        RemotingTarget,
        DirectoryTarget,
    )
}
