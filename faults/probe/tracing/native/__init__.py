"""The recorder's optional C core. `tracing.core` loads and documents the core."""

INTERFACE = 3
"""Version of the C functions. Increment it here and in stops.c when a function changes."""
