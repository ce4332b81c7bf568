"""Many topics: compares one log for all topics (RocketMQ) with one log per topic (Kafka)."""
