"""Rebuild of a store in Spark tasks, from and to any file system."""
