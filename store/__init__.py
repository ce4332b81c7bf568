"""A message store whose directory is byte-compatible with Apache RocketMQ 4.9. Usable on its own."""
