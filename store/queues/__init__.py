"""Consume queues: dispatch from the log into them, and reads through them."""
