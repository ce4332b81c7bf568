"""Many topics: one log for all of them, as RocketMQ has it, against one log for each, as Kafka has it."""
