"""What may be done with a topic, as bits of its `perm`. Source: RocketMQ PermName."""

PERM_INHERIT = 1
"""Topics may be made after its example."""
PERM_WRITE = 2
PERM_READ = 4
PERM_READ_WRITE = PERM_READ | PERM_WRITE
