"""The recorder's C core, if it was built. `tracing.core` loads and describes it."""

INTERFACE = 2
"""Version of the core's functions. Increment it here and in stops.c when a function changes."""
