"""A message store with the directory format of Apache RocketMQ 4.9."""
