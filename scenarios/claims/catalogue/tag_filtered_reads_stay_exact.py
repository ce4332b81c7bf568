"""Consumers with subscriptions walk queues that grow and crash."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "tag-filtered-reads-stay-exact",
    "a consumer gets exactly the messages that its subscription matches, before and after a crash",
    Ranges(
        consumers=(1, 2),
        filtered=(True,),
        equal_sizes=(False,),
        endings=("crash at rest", "stop", "crash in traffic"),
    ),
)
