"""Settings: broker.conf in, a table of every key out."""
