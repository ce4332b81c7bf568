"""Retention: removes old messages, and refuses new ones when the disk is full."""
