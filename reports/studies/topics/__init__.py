"""Many topics: one log for all topics, as in RocketMQ, compared with one per topic, as in Kafka."""
