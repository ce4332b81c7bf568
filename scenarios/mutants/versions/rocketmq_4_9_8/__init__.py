"""Apache RocketMQ 4.9.8: which bugs it has, and what else it does otherwise than the store here."""

from ...mutant import Mutant
from ..version import Version
from . import deviations
from .facts import FACTS

ROCKETMQ_4_9_8 = Version(
    "rocketmq-4.9.8",
    "the store with the bugs that Apache RocketMQ 4.9.8 has for certain",
    FACTS,
    tuple(each for each in vars(deviations).values() if isinstance(each, Mutant)),
    # Its recovery begins where the checkpoint says, and there is no setting for that.
    lambda ranges: ranges.replace(recover_whole_log=(False,)),
)
