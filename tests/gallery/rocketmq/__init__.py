"""Published findings reproduced in recorded writes of the real RocketMQ store on its JVM."""
