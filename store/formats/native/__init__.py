"""Native core: the optional C module, loaded by `store.real.native`.

Its functions are described in `store.formats.columns`.
"""

INTERFACE = 4
"""Version of the core's interface. When a function of the core changes, increase the number here and in records.c."""
