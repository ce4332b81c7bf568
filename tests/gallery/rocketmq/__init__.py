"""Published findings: reproduces them in recorded writes of the real RocketMQ store."""
