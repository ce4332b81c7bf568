"""Disks that fail: what a page cache holds, what is durable, and what a power cut leaves of the two."""
