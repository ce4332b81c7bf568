"""Native core: the optional C module, loaded by `store.real.native`.

Its functions are described in `store.formats.columns`.
"""

INTERFACE = 4
"""Increase it here and in records.c when a function of the core changes."""
