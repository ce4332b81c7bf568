"""The recorder's C core, if it could be built. `tracing.core` loads and describes it."""

INTERFACE = 2
"""Version of the core's functions: incremented here and in stops.c when one of them changes."""
