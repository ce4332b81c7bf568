"""Simulated disks and networks that fail: page cache, durable data, and losses of a crash."""
