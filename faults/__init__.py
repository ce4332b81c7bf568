"""Disks that fail: what a page cache holds, what a platter keeps, and what a power cut leaves of the two."""
