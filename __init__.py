"""tornlog: a deterministic crash laboratory around a message store that is byte-compatible with RocketMQ 4.9."""

__version__ = "0.1.0"
