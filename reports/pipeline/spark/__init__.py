"""Spark sessions; they need only the extra `spark`."""
