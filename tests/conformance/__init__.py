"""Comparison with the real RocketMQ store: both stores open directories that the other one wrote."""
