INTERFACE: int
"""All else is `TracingCore` in faults/probe/tracing/core.py."""
