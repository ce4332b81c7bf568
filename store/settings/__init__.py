"""Settings as people write and read them: broker.conf in, a table of every key out."""
