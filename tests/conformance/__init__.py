"""The real RocketMQ store as judge of this one, and judged by it: the same directories, opened by both."""
