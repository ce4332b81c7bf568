"""Rebuild of a store of any size, by Spark tasks, from and to any file system."""
