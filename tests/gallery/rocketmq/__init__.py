"""Published findings seen again in the real RocketMQ store's own writes, recorded on its JVM, store by store."""
