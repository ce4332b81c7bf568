"""The recorder's core in C, where it could be built: `tracing.core` loads it, and says what it does."""

INTERFACE = 2
"""Of the core that the Python code beside it takes: raised, here and in stops.c, when a function of it changes."""
