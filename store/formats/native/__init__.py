"""The core in C, where it could be built: `store.real.native` loads it, `store.formats.columns` says what it does."""

INTERFACE = 4
"""Of the core that the Python code beside it takes: raised, here and in records.c, when a function of it changes."""
