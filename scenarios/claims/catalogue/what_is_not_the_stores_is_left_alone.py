"""While the store is off, people and tools leave files among its own, cut a queue's file or damage the checkpoint."""

from ..plan import Ranges
from ..scenario import Scenario

SCENARIO = Scenario(
    "what-is-not-the-stores-is-left-alone",
    "foreign files stay where they are, and a store whose derived files are damaged opens with all of its messages",
    Ranges(
        endings=("stop and strays", "stop and strays", "crash in traffic"),
        lives=(1, 2, 3),
        commit_log_bytes=(2048, 4096),
        consume_queue_bytes=(100, 200),
        keys_chance=(0.0, 0.3),
        body_bytes_max=(40, 300),
        property_bytes_max=(0,),
        messages_each=(8, 16),
    ),
)
