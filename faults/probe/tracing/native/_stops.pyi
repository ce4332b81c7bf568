INTERFACE: int
"""All else is `Core` in faults/probe/tracing/core.py."""
