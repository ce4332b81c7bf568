"""Retention: what removes old messages, and what turns new ones away when the disk is full."""
