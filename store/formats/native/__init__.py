"""Native core: the optional C module. `store.formats.columns` describes its functions."""

INTERFACE = 7
"""Version of the core's functions. If a function changes, increase the number here and in records.c."""
