"""Comparison with the real RocketMQ store."""
