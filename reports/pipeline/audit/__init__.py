"""Audit of a store directory of any size: `verify` in Spark tasks, on any file system."""
