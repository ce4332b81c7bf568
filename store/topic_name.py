"""Which names a topic or a light queue can have: its queues are directories of that name."""

from functools import lru_cache


@lru_cache(maxsize=4096)
def is_storable_topic(topic: str) -> bool:
    """Return whether a topic can name a directory, as its queues need."""
    return bool(topic) and "/" not in topic and "\0" not in topic and topic not in (".", "..")
