"""Spark sessions that need only the extra `spark`; start with `session`."""
