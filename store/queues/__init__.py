"""Consume queues: dispatch from the log into them, reads through them, repair by the log."""
